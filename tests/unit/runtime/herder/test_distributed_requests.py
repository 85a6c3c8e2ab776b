"""Requests to herders of one cluster in this process: restarts, offsets, exactly-once, what cannot be found."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import pytest

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    NotFoundError,
    WrongWorkerError,
)
from kconnect.model import ConnectorOffset, ConnectorType, RunState, TargetState, TaskId
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.cluster.fenced_starts import ExactlyOnceSources
from kconnect.runtime.storage import commit_source_offsets
from kconnect.runtime.storage.session_key import SessionKey
from kit.distributed import TIMES, Cluster, memory_cluster
from kit.herders import config
from kit.waiting import eventually

IDS = [TaskId("fsrc", number) for number in range(4)]
ENABLED = {"group.id": "g", "offset.storage.topic": "offsets", "exactly.once.source.support": "enabled"}


def runs(cluster: Cluster) -> dict[TaskId, int]:
    return {task: spec.run for node in cluster.nodes for task, spec in node.launcher.tasks.items()}


def test_a_restart_of_a_connector_nobody_has_seen_yet_is_reported():
    with memory_cluster(1, times=replace(TIMES, quiet_ms=60_000, longest_quiet_ms=60_000)) as cluster:
        cluster.create("fsrc")
        with pytest.raises(NotFoundError, match="Status for connector fsrc not found"):
            cluster.leader.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=False)
        with pytest.raises(NotFoundError, match="Unknown connector: none"):
            cluster.leader.herder.restart_by_plan("none", include_tasks=True, only_failed=False)


def test_a_restart_with_tasks_restarts_each_workers_share():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="4", tasks_max="4")
        cluster.await_running("fsrc", tasks=4)
        assert all(node.tasks for node in cluster.nodes)
        before, starts = runs(cluster), cluster.journal.calls.count("start")
        shown = cluster.leader.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=False)
        assert {shown.connector.state, *(task.state for task in shown.tasks)} == {RunState.RESTARTING}
        eventually(lambda: all(runs(cluster).get(task, 0) > before[task] for task in IDS), 5, "new runs")
        eventually(lambda: cluster.journal.calls.count("start") == starts + 1, 5, "the connector was started anew")
        cluster.await_running("fsrc", tasks=4)


def test_a_restart_of_what_failed_leaves_the_rest_alone_on_all_workers():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="4", tasks_max="4")
        cluster.await_running("fsrc", tasks=4)
        failed = [sorted(node.tasks)[0] for node in cluster.nodes]
        before, starts = runs(cluster), cluster.journal.calls.count("start")
        for node, task in zip(cluster.nodes, failed, strict=True):
            node.launcher.fail_task(task, "boom")
        shown = cluster.leader.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=True)
        assert [task.id for task in shown.tasks if task.state is RunState.RESTARTING] == sorted(t.task for t in failed)
        cluster.await_running("fsrc", tasks=4)
        assert {task for task, run in runs(cluster).items() if run != before[task]} == set(failed)
        assert cluster.journal.calls.count("start") == starts


def test_offsets_are_reset_as_soon_as_the_stop_before_it_has_reached_all_tasks():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="4", tasks_max="4", knows_offsets="true")
        cluster.await_running("fsrc", tasks=4)
        herder = cluster.leader.herder
        with pytest.raises(BadRequestError, match="must be in the STOPPED state"):
            herder.reset_connector_offsets("fsrc")
        herder.set_target_state("fsrc", TargetState.STOPPED)
        assert "reset successfully" in herder.reset_connector_offsets("fsrc")
        assert not cluster.leader.tasks
        eventually(lambda: not any(node.tasks for node in cluster.nodes), 5, "no task runs")
        with pytest.raises(NotFoundError, match="Connector none not found"):
            herder.reset_connector_offsets("none")


def test_a_connector_is_created_with_offsets_by_the_leader_alone_and_not_at_all_when_they_are_refused():
    first = [ConnectorOffset({"f": "x"}, {"n": 1})]
    with memory_cluster(2) as cluster:
        herder = cluster.leader.herder
        settings = config("fsrc", "source", knows_offsets="true")
        follower = next(node.herder for node in cluster.nodes if node.herder is not herder)
        with pytest.raises(WrongWorkerError):
            follower.create_with_offsets("fsrc", settings, first)
        with pytest.raises(BadRequestError, match="no such file"):
            herder.create_with_offsets("fsrc", config("fsrc", "source", raise_in="alter_offsets_wrong"), first)
        assert herder.connectors() == []
        info, reported = herder.create_with_offsets("fsrc", settings, first)
        assert (info.name, reported) == ("fsrc", "The offsets for this connector have been altered successfully")
        cluster.await_running("fsrc", tasks=1)
        assert herder.connector_offsets("fsrc") == first
        with pytest.raises(AlreadyExistsError):
            herder.create_with_offsets("fsrc", settings, first)
        herder.delete_connector("fsrc")
        herder.create_with_offsets("fsrc", settings, [ConnectorOffset({"f": "y"}, {"n": 2})])
        assert herder.connector_offsets("fsrc") == [ConnectorOffset({"f": "y"}, {"n": 2})]


def test_offsets_of_a_connector_that_was_resumed_meanwhile_stay():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc", state=TargetState.STOPPED)
        herder = cluster.leader.herder
        herder.reset_connector_offsets("fsrc")
        herder.assembly.cluster.configs.put_target_state("fsrc", TargetState.STARTED)
        with pytest.raises(BadRequestError, match="must be in the STOPPED state"):
            herder.assembly.work.modify_offsets("fsrc", None)


@pytest.mark.parametrize("reset", [False, True], ids=["alter", "reset"])
def test_a_change_of_offsets_of_a_connector_that_was_resumed_while_its_plugin_was_asked_is_a_conflict(reset):
    with memory_cluster(1) as cluster:
        cluster.create("fsrc", state=TargetState.STOPPED, hang_in="alter_offsets")
        herder, problems = cluster.leader.herder, []
        before = [ConnectorOffset({"f": "x"}, {"n": 0})]
        commit_source_offsets(herder.assembly.cluster.offsets, "fsrc", before)
        ask = partial(herder.alter_connector_offsets, offsets=[ConnectorOffset({"f": "x"}, {"n": 1})])

        def change():
            with pytest.raises(ConflictError) as problem:
                (herder.reset_connector_offsets if reset else ask)("fsrc")
            problems.append(str(problem.value))

        changing = threading.Thread(target=change)
        changing.start()
        try:
            eventually(lambda: "alter_offsets" in cluster.journal.calls, 5, "the plugin is asked")
            herder.set_target_state("fsrc", TargetState.STARTED)
        finally:
            cluster.journal.gate.open()
            changing.join(10)
        assert problems == [f"Connector fsrc was resumed before its offsets could be {'reset' if reset else 'altered'}"]
        assert herder.connector_offsets("fsrc") == before


def test_a_connector_that_refers_to_what_is_not_there_fails_and_is_shown_as_it_was_written(tmp_path):
    file = tmp_path / "none.properties"
    providers = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    with memory_cluster(1, variables=Variables.of_worker(providers)) as cluster:
        cluster.create("fsrc", file=f"${{file:{file}:word}}")
        herder = cluster.leader.herder

        def failed() -> bool:
            try:
                return herder.connector_status("fsrc").connector.state is RunState.FAILED
            except NotFoundError:
                return False

        eventually(failed, 5, "the connector has failed")
        assert "none.properties" in (herder.connector_status("fsrc").connector.trace or "")
        assert herder.connector_config("fsrc")["file"] == f"${{file:{file}:word}}"
        file.write_text("word=found\n")
        herder.restart_connector("fsrc")
        cluster.await_running("fsrc")


def test_a_connector_whose_class_is_gone_is_of_unknown_type():
    with memory_cluster(1) as cluster:
        cluster.leader.herder.assembly.cluster.configs.put_connector_config(
            "old", {"name": "old", "connector.class": "gone"}
        )
        herder = cluster.leader.herder
        assert herder.connector_info("old").type is ConnectorType.UNKNOWN

        def failed() -> bool:
            known = herder.assembly.knowledge.status.find_connector("old", ConnectorType.UNKNOWN)
            return known is not None and known.connector.state is RunState.FAILED

        eventually(failed, 5, "tried")
        found = herder.connector_status("old")
        assert (found.type, found.connector.state) == (ConnectorType.UNKNOWN, RunState.FAILED)


def test_a_topic_that_is_reported_after_its_tasks_are_gone_is_not_noted():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc")
        cluster.await_running("fsrc")
        cluster.leader.launcher.use_topic(IDS[0], "t1")
        assert cluster.leader.herder.connector_topics("fsrc") == ["t1"]
        cluster.leader.herder.delete_connector("fsrc")
        eventually(lambda: not cluster.leader.herder.assembly.cluster.statuses.topics("fsrc"), 5, "forgotten")
        eventually(lambda: not cluster.leader.herder.assembly.knowledge.status.runs("fsrc"), 5, "its tasks are gone")
        cluster.leader.launcher.use_topic(IDS[0], "t2")
        assert not cluster.leader.herder.assembly.cluster.statuses.topics("fsrc")


# -- exactly-once sources ---------------------------------------------------------------------------------------------


class Leader:
    """The leader that a worker asks for a round of fencing."""

    def __init__(self, problem: ConnectError | None = None) -> None:
        self.problem = problem
        self.asked: list[tuple[str | None, str]] = []

    def ask(self, connector: str) -> None:
        self._note(None, connector)

    def fence_zombies(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        self._note(leader_url, connector)

    def _note(self, url: str | None, connector: str) -> None:
        self.asked.append((url, connector))
        if self.problem is not None:
            raise self.problem


def exactly_once(cluster: Cluster, leader: Leader, worker: dict[str, str] | None = None) -> ExactlyOnceSources:
    herder = cluster.leader.herder
    parts = replace(herder.assembly.cluster, leader=leader)
    made = herder.assembly
    return ExactlyOnceSources(
        ENABLED if worker is None else worker,
        parts,
        made.knowledge.config,
        made.work.host,
        leader.ask,
        made.work.changes.record_task_count,
    )


def test_offsets_of_a_stopped_exactly_once_source_change_behind_a_round_of_fencing():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc", state=TargetState.STOPPED)
        cluster.create("fsink", "sink", state=TargetState.STOPPED)
        leader = Leader()
        made = exactly_once(cluster, leader)
        made.before_change("fsrc", None)
        made.before_change("fsink", None)
        exactly_once(cluster, leader, {}).before_change("fsrc", None)
        assert leader.asked == [(None, "fsrc")], "neither for sinks, nor where it is off"


def test_offsets_stay_when_former_tasks_can_not_be_fenced_off():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc", state=TargetState.STOPPED)
        made = exactly_once(cluster, Leader(ConnectError("not authorized")))
        with pytest.raises(ConnectError) as err:
            made.before_change("fsrc", None)
        message = "Failed to perform zombie fencing for source connector prior to modifying offsets: not authorized"
        assert str(err.value) == message


def test_offsets_stay_when_the_connector_was_resumed_while_former_tasks_were_fenced_off():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc", state=TargetState.STOPPED)
        leader = Leader()
        made = exactly_once(cluster, leader)
        cluster.leader.herder.set_target_state("fsrc", TargetState.STARTED)
        with pytest.raises(ConflictError, match="was resumed before its offsets could be reset"):
            made.before_change("fsrc", None)


def test_the_herder_s_thread_records_a_round_unless_other_task_configs_were_written_since():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc")
        cluster.await_running("fsrc", tasks=1)
        herder = cluster.leader.herder
        changes, configs = herder.assembly.work.changes, herder.assembly.cluster.configs
        herder.fence_zombies("fsrc")
        assert configs.snapshot().task_count_record("fsrc") == 1
        generation = configs.snapshot().task_config_generation("fsrc")
        herder.put_task_configs("fsrc", [{"n": str(number)} for number in range(4)])
        with pytest.raises(ConflictError, match="new task configurations were generated"):
            changes.record_task_count("fsrc", 1, generation)
        assert configs.snapshot().is_pending_fencing("fsrc")
        with pytest.raises(NotFoundError, match="Connector none not found"):
            changes.record_task_count("none", 1, None)


def test_a_sink_has_no_round_of_fencing():
    with memory_cluster(1) as cluster:
        cluster.create("fsink", "sink")
        with pytest.raises(BadRequestError, match="Connector fsink is not a source connector"):
            cluster.leader.herder.assembly.work.exactly_once.run_round("fsink")
        with pytest.raises(NotFoundError, match="Connector none not found"):
            cluster.leader.herder.fence_zombies("none")


@pytest.mark.parametrize(
    ("is_leader", "url", "asked"),
    [(True, "http://other/", [(None, "fsrc")]), (False, "http://other/", [("http://other/", "fsrc")])],
    ids=["leader", "follower"],
)
def test_a_leader_runs_its_own_rounds_and_a_follower_asks_its_leader(is_leader, url, asked):
    with memory_cluster(1) as cluster:
        cluster.create("fsrc", state=TargetState.STOPPED)
        herder = cluster.leader.herder
        herder.assembly.cluster.configs.put_task_configs("fsrc", [{"n": "0"}])
        leader = Leader()
        starts = exactly_once(cluster, leader).starts(lambda: is_leader, lambda: url)
        assert starts is not None
        started: list[TaskId] = []
        starts.begin("fsrc", IDS[:1], 0, started.extend, lambda ids, error: None)
        eventually(lambda: started == IDS[:1], 5, "it starts behind the round")
        starts.close()
        assert leader.asked == asked


def test_without_a_leader_tasks_wait_for_one_and_fail_when_none_comes():
    with memory_cluster(1) as cluster:
        herder = cluster.leader.herder
        cluster.create("fsrc", state=TargetState.STOPPED)
        herder.assembly.cluster.configs.put_task_configs("fsrc", [{"n": "0"}])
        parts = replace(herder.assembly.cluster, leader=Leader(), request_timeout_s=0.3)
        made = ExactlyOnceSources(
            ENABLED,
            parts,
            herder.assembly.knowledge.config,
            herder.assembly.work.host,
            lambda _: pytest.fail("it does not lead"),
            lambda *_: pytest.fail("it does not lead"),
        )
        starts = made.starts(lambda: False, lambda: None)
        assert starts is not None
        failed: list[str] = []
        starts.begin("fsrc", IDS[:1], 0, lambda _: pytest.fail("it starts"), lambda _, error: failed.append(str(error)))
        eventually(lambda: failed, 5, "it gave up")
        starts.close()
        assert "No leader of the group is known" in failed[0]


def test_where_exactly_once_is_off_starts_wait_for_nobody():
    with memory_cluster(1) as cluster:
        assert exactly_once(cluster, Leader(), {}).starts(lambda: True, lambda: None) is None
