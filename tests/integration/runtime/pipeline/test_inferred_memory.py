"""Schemas that a converter inferred outlive the worker: what a field was once, it is after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kconnect.client import ConnectClient
from kconnect.runtime.kafka import KafkaAdmin
from kconnect.testing.thread_launcher import ThreadLauncher
from kit.distributed_worker import workers
from kit.topics import consume, create_topic, produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker


def sink(topic: str, file: Path) -> dict[str, Any]:
    return {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(file),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.converter.schemas.infer.enable": "true",
    }


def lines_after(bootstrap: str, topic: str, file: Path, *values: str, expect: int, **settings: str) -> list[str]:
    """What the sink has written in all, once a worker of its own has written these values too."""
    produce_lines(bootstrap, topic, values)
    with (
        workers(bootstrap, f"{topic}-group", 1, ThreadLauncher, **settings) as (worker,),
        ConnectClient(worker.rest_url, retry_conflicts_s=30) as client,
    ):
        client.put_connector_config(f"{topic}-out", sink(topic, file))
        return eventually(lambda: file.exists() and len(found := file.read_text().splitlines()) == expect and found, 60)


def schemas_of(topic: str) -> str:
    return f"{topic}-group-config-schemas"


def test_a_field_stays_what_it_was_after_a_restart(broker, tmp_path, topic):
    file = tmp_path / "out.txt"
    first = lines_after(broker.bootstrap, topic, file, '{"n": 1}', '{"n": 0.5, "tags": [7, "x"]}', expect=2)
    assert first == ["Struct{n=1}", "Struct{n=0.5,tags=[7, x]}"]
    later = lines_after(broker.bootstrap, topic, file, '{"n": 2}', '{"tags": [8]}', expect=4)
    assert later[2:] == ["Struct{n=2.0}", "Struct{tags=[8]}"]
    kept = consume(broker.bootstrap, schemas_of(topic), 2)
    assert [json.loads(one.key() or b"") for one in kept] == [[f"{topic}-out", 0, "value.converter", topic]] * 2
    assert [set(json.loads(one.value() or b"")["members"]) for one in kept] == [{"n"}, {"n", "tags"}]
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "a test") as admin:
        assert admin.topic_configs(schemas_of(topic), 10)["cleanup.policy"] == "compact"


def test_without_a_topic_for_them_each_task_begins_anew(broker, tmp_path, topic):
    file = tmp_path / "out.txt"
    lines_after(broker.bootstrap, topic, file, '{"n": 0.5}', expect=1, kconnect_schemas_topic="")
    later = lines_after(broker.bootstrap, topic, file, '{"n": 2}', expect=2, kconnect_schemas_topic="")
    assert later[1:] == ["Struct{n=2}"]


def test_what_others_wrote_there_does_no_harm(broker, tmp_path, topic, caplog):
    produce_lines(broker.bootstrap, schemas_of(topic), ["no json", '{"kind": "song"}', "[]"], key=b'["a"]')
    found = lines_after(broker.bootstrap, topic, tmp_path / "out.txt", '{"n": 1}', expect=1)
    assert found == ["Struct{n=1}"]
    assert "is no inferred schema, and is left out" in caplog.text


def test_a_memory_that_takes_nothing_stops_no_sink(broker, tmp_path, topic, caplog):
    create_topic(broker.bootstrap, schemas_of(topic), config={"max.message.bytes": "100"})
    found = lines_after(broker.bootstrap, topic, tmp_path / "out.txt", '{"n": 1}', '{"n": 0.5}', expect=2)
    assert found == ["Struct{n=1}", "Struct{n=0.5}"]
    assert f"are not kept in {schemas_of(topic)} yet (kconnect.schemas.topic)" in caplog.text
