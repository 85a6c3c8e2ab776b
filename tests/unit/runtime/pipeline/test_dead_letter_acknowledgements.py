"""Acknowledgements of dead letters, while the client that brings them has trouble."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from kconnect.api import SinkTask, TimestampType
from kconnect.errors import ConnectError
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.config.connector_config import DeadLetterSettings
from kconnect.runtime.pipeline.dead_letter import DeadLetterQueue
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.stages import Stage, StageError
from kit.memory_producer import MemoryProducer
from kit.pace import ample_s
from kit.waiting import eventually

REFUSED = "the broker refuses the login"


class GuardedProducer(MemoryProducer):
    """Raises from serve() while the broker refuses it; else what was sent is acknowledged there."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals_left = 0
        self.has_refused = threading.Event()

    def serve(self, timeout_s: float = 0) -> None:
        if self.refusals_left:
            self.refusals_left -= 1
            self.has_refused.set()
            raise ConnectError(REFUSED)
        self.acknowledge(len(self.sent))
        super().serve()
        threading.Event().wait(0.01)  # as one that waits for the first acknowledgement


@pytest.fixture
def producer() -> GuardedProducer:
    return GuardedProducer()


def unused(*given: object) -> Any:
    return None


@pytest.fixture
def letters(producer: GuardedProducer) -> Iterator[DeadLetterQueue]:
    nothing = cast("Any", None)
    ports = TaskPorts(report=unused, offsets=nothing, reconfigure=unused, housekeeping=nothing, plugins=nothing)
    control = TaskControl(TaskSpec(TaskId("orders", 0), 1, ConnectorType.SINK, {}, {}, {}), ports)
    queue = DeadLetterQueue(
        DeadLetterSettings(topic="dlq"), control, producer, unused, RawRecords(is_wanted=True), lambda kind: "Java"
    )
    yield queue
    queue.close()


def failed() -> StageError:
    record = FetchedRecord("orders", 0, 1, None, b"x", None, TimestampType.NO_TIMESTAMP_TYPE, None)
    return StageError(Stage.TASK_PUT, SinkTask, record, ValueError("bad"))


def test_reports_are_acknowledged_once_the_broker_takes_them_though_it_refused_for_a_while(
    producer: GuardedProducer, letters: DeadLetterQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """A task may wait for its report inside its put(): nobody else would take in the acknowledgement."""
    producer.refusals_left = 2
    reports = [letters.report(failed(), 1)]
    assert producer.has_refused.wait(ample_s(10))
    reports.append(letters.report(failed(), 1))
    for report in reports:
        assert report.result(ample_s(20)) is None
    letters.settle(ample_s(5))
    (line,) = [line for line in caplog.messages if REFUSED in line]
    assert line == f"Acknowledgements of dead letters cannot be read and will be retried: {REFUSED}"


def test_a_commit_that_waits_in_vain_for_dead_letters_says_what_the_broker_refuses(
    producer: GuardedProducer, letters: DeadLetterQueue
) -> None:
    producer.refusals_left, producer.is_stopped = 1_000_000, True
    letters.report(failed(), 1)
    assert producer.has_refused.wait(ample_s(10))

    def settled() -> str:
        with pytest.raises(ConnectError) as raised:
            letters.settle(0.01)
        return str(raised.value)

    eventually(lambda: settled() == REFUSED, 10, "the refusal is known")
