"""For authors of connectors: run one in this process with no Kafka and no Spark, and look at what it does.

Imported by tests, and by `connect try`; never by what runs in production. Imports pipeline, plugins, storage and api.
Start with SourceHarness and SinkHarness. Names come when first used: importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kconnect.testing.errant_records import ErrantRecord
    from kconnect.testing.manual_clock import ManualClock
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
    "ErrantRecord": "errant_records",
    "MemoryRecord": "memory_log",
    "ManualClock": "manual_clock",
    "MemoryLog": "memory_log",
    "SinkHarness": "sink_harness",
    "SourceHarness": "source_harness",
    "ThreadLauncher": "thread_launcher",
}


def __getattr__(name: str) -> Any:  # the module's own attribute, of whatever kind
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
