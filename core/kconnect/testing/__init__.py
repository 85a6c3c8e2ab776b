"""For authors of connectors: run one in this process with no Kafka and no Spark, and look at what it does.

Imported by tests, and by `connect try`; never by what runs in production. Imports pipeline, plugins, storage and api.
Start with SourceHarness and SinkHarness. Names come when first used: importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kconnect.clock import ManualClock
    from kconnect.testing.errant_records import ErrantRecord
    from kconnect.testing.memory_log import MemoryLog, MemoryRecord
    from kconnect.testing.sink_harness import SinkHarness
    from kconnect.testing.source_harness import SourceHarness
    from kconnect.testing.thread_launcher import ThreadLauncher

__all__ = [
    "ErrantRecord",
    "ManualClock",
    "MemoryLog",
    "MemoryRecord",
    "SinkHarness",
    "SourceHarness",
    "ThreadLauncher",
]

_MODULES = {
    "ErrantRecord": "kconnect.testing.errant_records",
    "MemoryRecord": "kconnect.testing.memory_log",
    "ManualClock": "kconnect.clock",
    "MemoryLog": "kconnect.testing.memory_log",
    "SinkHarness": "kconnect.testing.sink_harness",
    "SourceHarness": "kconnect.testing.source_harness",
    "ThreadLauncher": "kconnect.testing.thread_launcher",
}


def __getattr__(name: str) -> Any:  # the module's own attribute, of whatever kind
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
