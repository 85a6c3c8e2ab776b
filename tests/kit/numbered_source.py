"""A source of numbers 0, 1, 2 .. for exactly-once tests: whole lists of them, as fast as they are taken.

Settings: `topic`, `most` (how many in all), `tasks` (how many tasks), `size` (records of a poll). As a program it runs
one task of it against a broker until it is killed: `python -m kit.numbered_source BOOTSTRAP OFFSETS_TOPIC TOPIC NAME`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping

from kconnect.api import ConfigDef, ExactlyOnceSupport, Schema, SourceConnector, SourceRecord, SourceTask
from kit.committed_offsets import CommittedOffsets, committed_store
from kit.pipeline_host import PipelineHost

NUMBERED = "kit.numbered_source:NumberedSource"


class NumberedTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._topic, self._partition = props["topic"], {"task": props.get("task", "0")}
        self._most, self._size = int(props.get("most", "1000000000")), int(props.get("size", "100"))
        offset = self.context.offset_storage_reader().offset(self._partition)
        self._next = 0 if offset is None else int(offset["next"])

    def poll(self) -> list[SourceRecord] | None:
        end = min(self._next + self._size, self._most)
        if self._next >= end:
            self.context.wait(0.05)
            return None
        numbers, self._next = range(self._next, end), end
        name = self._partition["task"]
        return [
            SourceRecord(
                self._partition,
                {"next": number + 1},
                self._topic,
                f"{name}:{number}",
                value_schema=Schema.STRING_SCHEMA,
            )
            for number in numbers
        ]

    def stop(self) -> None: ...


class NumberedSource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SourceTask]:
        return NumberedTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = int(self._props.get("tasks", "1"))
        return [{**self._props, "task": str(number)} for number in range(min(count, max_tasks))]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "1"

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED


def exactly_once_host(bootstrap: str, offsets: CommittedOffsets, topic: str, **worker: str) -> PipelineHost:
    """A host as a worker with exactly-once support has them; `topic` is the offsets topic of the worker."""
    settings = {"group.id": "eos", "exactly.once.source.support": "enabled", "offset.storage.topic": topic}
    return PipelineHost(bootstrap, port=offsets, **{"offset.flush.interval.ms": "60000", **settings, **worker})


def main(bootstrap: str, offsets_topic: str, topic: str, name: str) -> None:
    with (
        committed_store(bootstrap, offsets_topic) as store,
        exactly_once_host(bootstrap, CommittedOffsets(store, store), offsets_topic) as host,
    ):
        boundary = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "50"}
        # Whoever reads the offsets next waits for what a killed run left open, at most for this time
        host.start_source(
            name, NUMBERED, topic=topic, **boundary, **{"producer.override.transaction.timeout.ms": "2000"}
        )
        sys.stdout.write("started\n")
        sys.stdout.flush()
        threading.Event().wait(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
