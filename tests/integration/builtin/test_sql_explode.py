"""Records that a query makes of one: sent, put and committed together."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from kconnect.api import SourceRecord
from kconnect.java.devbroker import DevBroker
from kit.pipeline_host import RECORD_SOURCE, SINK, SOURCE, Behaviour, PipelineHost
from kit.topics import consume_values
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "sql",
    "transforms.sql.type": "SqlTransform",
    "transforms.sql.query": "SELECT id, explode(items) AS item FROM records",
}
_GIVEN: Final = [{"id": 1, "items": ["a", "b"]}, {"id": 2, "items": []}, {"id": 3, "items": ["c"]}]
_MADE: Final = [{"id": 1, "item": "a"}, {"id": 1, "item": "b"}, {"id": 3, "item": "c"}]


@pytest.fixture
def host(broker: DevBroker) -> Any:
    Behaviour.reset()
    with PipelineHost(broker.bootstrap, group_id="explode") as made:
        yield made


@pytest.mark.parametrize("kind", [SOURCE, RECORD_SOURCE])
def test_a_source_commits_a_record_when_all_that_was_made_of_it_is_written(
    broker: DevBroker, topic: str, host: PipelineHost, kind: str
) -> None:
    given = [[SourceRecord({"p": 1}, {"n": value["id"]}, topic, value)] for value in _GIVEN]
    Behaviour.poll = lambda task: given.pop(0) if given else (task.context.wait(0.01), None)[1]
    spec = host.start_source("unfolds", kind, **_JSON)
    assert [json.loads(value or b"") for value in consume_values(broker.bootstrap, topic, 3)] == _MADE
    eventually(lambda: host.offsets.of("unfolds") == [{"n": 3}], 20, "the last offset is committed")
    host.stop(spec)
    if kind == RECORD_SOURCE:
        reported = [call.rpartition(" ")[2] for call in Behaviour.calls if call.startswith("commit_record")]
        assert sorted(reported) == ["0@1", "0@2", "dropped"]


def test_a_sink_is_given_all_that_was_made_of_a_record_in_one_put(
    broker: DevBroker, topic: str, host: PipelineHost
) -> None:
    puts: list[list[tuple[Any, int]]] = []
    Behaviour.put = lambda task, records: puts.append([(record.value, record.kafka_offset) for record in records])
    given = [SourceRecord({}, {}, topic, value) for value in _GIVEN]
    Behaviour.poll = lambda task: [given.pop(0)] if given else (task.context.wait(0.01), None)[1]
    raw = {key: value for key, value in _JSON.items() if key.startswith("value")}
    source = host.start_source("raw", SOURCE, **raw)
    sink = host.start_sink("unfolded", SINK, topics=topic, **_JSON)
    wanted = list(zip(_MADE, [0, 0, 2], strict=True))
    eventually(lambda: [record for put in puts for record in put] == wanted, 30, "all records were put")
    assert [offset for _, offset in puts[0]][:2] == [0, 0]
    host.stop(source)
    host.stop(sink)
