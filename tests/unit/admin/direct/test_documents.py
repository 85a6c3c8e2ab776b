"""What the topics hold as documents, and that reading them takes memory for what lives, not for what was."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kconnect.admin.direct.read.connector_types import connector_type
from kconnect.admin.direct.read.documents import config_document, known_connectors, status_document
from kconnect.admin.direct.read.reader import ConfigView, StatusView
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.model import ConnectorType, RunState, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.status_topic import (
    StoredStatus,
    TopicUse,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)
from kit.pace import ample_s
from kit.places import TESTS
from kit.topic_views import config_view, records_of, status_view

CONFIG = {"name": "src", "connector.class": "FileStreamSource", "db.password": "hunter2"}


def configs(*written: tuple[bytes, bytes | None]) -> ConfigView:
    return config_view(records_of(written))


def statuses(*written: tuple[bytes, bytes | None]) -> StatusView:
    return status_view(written)


WRITTEN = (
    config_topic.encode_session_key(SessionKey(b"key of all", "HmacSHA256", 60_000)),
    config_topic.encode_connector("src", CONFIG),
    config_topic.encode_task(TaskId("src", 0), {**CONFIG, "file": "a"}),
    config_topic.encode_commit("src", 1),
    config_topic.encode_target_state("src", TargetState.PAUSED),
    config_topic.encode_connector("half", {"name": "half", "connector.class": "x.y.Some", "topics": "t"}),
    config_topic.encode_commit("half", 2),
    config_topic.encode_task_count("half", 3),
    config_topic.encode_logger_level("org.z", "DEBUG"),
    config_topic.encode_logger_level("org.a", "WARN"),
)


def test_the_config_topic_as_a_document():
    document = config_document(configs(*WRITTEN), now_ms=90_000)
    assert document["offset"] == 10
    src, half = document["connectors"]
    assert src == {
        "name": "src",
        "type": "source",
        "class": "FileStreamSource",
        "target_state": "PAUSED",
        "tasks": 1,
        "inconsistent": False,
        "lost_tasks": False,
        "task_count_record": None,
        "pending_fencing": True,
        "records": {
            "config": {"partition": 0, "offset": 1, "timestamp": "1970-01-01T00:00:01.000Z"},
            "target_state": {"partition": 0, "offset": 4, "timestamp": "1970-01-01T00:00:04.000Z"},
        },
        "config": {**CONFIG, "db.password": "[hidden]"},
        "task_configs": [{**CONFIG, "db.password": "[hidden]", "file": "a"}],
    }
    assert (half["type"], half["tasks"], half["inconsistent"], half["task_count_record"]) == ("sink", 2, True, 3)
    assert half["task_configs"] == []
    assert half["target_state"] == "STARTED"
    assert half["records"]["target_state"] is None
    key = document["session_key"]
    assert (key["algorithm"], key["created"], key["age_s"], key["key"]) == (
        "HmacSHA256",
        "1970-01-01T00:01:00.000Z",
        30,
        "[hidden]",
    )
    assert [(logger["name"], logger["level"], logger["record"]["offset"]) for logger in document["loggers"]] == [
        ("org.a", "WARN", 9),
        ("org.z", "DEBUG", 8),
    ]


def test_secrets_are_in_the_document_only_when_they_are_asked_for():
    view = configs(*WRITTEN)
    hidden, shown = json.dumps(config_document(view)), json.dumps(config_document(view, masks=SecretMasks(reveal=True)))
    for secret in ("hunter2", "a2V5IG9mIGFsbA=="):
        assert secret not in hidden
        assert secret in shown


def test_of_named_connectors_nothing_else_is_reported():
    document = config_document(configs(*WRITTEN), ["half"])
    assert [found["name"] for found in document["connectors"]] == ["half"]
    assert document.keys() == {"offset", "connectors"}


def test_an_empty_topic_is_an_empty_document():
    assert config_document(configs()) == {"offset": 0, "connectors": [], "session_key": None, "loggers": []}
    assert status_document(statuses()) == []


def test_the_status_topic_as_a_document():
    failed = StoredStatus(RunState.FAILED, "w:1", 4, "boom\n at x", "4.3.0")
    view = statuses(
        (status_key("b"), encode_status(StoredStatus(RunState.RUNNING, "w:1", 3))),
        (status_key(TaskId("b", 1)), encode_status(failed)),
        (status_key(TaskId("b", 0)), encode_status(StoredStatus(RunState.RUNNING, "w:2", 4))),
        (status_key(TaskId("a", 0)), encode_status(StoredStatus(RunState.RUNNING, "w:2", 4))),
        (topic_key("c", "t"), encode_topic_use(TopicUse("t", "c", 2, 1000))),
    )
    orphan, b, user = status_document(view)
    assert orphan == {
        "name": "a",
        "connector": None,
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w:2", "generation": 4}],
        "topics": [],
    }
    assert b["connector"] == {"state": "RUNNING", "worker_id": "w:1", "generation": 3}
    assert [task["id"] for task in b["tasks"]] == [0, 1]
    assert b["tasks"][1]["trace"] == "boom\n at x"
    assert user["topics"] == [{"name": "t", "task": 2, "discovered": "1970-01-01T00:00:01.000Z"}]
    assert [found["name"] for found in status_document(view, {"c"})] == ["c"]
    assert known_connectors(view) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}, ConnectorType.SINK),
        ({"connector.class": "FileStreamSource"}, ConnectorType.SOURCE),
        ({"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "topics": "a"}, "source"),
        ({"connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector", "topics": "a"}, "source"),
        ({"connector.class": "com.x.Elastic", "topics.regex": "a.*"}, ConnectorType.SINK),
        ({"connector.class": "io.debezium.connector.mysql.MySqlConnector"}, ConnectorType.SOURCE),
        ({}, ConnectorType.UNKNOWN),
        ({"connector.class": None}, ConnectorType.UNKNOWN),
    ],
)
def test_the_kind_of_a_connector_is_reported_from_its_settings(config, kind):
    assert connector_type(config) == kind


def test_memory_follows_the_live_keys_and_not_the_history():
    """In a process of its own: what ran before in this one would count as well."""
    env = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "0"}
    reported = subprocess.run(
        [sys.executable, "-m", "kit.history_memory"], env=env, check=True, stdout=subprocess.PIPE, timeout=ample_s(20)
    )
    found = json.loads(reported.stdout)
    assert found["hundred"] - found["fifty"] < found["names"]
    assert found["connectors"] == list(map(str, range(20)))
    assert found["latest"] == 60
