"""Replays what a real Java standalone worker (Kafka 4.3.0) answered: the same requests to ours, in the same order.

The recording is golden/standalone/rest-transcript.json. Ours runs the real herder, plugins, validation, offsets and
REST server; only tasks, consumer groups and the network of Kafka are in memory. Compared are status, Content-Type,
Location and body; masked is what differs from run to run (see golden/README.md).
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kconnect.herder.plugin_config import plugin_config_keys
from kconnect.herder.standalone import HerderParts, StandaloneHerder
from kconnect.herder.validation import ConnectorValidator
from kconnect.model import ConnectorOffset, TopicPartition
from kconnect.plugins import PluginRegistry
from kconnect.rest import RestServer
from kconnect.storage import MemoryOffsetStore, commit_source_offsets
from kit.herders import MemoryGroups
from kit.memory_launcher import MemoryLauncher
from kit.waiting import eventually

TRANSCRIPT = Path(__file__).parents[1] / "golden/standalone/rest-transcript.json"
WORKER = "127.0.0.1:28088"
FILE = "/data/connect-x/w/standalone/in.txt"
SETTINGS = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}

# Requests whose endpoints come later: topics, loggers, internal ones.
LATER = ("/topics", "/admin/", "/fence", "/tasks POST")

# On purpose better than Java, which answers 500 to these: an unknown connector is 404 everywhere.
BETTER = {
    "unknown_stop": (404, "Unknown connector none"),
    "unknown_restart": (404, "Unknown connector: none"),
    "unknown_task_restart": (404, "Unknown connector: none"),
}


def test_the_answers_are_those_of_java() -> None:
    entries = json.loads(TRANSCRIPT.read_text())
    compared = 0
    with _worker() as url:
        for entry in entries:
            path = entry["path"]
            if any(word in f"{path} {entry['method']}" for word in LATER):
                continue
            if entry["method"] == "PATCH" and path.endswith("/config"):
                _do_instead_of_patch(url, entry)
                continue
            if entry["method"] == "GET":
                eventually(lambda entry=entry: _agrees(url, entry), 5, f"{entry['name']} GET {path}")
            else:
                _agrees(url, entry)
            compared += 1
    assert compared == 70


def _agrees(url: str, entry: dict[str, Any]) -> bool:
    status, headers, body = _ask(url, entry["method"], entry["path"], entry["request_body"], entry["request_headers"])
    expected_status, expected_body = entry["status"], _masked(entry["name"], entry["response_body"])
    if entry["name"] in BETTER:
        expected_status, message = BETTER[entry["name"]]
        expected_body = {"error_code": expected_status, "message": message}
    where = f"{entry['name']}: {entry['method']} {entry['path']}"
    assert (status, _masked(entry["name"], body)) == (expected_status, expected_body), where
    recorded = {key.lower(): value for key, value in entry["response_headers"].items()}
    assert headers.get("content-type") == recorded.get("content-type"), where
    if "location" in recorded:
        assert urlsplit(headers["location"]).path == urlsplit(recorded["location"]).path, where
        assert headers["location"].startswith(url), where
    # Settings of a config have no order of their own: Java's is that of its hash map
    if isinstance(expected_body, dict) and not entry["path"].endswith("/config"):
        assert list(json.loads(body)) == list(expected_body), f"{where}: order of fields"
    return True


def _masked(name: str, text: str) -> Any:
    """A body without what belongs to one run or one machine."""
    if not text:
        return None
    body = json.loads(text)
    if name == "root":
        body = {key: "(masked)" if key in ("commit", "kafka_cluster_id") else value for key, value in body.items()}
    if name == "tasks":
        for task in body:  # the class of ours is a Python class of the same name
            task["config"]["task.class"] = task["config"]["task.class"].rpartition(".")[2]
    if name == "plugins":
        body = [plugin for plugin in body if ".mirror." not in plugin["class"]]
    if name == "post_unknown_class":
        body["message"] = body["message"].partition("PluginDesc{")[0]
    return body


def _do_instead_of_patch(url: str, entry: dict[str, Any]) -> None:
    """PATCH of configs comes later: leaves the connector as it would."""
    if entry["status"] == 200:
        config = json.dumps(json.loads(entry["response_body"])["config"])
        name = entry["path"].removesuffix("/config")
        assert _ask(url, "PUT", f"{name}/config", config, {"Content-Type": "application/json"})[0] == 200


def _ask(
    url: str, method: str, path: str, body: str | None, headers: dict[str, str]
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request(method, path, body.encode() if body else None, headers)
        response = connection.getresponse()
        return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


@contextmanager
def _worker() -> Iterator[str]:
    """A worker as it was when the recording began: a file source and a file sink, both with offsets."""
    groups, offsets, launcher, plugins = MemoryGroups(), MemoryOffsetStore(), MemoryLauncher(), PluginRegistry.load()

    @contextmanager
    def group_offsets(_: object) -> Iterator[MemoryGroups]:
        yield groups

    herder = StandaloneHerder(
        HerderParts(
            worker_config=SETTINGS,
            plugins=plugins,
            launcher=launcher,
            offsets=offsets,
            groups=group_offsets,
            validate=ConnectorValidator(plugins, SETTINGS).raise_if_invalid,
            explain=ConnectorValidator(plugins, SETTINGS).validate,
            plugin_config=partial(plugin_config_keys, plugins),
        )
    )
    launcher.start(herder.events)
    herder.start(WORKER, "cluster")
    source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": FILE, "topic": "orc-s-t"}
    sink = {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": "/data/connect-x/w/standalone/out.txt",
        "topics": "orc-s-t",
    }
    try:
        herder.put_connector("fsrc", {**source, "name": "fsrc"}, replace=False)
        herder.put_connector("fsnk", {**sink, "name": "fsnk"}, replace=False)
        commit_source_offsets(offsets, "fsrc", [ConnectorOffset({"filename": FILE}, {"position": 14})])
        groups.offsets["connect-fsnk"] = {TopicPartition("orc-s-t", 0): 4}
        herder.ready()
        with RestServer(herder, ["http://127.0.0.1:0"]) as server:
            yield server.urls[0]
    finally:
        herder.stop(5)
        launcher.stop(1)


@pytest.mark.parametrize("name", sorted(BETTER))
def test_where_we_differ_java_really_answered_500(name: str) -> None:
    entry = next(entry for entry in json.loads(TRANSCRIPT.read_text()) if entry["name"] == name)
    assert entry["status"] == 500
