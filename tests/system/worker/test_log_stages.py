"""Error lines of a task name the stage they come from: `[connector|task-0|stage]`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kconnect.api import SourceRecord
from kconnect.errors import RetriableError
from kconnect.java.devbroker import DevBroker
from kconnect.logs.log_context import current_context
from kconnect.model import RunState
from kit.pipeline_host import RECORD_SOURCE, SINK, SOURCE, Behaviour, PipelineHost
from kit.topics import produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


class Lines(logging.Handler):
    """What the log writes: the context in which a line is written, and the line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append((current_context().strip(), record.getMessage()))

    def contexts_of(self, text: str) -> set[str]:
        return {context for context, line in self.found if text in line}


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    logging.getLogger("kconnect").addHandler(handler)
    yield handler
    logging.getLogger("kconnect").removeHandler(handler)


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def polled_once(topic: str, **more: Any) -> Any:
    left = [[SourceRecord({"t": 1}, {"row": 1}, topic, "v", **more)]]
    return lambda task: left.pop() if left else (task.context.wait(0.01), None)[1]


def await_failed(host: PipelineHost, spec: Any) -> None:
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)


@pytest.mark.parametrize("stage", ["start", "poll", "produce", "topics"])
def test_the_line_of_a_failed_source_names_the_stage(
    stage: str, broker: DevBroker, request: pytest.FixtureRequest, lines: Lines
) -> None:
    name = topic_for(request)
    more = {}
    if stage in ("start", "poll"):
        Behaviour.raise_in = stage
    else:
        Behaviour.poll = polled_once(name, kafka_partition=7)  # the topic will have one
    if stage == "topics":
        more = {"topic.creation.default.replication.factor": "9", "topic.creation.default.partitions": "1"}
    with PipelineHost(broker.bootstrap, producer_message_timeout_ms="3000") as host:
        await_failed(host, host.start_source(name, SOURCE, **more))
    assert lines.contexts_of("failed:") == {f"[{name}|task-0|{stage}]"}


@pytest.mark.parametrize("stage", ["open", "put", "value-converter", "transformation", "offsets"])
def test_the_line_of_a_failed_sink_names_the_stage(
    stage: str, broker: DevBroker, topic: str, request: pytest.FixtureRequest, lines: Lines
) -> None:
    name = topic_for(request)
    produce_lines(broker.bootstrap, topic, ["no json"])
    more: dict[str, str] = {"errors.log.enable": "true"}
    if stage == "value-converter":
        more |= JSON
    elif stage == "transformation":
        more |= {"transforms": "x", "transforms.x.type": "ReplaceField$Value", "transforms.x.exclude": "a"}
    else:
        Behaviour.raise_in = {"offsets": "flush", "open": f"open {topic}-0"}.get(stage, stage)
    with PipelineHost(broker.bootstrap) as host:
        await_failed(host, host.start_sink(name, SINK, topics=topic, **more))
    assert lines.contexts_of("failed:") == {f"[{name}|task-0|{stage}]"}
    if stage in ("value-converter", "transformation"):
        assert lines.contexts_of("Error encountered in task") == {f"[{name}|task-0|{stage}]"}


def test_what_is_tried_again_names_the_stage_and_the_lines_of_the_plugin_stay_javas(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest, lines: Lines
) -> None:
    name, seen = topic_for(request), []

    def put(task: Any, records: list[Any]) -> None:
        seen.append(current_context().strip())
        if len(seen) < 2:
            task.context.timeout(10)
            raise RetriableError("busy")

    Behaviour.put = put
    produce_lines(broker.bootstrap, topic, ["a"])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_sink(name, SINK, topics=topic)
        host.await_count(spec, "records_put", 1)
    assert lines.contexts_of("will be retried") == {f"[{name}|task-0|put]"}
    assert seen == [f"[{name}|task-0]"] * 2


def test_a_hook_that_fails_is_reported_with_its_name(
    broker: DevBroker, topic: str, request: pytest.FixtureRequest, lines: Lines
) -> None:
    name = topic_for(request)
    Behaviour.poll = polled_once(topic)
    Behaviour.raise_in = "commit"
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(name, RECORD_SOURCE)
        eventually(lambda: "commit" in Behaviour.calls, 20, "commit() was called")
        assert host.states(spec) == [RunState.RUNNING]
    assert lines.contexts_of("commit() failed; the task continues") == {f"[{name}|task-0|commit]"}
