"""Life of connectors under the standalone herder: create, change, pause, resume, stop, restart, delete."""

from __future__ import annotations

import re

import pytest

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    NotFoundError,
)
from kconnect.model import Condition, ConnectorType, RunState, TargetState, TaskId
from kit.herders import WORKER_ID, config, herder_bench
from kit.waiting import eventually

T0 = TaskId("fsrc", 0)


@pytest.fixture
def bench():
    with herder_bench() as found:
        yield found


def test_a_created_connector_runs_with_its_tasks(bench):
    created, info = bench.herder.put_connector("fsrc", config("fsrc", tasks="2", tasks_max="2"), replace=False)
    assert created
    assert info.tasks == (TaskId("fsrc", 0), TaskId("fsrc", 1))
    assert info.type is ConnectorType.SOURCE
    assert bench.states() == ("RUNNING", ["RUNNING", "RUNNING"])
    assert bench.journal.calls == ["start", "task_configs"]


def test_the_status_names_worker_and_versions(bench):
    bench.create()
    body = bench.herder.connector_status("fsrc").to_json()
    assert body == {
        "name": "fsrc",
        "connector": {"state": "RUNNING", "worker_id": WORKER_ID, "version": "4.3.0"},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": WORKER_ID, "version": "task-1"}],
        "type": "source",
    }


def test_a_task_gets_connector_config_task_config_and_worker_config(bench):
    bench.create("snk", "sink", topics="t")
    spec = bench.launcher.tasks[TaskId("snk", 0)]
    assert spec.connector_config == config("snk", "sink", topics="t")
    assert spec.worker_config == {"bootstrap.servers": "localhost:9092"}
    assert spec.task_config["topics"] == "t"
    assert spec.task_config["part"] == "0"
    assert spec.task_config["task.class"].endswith("SampleSinkTask")
    assert spec.type is ConnectorType.SINK


def test_connectors_are_listed_by_name(bench):
    bench.create("zeta")
    bench.create("alpha")
    assert bench.herder.connectors() == ["alpha", "zeta"]


def test_a_taken_name_is_refused(bench):
    bench.create()
    with pytest.raises(AlreadyExistsError, match=r"^Connector fsrc already exists$"):
        bench.create()


def test_a_bad_config_changes_nothing(bench):
    bench.create()
    with pytest.raises(BadRequestError):
        bench.change(bad="yes")
    assert "bad" not in bench.herder.connector_config("fsrc")
    assert bench.journal.calls == ["start", "task_configs"]


def test_a_missing_name_in_the_config_is_filled_in(bench):
    bench.herder.put_connector("x", {"connector.class": "source"}, replace=False)
    assert bench.herder.connector_config("x")["name"] == "x"


def test_initial_state_stopped_has_no_tasks_and_is_not_started(bench):
    bench.create(state=TargetState.STOPPED)
    assert bench.states() == ("STOPPED", [])
    assert bench.journal.calls == []
    assert bench.herder.connector_status("fsrc").connector.version == "4.3.0"


def test_initial_state_paused_has_no_tasks_until_it_is_resumed(bench):
    bench.create(state=TargetState.PAUSED)
    assert bench.states() == ("PAUSED", [])
    bench.herder.set_target_state("fsrc", TargetState.STARTED)
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), within_s=5, why="tasks after resume")


def test_a_put_of_the_same_config_leaves_the_tasks_running(bench):
    bench.create()
    bench.change()
    assert bench.launcher.stops == []
    assert len(bench.launcher.starts) == 1
    assert bench.journal.calls == ["start", "task_configs", "stop", "start", "task_configs"]


def test_a_change_that_only_tasks_can_see_restarts_them_because_converters_may_have_changed(bench):
    bench.create()
    created, info = bench.herder.put_connector("fsrc", config("fsrc", transforms="x"), replace=True)
    assert not created
    assert info.config["transforms"] == "x"
    assert bench.launcher.stops == [T0]
    assert [spec.run for spec in bench.launcher.starts] == [1, 2]
    assert bench.states() == ("RUNNING", ["RUNNING"])


def test_fewer_tasks_after_a_change_leave_no_status_behind(bench):
    bench.create(tasks="3", tasks_max="3")
    bench.change(tasks="1", tasks_max="3")
    assert bench.states() == ("RUNNING", ["RUNNING"])
    with pytest.raises(NotFoundError, match="No status found for task fsrc-2"):
        bench.herder.task_status(TaskId("fsrc", 2))


def test_a_changed_connector_keeps_its_target_state(bench):
    bench.create()
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    bench.change(file="y")
    assert bench.states() == ("STOPPED", [])
    bench.herder.set_target_state("fsrc", TargetState.PAUSED)
    bench.change(file="z")
    assert bench.states() == ("PAUSED", [])


