"""The data path: one Connect task from end to end, and the host of many.

Imported by `spark` (slots host tasks) and `testing`; imports `kafka`, `plugins`, `config` and `api`.
Start reading at source.py and sink.py: each loop stands at the top of its file.
"""

from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.host import TaskHost
from kconnect.runtime.pipeline.lifecycle import TaskThread
from kconnect.runtime.pipeline.ports import OffsetPort, TaskControl, TaskPorts

__all__ = ["OffsetPort", "TaskControl", "TaskCounters", "TaskHost", "TaskPorts", "TaskThread"]
