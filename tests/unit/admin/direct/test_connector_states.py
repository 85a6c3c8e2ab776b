"""What --direct shows of connectors, of folded topics: as REST shows it, without asking a class that is not here."""

from __future__ import annotations

import pytest

from kconnect.admin.direct.client import (
    connector_info,
    connector_status,
    connector_statuses,
    connector_type,
    states_to_come,
)
from kconnect.admin.direct.edit.connector_plans import with_task_statuses_removed
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.errors import NotFoundError
from kconnect.model import ConnectorType, LogRecord, RunState, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_topic import StoredStatus, encode_status, status_key
from kit.topic_views import status_view


def snapshot_of(config, tasks=(), name="c"):
    fold = ConfigFold()
    entries = [config_topic.encode_connector(name, config)]
    entries += [config_topic.encode_task(TaskId(name, number), task) for number, task in enumerate(tasks)]
    entries.append(config_topic.encode_commit(name, len(tasks)))
    for offset, (key, value) in enumerate(entries):
        fold.apply(LogRecord("configs", 0, offset, key, value))
    return fold.snapshot()


def view_of(statuses):
    return status_view([(status_key(subject), encode_status(status)) for subject, status in statuses.items()])


RUNNING = StoredStatus(RunState.RUNNING, "w:1", 3, None, "4.3.0")


@pytest.mark.parametrize(
    ("config", "tasks", "kind"),
    [
        ({"connector.class": "FileStreamSource"}, (), "source"),
        ({"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}, (), "sink"),
        ({"connector.class": "com.acme.MirrorSourceConnector", "topics": "a,b"}, (), "source"),
        ({"connector.class": "com.acme.ThingSink"}, (), "sink"),
        ({"connector.class": "com.acme.Debezium"}, [{"task.class": "com.acme.DebeziumSinkTask"}], "sink"),
        ({"connector.class": "com.acme.Thing", "topics.regex": "a.*"}, (), "sink"),
        ({"connector.class": "com.acme.Thing"}, [{}], "source"),
    ],
)
def test_the_type_is_reported_without_the_class(config, tasks, kind):
    assert str(connector_type("c", snapshot_of(config, tasks))) == kind


def test_a_class_that_is_installed_here_is_asked_where_its_name_does_not_tell():
    asked = []

    def installed(name):
        asked.append(name)
        return ConnectorType.SINK

    assert connector_type("c", snapshot_of({"connector.class": "acme.Thing"}), installed) is ConnectorType.SINK
    assert connector_type("c", snapshot_of({"connector.class": "acme.ThingSource"}), installed) is ConnectorType.SOURCE
    assert asked == ["acme.Thing"]


def test_status_and_info_are_those_of_the_topics():
    snapshot = snapshot_of({"connector.class": "FileStreamSource", "name": "c"}, [{"a": "1"}])
    statuses = view_of(
        {"c": RUNNING, TaskId("c", 0): StoredStatus(RunState.FAILED, "w:2", 3, "boom", "4.3.0")}
    ).statuses
    assert connector_status("c", snapshot, statuses).to_json() == {
        "name": "c",
        "connector": {"state": "RUNNING", "worker_id": "w:1", "version": "4.3.0"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:2", "version": "4.3.0", "trace": "boom"}],
        "type": "source",
    }
    assert connector_info("c", snapshot).to_json() == {
        "name": "c",
        "config": {"connector.class": "FileStreamSource", "name": "c"},
        "tasks": [{"connector": "c", "task": 0}],
        "type": "source",
    }


def test_a_connector_that_no_worker_has_started_is_listed_unassigned_and_statuses_alone_are_not():
    found = connector_statuses(snapshot_of({"connector.class": "X"}), view_of({"other": RUNNING}).statuses)
    assert list(found) == ["c"]
    assert found["c"].connector.state is RunState.UNASSIGNED


def test_a_connector_that_is_not_there_is_not_found():
    with pytest.raises(NotFoundError, match="Unknown connector d"):
        connector_info("d", snapshot_of({"connector.class": "X"}))


def test_a_stop_without_workers_removes_the_statuses_of_the_tasks_after_it():
    view = view_of({"c": RUNNING, TaskId("c", 0): RUNNING, TaskId("c", 1): RUNNING, TaskId("d", 0): RUNNING})
    plan = with_task_statuses_removed(EditPlan("Stop c", ()), "c", view)
    assert [(edit.key, edit.new, edit.old.offset) for edit in plan.edits] == [
        (b"status-task-c-0", None, 1),
        (b"status-task-c-1", None, 2),
    ]


@pytest.mark.parametrize(
    ("wanted", "state", "reported"),
    [
        (None, RunState.RUNNING, False),
        (TargetState.STARTED, RunState.RUNNING, False),
        (TargetState.STARTED, RunState.FAILED, False),
        (TargetState.STARTED, None, False),
        (TargetState.STARTED, RunState.PAUSED, True),
        (TargetState.PAUSED, RunState.PAUSED, False),
        (TargetState.PAUSED, RunState.RUNNING, True),
        (TargetState.STOPPED, RunState.RUNNING, True),
        (TargetState.STOPPED, RunState.STOPPED, False),
        (TargetState.STOPPED, None, True),
    ],
)
def test_what_the_next_worker_makes_of_a_connector_is_reported_where_its_status_says_otherwise(wanted, state, reported):
    fold = ConfigFold()
    entries = [config_topic.encode_connector("c", {"connector.class": "X"})]
    entries += [config_topic.encode_target_state("c", wanted)] if wanted else []
    for offset, (key, value) in enumerate(entries):
        fold.apply(LogRecord("configs", 0, offset, key, value))
    statuses = view_of({"c": StoredStatus(state, "w:1", 3)} if state else {}).statuses
    assert states_to_come(fold.snapshot(), statuses, ["c"]) == ({"c": wanted} if reported else {})
    assert states_to_come(fold.snapshot(), statuses, []) == {}
