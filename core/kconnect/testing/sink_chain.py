"""SinkChain: a sink connector's own converters, transformations and put() in this process, for records from outside.

What `connect dlq replay --through` runs on. Records keep their original topic, partition and offset.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kconnect.api import ConsumerRecord
from kconnect.clock import Clock
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.pipeline.conversion import FetchedRecord
from kconnect.testing.plugin_calls import explained
from kconnect.testing.sink_harness import SinkHarness


@dataclass(frozen=True, slots=True)
class Passed:
    """What became of a record: put(), dropped by a transformation, or failed with `why`."""

    is_put: bool
    why: str | None = None


REPLAY = "kconnect.replay"
"""In a task's config: its records are single ones from outside, in any order. Their offsets say nothing."""


class SinkChain:
    """One task of a sink. A context manager: starts it, and stops it without a commit. Threads: one.

    No offset of the connector's is changed.
    Errors: ConfigError; what the connector raises when it starts.
    """

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], *, clock: Clock | None = None) -> None:
        """`config`, `worker`: references resolved."""
        own = {**config, "tasks.max": "1", "errors.tolerance": "all", "errors.retry.timeout": "0"}
        # A sink that keeps offsets with its data must not take those of single records for the connector's own
        own |= {"name": f"{config.get('name', 'sink')}-replay-{secrets.token_hex(4)}", REPLAY: "true"}
        self._harness = SinkHarness(own["connector.class"], own, worker=worker, partitions=(), clock=clock)

    def __enter__(self) -> Self:
        try:
            self._harness.start()
        except BaseException as error:
            raise explained(self._harness._run.calls, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._harness.crash()
        else:
            self._harness.crash_after_error()

    def put(self, record: ConsumerRecord) -> Passed:
        """Take one record through converters and transformations to the task. Never raises for what they raise."""
        harness = self._harness
        place = TopicPartition(record.topic, max(record.partition, 0))
        harness._add_partition(place)
        (task,) = harness._tasks
        given = len(harness.errant)
        fetched = FetchedRecord(
            place.topic,
            place.partition,
            record.offset,
            record.key,
            record.value,
            record.timestamp,
            record.timestamp_type,
            list(record.headers) or None,
        )
        try:
            read = task.stages.converters.to_connect_record(fetched)
            kept: Any = None if read is None else task.stages.transforms.apply_record(read)
            if kept is not None:
                task.put([kept])
        except Exception as error:  # the plugin's
            return Passed(False, _said(error))
        task.moved({place: record.offset + 1})
        if len(harness.errant) > given:
            reported = harness.errant[-1].error
            return Passed(False, _said(reported))
        return Passed(kept is not None)

    def flush(self) -> None:
        """Have the task write out what was put, as before a commit. Errors: ConnectError with what it raised."""
        (task,) = self._harness._tasks
        try:
            task.pre_commit(task.assignment(), is_last=True)
        except Exception as error:  # the plugin's
            raise ConnectError(f"flush() failed: {type(error).__name__}: {error}") from error


def _said(error: BaseException) -> str:
    """The error, and behind it what caused it first."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = f"{type(error).__name__}: {error}".strip().rstrip(":")
    return text if root is error or str(root) in text else f"{text}: {type(root).__name__}: {root}"
