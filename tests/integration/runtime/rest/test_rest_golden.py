"""Replays what a real Java standalone worker (Kafka 4.3.0) answered: the same requests to ours, in the same order.

The recording is golden/standalone/rest-transcript.json. Where ours answers otherwise stands in `kit.rest_differences`,
each with its reason.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kconnect.model import ConnectorOffset, TaskId, TopicPartition
from kconnect.runtime.storage import commit_source_offsets
from kit.differences import hold_alike
from kit.places import GOLDEN
from kit.rest_differences import STANDALONE
from kit.rest_replay import MOST_WAITED_FOR, World, agrees, ask, world
from kit.waiting import eventually

ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "standalone/rest-transcript.json").read_text())
FILE = "/data/connect-x/w/standalone/in.txt"
SETTINGS = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def test_the_answers_are_those_of_java() -> None:
    with world("127.0.0.1:28088", SETTINGS) as worker:
        _as_it_was(worker)
        replayed = hold_alike(
            [(entry["name"], entry) for entry in ENTRIES], lambda entry: _replay(worker, entry), most=MOST_WAITED_FOR
        )
    assert replayed == 82


def _replay(worker: World, entry: dict[str, Any]) -> None:
    differs = STANDALONE.get(entry["name"])
    if entry["method"] == "GET":
        eventually(lambda: agrees(worker, entry, differs), 5, entry["name"])
    else:
        agrees(worker, entry, differs)


def _as_it_was(worker: World) -> None:
    """As the recorded worker was when the recording began: a source without new lines, a sink, both with offsets."""
    source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": FILE, "topic": "orc-s-t"}
    sink = {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": "/data/connect-x/w/standalone/out.txt",
        "topics": "orc-s-t",
    }
    worker.herder.put_connector("fsrc", {**source, "name": "fsrc"}, replace=False)
    worker.herder.put_connector("fsnk", {**sink, "name": "fsnk"}, replace=False)
    commit_source_offsets(worker.offsets, "fsrc", [ConnectorOffset({"filename": FILE}, {"position": 14})])
    worker.groups.offsets["connect-fsnk"] = {TopicPartition("orc-s-t", 0): 4}
    worker.launcher.use_topic(TaskId("fsnk", 0), "orc-s-t")
    worker.herder.ready()


@pytest.mark.parametrize("name", sorted(STANDALONE))
def test_where_we_differ_java_answered_otherwise(name: str) -> None:
    entry = next(entry for entry in ENTRIES if entry["name"] == name)
    assert (entry["status"], entry["response_body"]) != (STANDALONE[name].status, STANDALONE[name].message)
    assert entry["status"] == (200 if name == "unknown_topics" else 202 if name == "unknown_topics_reset" else 500)


def test_a_worker_that_starts_says_so_until_it_is_ready() -> None:
    """Recorded is Java's health in words (golden/rest/health_while_starting.json), where it says 404 before that."""
    recorded = json.loads((GOLDEN / "rest/health_while_starting.json").read_text())
    with world("127.0.0.1:28088", SETTINGS) as worker:
        status, _, body = ask(worker.url, "GET", "/health", None, {})
        assert (status, json.loads(body)) == (503, {"status": "starting", "message": "Worker is still starting up."})
        worker.herder.ready()
        status, headers, body = ask(worker.url, "GET", "/health", None, {})
    assert [status, json.loads(body)] == [recorded[-1][0], json.loads(recorded[-1][1])]
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("settings", "get", "reset"),
    [
        ({}, (200, '{"c":{"topics":["t"]}}'), (202, "")),
        (
            {"topic.tracking.allow.reset": "false"},
            (200, '{"c":{"topics":["t"]}}'),
            (403, "Topic tracking reset is disabled."),
        ),
        (
            {"topic.tracking.enable": "false"},
            (403, "Topic tracking is disabled."),
            (403, "Topic tracking is disabled."),
        ),
    ],
)
def test_topics_are_tracked_and_reset_as_the_worker_allows(settings, get, reset) -> None:
    with world("127.0.0.1:28088", {**SETTINGS, **settings}) as worker:
        source = {"connector.class": "FileStreamSource", "file": FILE, "topic": "t"}
        worker.herder.put_connector("c", {**source, "name": "c"}, replace=False)
        worker.launcher.use_topic(TaskId("c", 0), "t")
        for method, path, (status, text) in (("GET", "topics", get), ("PUT", "topics/reset", reset)):
            found = ask(worker.url, method, f"/connectors/c/{path}", None, {})
            assert found[0] == status
            assert (json.loads(found[2])["message"] if status == 403 else found[2]) == text