def test_a_paused_connector_takes_its_new_config_to_the_tasks_when_it_is_resumed(bench):
    bench.create(file="x")
    bench.herder.set_target_state("fsrc", TargetState.PAUSED)
    bench.change(file="y")
    assert bench.herder.task_infos("fsrc")[0].config["file"] == "x"
    bench.herder.set_target_state("fsrc", TargetState.STARTED)
    eventually(lambda: bench.herder.task_infos("fsrc")[0].config["file"] == "y", within_s=5, why="new task config")


def test_pause_keeps_the_tasks_and_resume_goes_on_with_the_same_run(bench):
    bench.create()
    bench.herder.set_target_state("fsrc", TargetState.PAUSED)
    assert bench.states() == ("PAUSED", ["PAUSED"])
    bench.herder.set_target_state("fsrc", TargetState.STARTED)
    assert bench.states() == ("RUNNING", ["RUNNING"])
    eventually(lambda: bench.journal.calls[-1] == "task_configs", within_s=5, why="asked again after resume")
    assert len(bench.launcher.starts) == 1
    assert bench.journal.calls == ["start", "task_configs", "stop", "start", "task_configs"]


def test_stop_ends_the_tasks_and_keeps_the_config(bench):
    bench.create()
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    assert bench.states() == ("STOPPED", [])
    assert bench.launcher.tasks == {}
    assert bench.herder.connector_config("fsrc") == config("fsrc")
    assert bench.herder.task_infos("fsrc") == []


def test_stopping_pausing_and_resuming_twice_is_fine(bench):
    bench.create()
    for state in (TargetState.STOPPED, TargetState.STOPPED, TargetState.PAUSED, TargetState.PAUSED):
        bench.herder.set_target_state("fsrc", state)
    assert bench.states() == ("PAUSED", [])
    for _ in range(2):
        bench.herder.set_target_state("fsrc", TargetState.STARTED)
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), within_s=5, why="resumed")


def test_restart_gives_a_new_connector_and_leaves_the_tasks_alone(bench):
    bench.create()
    before = bench.journal.last
    bench.herder.restart_connector("fsrc")
    assert bench.journal.last is not before
    assert len(bench.launcher.starts) == 1
    assert bench.journal.calls == ["start", "task_configs", "stop", "start", "task_configs"]


def test_restart_of_a_stopped_connector_leaves_it_stopped(bench):
    bench.create()
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    bench.herder.restart_connector("fsrc")
    assert bench.states() == ("STOPPED", [])


def test_restart_of_a_task_is_a_new_run_of_that_task_alone(bench):
    bench.create(tasks="2", tasks_max="2")
    bench.herder.restart_task(TaskId("fsrc", 1))
    assert bench.launcher.stops == [TaskId("fsrc", 1)]
    assert [(spec.id.task, spec.run) for spec in bench.launcher.starts] == [(0, 1), (1, 2), (1, 3)]
    assert bench.states() == ("RUNNING", ["RUNNING", "RUNNING"])


def test_a_restarted_task_of_a_paused_connector_stays_paused(bench):
    bench.create()
    bench.herder.set_target_state("fsrc", TargetState.PAUSED)
    bench.herder.restart_task(T0)
    assert bench.states() == ("PAUSED", ["PAUSED"])


def test_delete_leaves_nothing(bench):
    bench.create()
    bench.herder.delete_connector("fsrc")
    assert bench.herder.connectors() == []
    assert bench.launcher.tasks == {}
    with pytest.raises(NotFoundError, match="No status found for connector fsrc"):
        bench.herder.connector_status("fsrc")
    bench.create()
    assert bench.states() == ("RUNNING", ["RUNNING"])


def test_a_connector_may_ask_for_other_tasks(bench):
    bench.create(tasks_max="4")
    bench.journal.task_count = 3
    bench.journal.last.context.request_task_reconfiguration()
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"] * 3), within_s=5, why="three tasks")
    bench.herder.request_task_reconfiguration("fsrc")
    eventually(lambda: bench.journal.calls.count("task_configs") == 3, within_s=5, why="asked a third time")
    assert len(bench.launcher.starts) == 4  # nothing had changed the last time


def test_a_connector_that_is_not_ready_to_give_task_configs_says_so_until_it_is(bench):
    bench.journal.retriable_left = 1_000_000
    bench.create()
    found = eventually(lambda: (seen := bench.herder.connector_conditions()["fsrc"]).count >= 2 and seen, 10)
    assert (found.condition, found.cause) == (Condition.NO_TASK_CONFIGS, "the source is not ready")
    bench.journal.retriable_left = 0
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), within_s=20, why="asked again")
    assert not bench.herder.connector_conditions()


