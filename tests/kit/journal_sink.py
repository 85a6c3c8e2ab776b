"""A sink for rebalance tests: what it is asked, it writes to a file, a JSON object a line; tasks may be anywhere.

Settings: `journal` (file), `slow.put.ms` (how long a put with records takes).
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kconnect.api import ConfigDef, SinkConnector, SinkRecord, SinkTask
from kconnect.model import TopicPartition

_MEMBERS = itertools.count()


class JournalSinkTask(SinkTask):
    """One line a call; the file is opened to append, so lines of several tasks do not mix."""

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        self._member = f"{os.getpid()}-{next(_MEMBERS)}"
        self._write("start")

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self._write("open", partitions=sorted(map(str, partitions)))

    def put(self, records: list[SinkRecord]) -> None:
        if records:
            time.sleep(int(self._props.get("slow.put.ms", "0")) / 1000)
            self._write("put", records=[(f"{r.topic}-{r.kafka_partition}", r.kafka_offset) for r in records])

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._write("pre_commit", offsets={str(place): offset for place, offset in current_offsets.items()})
        return current_offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._write("close", partitions=sorted(map(str, partitions)))

    def stop(self) -> None:
        self._write("stop")

    def _write(self, call: str, **more: Any) -> None:
        line = json.dumps({"member": self._member, "call": call, **more}) + "\n"
        # One call of the system a line, so that lines of other members do not cut it
        with Path(self._props["journal"]).open("ab", buffering=0) as file:
            file.write(line.encode())


class JournalSink(SinkConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = props

    def task_class(self) -> type[SinkTask]:
        return JournalSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._props)] * max_tasks

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "1"


JOURNAL_SINK = "kit.journal_sink:JournalSink"


def read_journal(path: Path) -> list[dict[str, Any]]:
    """All calls so far, of all members, in the order of their ends. A line that is being written is not there yet."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def broken_rules(calls: list[dict[str, Any]]) -> list[str]:
    """What one member's calls do against Java's order: start, then open .. put .. pre_commit, close, .., stop.

    Source: o.a.k.connect.runtime.WorkerSinkTask, and what SinkTask's documentation promises.
    """
    broken: list[str] = []
    held: set[str] = set()
    last: dict[str, int] = {}
    before: dict[str, Any] = {"call": ""}
    for number, call in enumerate(calls):
        kind, given = call["call"], set(call.get("partitions", ()))
        if (kind == "start") != (number == 0):
            broken.append(f"{kind} is call {number}")
        if before["call"] == "stop":
            broken.append(f"{kind} after stop")
        if kind == "open":
            broken += [f"{place} opened twice" for place in given & held]
            held |= given
        elif kind == "put":
            for place, offset in call["records"]:
                if place not in held:
                    broken.append(f"{place}@{offset} put while it was not open")
                if offset <= last.get(place, -1):
                    broken.append(f"{place}@{offset} put after {last[place]}")
                last[place] = offset
        elif kind == "close":
            broken += [f"{place} closed, not open" for place in given - held]
            written = {place for place in given if place in last}
            if written and (before["call"] != "pre_commit" or not written <= before["offsets"].keys()):
                broken.append(f"close of {sorted(written)} without pre_commit just before, but {before['call']}")
            held -= given
            for place in given:  # whoever gets it next, or this member again, begins at the commit
                last.pop(place, None)
        elif kind == "stop" and held:
            broken.append(f"stop with {sorted(held)} open")
        before = call
    return broken
