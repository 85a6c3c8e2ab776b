"""ObjectSource and ObjectSink in a folder, through the harness."""

from __future__ import annotations

from pathlib import Path

from kconnect.testing import MemoryLog, SinkHarness, SourceHarness


def source_of(folder: Path, **more: str) -> SourceHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"object.url": str(folder), "topic": "rows", "poll.interval.ms": "1", "object.settle.ms": "0", **settings}
    return SourceHarness("ObjectSource", config)


def sink_into(folder: Path, log: MemoryLog | None = None, **more: str) -> SinkHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"object.url": str(folder), "topics": "t", "object.path": "", **settings}
    return SinkHarness("ObjectSink", config, log=log)