def test_a_task_may_ask_that_its_connector_be_asked_again(bench):
    bench.create(tasks_max="2")
    bench.journal.task_count = 2
    bench.launcher.events.reconfiguration_requested("fsrc")
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"] * 2), within_s=5, why="two tasks")
    bench.launcher.events.reconfiguration_requested("none")  # must not raise


def test_a_connector_that_was_replaced_can_ask_for_nothing(bench):
    bench.create()
    old = bench.journal.last
    bench.herder.restart_connector("fsrc")
    asked = bench.journal.calls.count("task_configs")
    old.context.request_task_reconfiguration()
    old.context.raise_error(RuntimeError("late"))
    bench.herder.set_target_state("fsrc", TargetState.PAUSED)  # takes its turn after whatever was asked
    assert bench.journal.calls.count("task_configs") == asked
    assert bench.states() == ("PAUSED", ["PAUSED"])


def test_a_source_connector_reads_its_committed_offsets(bench):
    bench.offsets.set({b'["fsrc",{"f":"x"}]': b'{"n":1}', b'["other",{"f":"y"}]': b'{"n":2}'})
    bench.create()
    reader = bench.journal.last.context.offset_storage_reader()
    assert reader.offset({"f": "x"}) == {"n": 1}
    assert reader.offsets([{"f": "y"}, {"f": "x"}]) == [None, {"n": 1}]


def test_more_tasks_than_allowed_fail_the_connector(bench):
    with pytest.raises(ConnectError, match="has generated 2 tasks, which is greater than 1"):
        bench.create(tasks="2", tasks_max="1")
    state = bench.herder.connector_status("fsrc").connector
    assert state.state is RunState.FAILED
    assert "tasks.max.enforce" in (state.trace or "")
    assert bench.launcher.starts == []


def test_more_tasks_than_allowed_run_where_the_limit_is_not_enforced(bench):
    bench.create(tasks="2", tasks_max="1", tasks_max_enforce="false")
    assert bench.states() == ("RUNNING", ["RUNNING", "RUNNING"])


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        (lambda h: h.connector_info("none"), "Connector none not found"),
        (lambda h: h.connector_config("none"), "Connector none not found"),
        (lambda h: h.task_infos("none"), "Connector none not found"),
        (lambda h: h.delete_connector("none"), "Connector none not found"),
        (lambda h: h.connector_offsets("none"), "Connector none not found"),
        (lambda h: h.reset_connector_offsets("none"), "Connector none not found"),
        (lambda h: h.connector_status("none"), "No status found for connector none"),
        (lambda h: h.task_status(TaskId("none", 0)), "No status found for task none-0"),
        (lambda h: h.set_target_state("none", TargetState.PAUSED), "Unknown connector none"),
        (lambda h: h.set_target_state("none", TargetState.STARTED), "Unknown connector none"),
        (lambda h: h.set_target_state("none", TargetState.STOPPED), "Unknown connector none"),
        (lambda h: h.restart_connector("none"), "Unknown connector: none"),
        (lambda h: h.restart_task(TaskId("none", 0)), "Unknown connector: none"),
    ],
)
def test_an_unknown_connector_is_reported_in_javas_words(bench, call, reported):
    with pytest.raises(NotFoundError, match=f"^{re.escape(reported)}$"):
        call(bench.herder)


def test_an_unknown_task_is_reported_in_javas_words(bench):
    bench.create()
    with pytest.raises(NotFoundError, match=r"^Task fsrc-9 not found$"):
        bench.herder.restart_task(TaskId("fsrc", 9))
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    with pytest.raises(NotFoundError, match=r"^Task fsrc-0 not found$"):
        bench.herder.restart_task(T0)


def test_server_info_and_readiness(bench):
    assert bench.herder.server_info().version == "4.3.0"
    assert bench.herder.server_info().kafka_cluster_id == "cluster-1"
    assert not bench.herder.is_ready()
    bench.herder.ready()
    assert bench.herder.is_ready()


def test_plugins_are_connectors_alone_unless_all_are_asked_for(bench):
    assert [plugin.type for plugin in bench.herder.connector_plugins()] == ["source", "sink"]
    assert len(bench.herder.connector_plugins(connectors_only=False)) == 3


def test_a_stopped_herder_has_stopped_tasks_then_connectors_and_takes_no_orders(bench):
    bench.create("a")
    bench.create("b")
    bench.herder.stop(2)
    bench.herder.stop(2)
    assert bench.launcher.tasks == {}
    assert bench.journal.calls.count("stop") == 2
    with pytest.raises(ConflictError, match="The worker is shutting down"):
        bench.create("c")
