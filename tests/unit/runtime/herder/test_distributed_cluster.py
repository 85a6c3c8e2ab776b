"""Several herders of one cluster in this process: what they share is in memory, all the rest is real."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from kconnect.errors import AlreadyExistsError, NotFoundError, TimedOutError, WrongWorkerError
from kconnect.model import Condition, RunState, TargetState, TaskCondition, TaskId
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.decisions.events import Event, StopAsked
from kconnect.runtime.herder.decisions.facts import Phase
from kit.distributed import TIMES, memory_cluster
from kit.herders import config
from kit.pace import ample_s
from kit.waiting import eventually


def test_a_connector_made_on_the_leader_runs_with_its_tasks_somewhere_in_the_cluster():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="3", tasks_max="3")
        cluster.await_running("fsrc", tasks=3)
        assert all(node.tasks for node in cluster.nodes), [node.tasks for node in cluster.nodes]


def test_a_follower_sends_who_wants_to_create_a_connector_to_the_leader():
    with memory_cluster(2) as cluster:
        with pytest.raises(WrongWorkerError) as err:
            cluster.followers[0].herder.put_connector("fsrc", config("fsrc"), replace=False)
        assert err.value.url == cluster.leader.url


def test_tasks_of_a_killed_worker_move_to_the_others():
    with memory_cluster(2) as cluster:
        for number in range(4):
            cluster.create(f"c{number}")
        names = [f"c{number}" for number in range(4)]
        cluster.await_running(*names)
        victim = cluster.followers[0]
        assert victim.tasks
        cluster.kill(victim)
        cluster.await_running(*names)
        assert cluster.leader.tasks == {TaskId(name, 0) for name in names}


def test_the_death_of_the_leader_makes_another_worker_lead():
    with memory_cluster(3) as cluster:
        cluster.create("fsrc")
        cluster.await_running("fsrc")
        cluster.kill(cluster.leader)
        cluster.await_settled()
        cluster.create("other")
        cluster.await_running("fsrc", "other")


def test_many_connectors_made_one_after_the_other_need_few_rebalances_and_no_409():
    # A busy machine takes longer over each than the ten milliseconds after which the others do not wait any more
    with memory_cluster(2, times=replace(TIMES, quiet_ms=200, longest_quiet_ms=2_000)) as cluster:
        before = len(cluster.group.rebalances)
        for number in range(60):
            cluster.create(f"c{number}")
        cluster.await_running(*(f"c{number}" for number in range(60)), within_s=20)
        assert len(cluster.group.rebalances) - before < 60


def test_a_name_that_is_taken_and_one_that_is_not_there_are_reported():
    with memory_cluster(1) as cluster:
        cluster.create("fsrc")
        with pytest.raises(AlreadyExistsError):
            cluster.create("fsrc")
        with pytest.raises(NotFoundError):
            cluster.leader.herder.delete_connector("none")


def test_a_deleted_connector_leaves_no_status_and_no_topics():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc")
        cluster.await_running("fsrc")
        owner = cluster.owners(TaskId("fsrc", 0))[0]
        owner.launcher.use_topic(TaskId("fsrc", 0), "t1")
        eventually(lambda: cluster.leader.herder.connector_topics("fsrc") == ["t1"], 5, "topic seen")
        cluster.leader.herder.delete_connector("fsrc")

        def gone():
            herder = cluster.leader.herder
            return (
                herder.assembly.knowledge.status.find_connector("fsrc", None) is None
                and not cluster.owners(TaskId("fsrc", 0))
                and not herder.assembly.cluster.statuses.topics("fsrc")
            )

        eventually(gone, 5, "status gone")


def test_pause_resume_and_stop_reach_tasks_on_any_worker():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="2", tasks_max="2")
        cluster.await_running("fsrc", tasks=2)
        cluster.followers[0].herder.set_target_state("fsrc", TargetState.PAUSED)

        def states():
            status = cluster.leader.herder.connector_status("fsrc")
            return [status.connector.state, *(task.state for task in status.tasks)]

        eventually(lambda: states() == [RunState.PAUSED] * 3, 5, "paused")
        cluster.followers[0].herder.set_target_state("fsrc", TargetState.STARTED)
        eventually(lambda: states() == [RunState.RUNNING] * 3, 5, "running")
        cluster.leader.herder.set_target_state("fsrc", TargetState.STOPPED)
        eventually(lambda: states() == [RunState.STOPPED], 5, "stopped")
        eventually(lambda: not [node for node in cluster.nodes if node.tasks], 5, "the follower's have ended, too")


def test_a_worker_out_of_reach_of_its_group_stops_its_tasks_though_its_thread_is_busy():
    with memory_cluster(2) as cluster:
        for number in range(4):
            cluster.create(f"c{number}")
        names = [f"c{number}" for number in range(4)]
        cluster.await_running(*names)
        worker = cluster.followers[0]
        worker.member.is_cut_off = True  # its polls tell nothing, as if it never came to poll
        worker.member.runs_until = time.monotonic()
        eventually(lambda: not worker.tasks, 5, "it has stopped its tasks")
        worker.member.runs_until, worker.member.is_cut_off = None, False
        cluster.await_running(*names)
        assert worker.tasks, "it joined again and got its share"


def test_a_request_that_is_not_answered_says_what_the_worker_does():
    with memory_cluster(1, request_timeout_s=0.3) as cluster:
        node = cluster.leader
        node.member.is_cut_off = True
        cluster.group.rebalance("for the test")
        node.herder.state.facts.phase = Phase.JOINING
        with pytest.raises(TimedOutError) as err:
            node.herder.delete_connector("fsrc")
        assert str(err.value).startswith("Request timed out. The ")
        assert "polling the group coordinator" in str(err.value)


def test_task_configs_that_the_leader_did_not_take_are_sent_again():
    with memory_cluster(2) as cluster:
        cluster.refused_forwards = 2
        names = [f"c{number}" for number in range(4)]
        for name in names:
            cluster.create(name)
        cluster.await_running(*names)
        assert len(cluster.forwards) >= 4, "two connectors of the follower, two refusals"


def test_a_connector_that_gives_no_task_configs_runs_and_says_since_when_and_why_until_it_does():
    """Java shows it RUNNING without tasks, and nothing else."""
    with memory_cluster(1) as cluster:
        herder = cluster.leader.herder
        cluster.journal.broken_left = 1_000_000
        cluster.create("fsrc")

        def asked_again() -> TaskCondition:
            found = herder.connector_conditions().get("fsrc")
            assert found is not None
            assert found.count >= 2, found
            return found

        found = eventually(asked_again, 10, "it was asked twice")
        assert (found.condition, found.cause) == (Condition.NO_TASK_CONFIGS, "OSError: the system is away")
        assert herder.connector_status("fsrc").connector.state is RunState.RUNNING
        later = eventually(lambda: (now := herder.connector_conditions()["fsrc"]).count > found.count and now, 10)
        assert later.since_ms == found.since_ms
        herder.set_target_state("fsrc", TargetState.PAUSED)
        eventually(lambda: not herder.connector_conditions(), 5, "what is paused is not asked")
        cluster.journal.broken_left = 0
        herder.set_target_state("fsrc", TargetState.STARTED)
        cluster.await_running("fsrc")
        assert not herder.connector_conditions()


def test_a_group_with_an_eager_member_stops_all_for_each_rebalance_and_runs_all_after_it():
    with memory_cluster(1) as cluster:
        cluster.add(protocol_version=0)
        cluster.await_settled()
        for name in ("a", "b"):
            cluster.create(name)
        cluster.await_running("a", "b")
        assert all(node.herder.state.facts.is_eager for node in cluster.nodes)
        cluster.add(protocol_version=0)
        cluster.await_settled()
        cluster.await_running("a", "b")


def test_a_logger_of_the_whole_cluster_is_changed_on_every_worker():
    with memory_cluster(2) as cluster:
        cluster.followers[0].herder.set_logger("kconnect.none", 10, whole_cluster=True)
        for node in cluster.nodes:
            eventually(lambda node=node: node.launcher.log_levels == [("kconnect.none", 10)], 5, "level set")


def test_a_reset_of_topics_is_seen_by_all():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc")
        cluster.await_running("fsrc")
        cluster.owners(TaskId("fsrc", 0))[0].launcher.use_topic(TaskId("fsrc", 0), "t1")
        first, second = (node.herder for node in cluster.nodes)
        assert first.connector_topics("fsrc") == second.connector_topics("fsrc") == ["t1"]
        second.reset_connector_topics("fsrc")
        assert first.connector_topics("fsrc") == []


def test_a_worker_that_stops_gives_its_work_back_at_once():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="2", tasks_max="2")
        cluster.await_running("fsrc", tasks=2)
        leader = cluster.leader
        cluster.followers[0].stop()
        cluster.await_running("fsrc", tasks=2)
        assert len(leader.tasks) == 2


def test_a_worker_that_stops_while_its_thread_looks_at_other_events_stops_its_tasks(monkeypatch):
    with memory_cluster(1) as cluster:
        cluster.create("fsrc")
        cluster.await_running("fsrc")
        node = cluster.leader
        inbox = node.herder.assembly.group.inbox
        post = inbox.post

        def late(event: Event) -> None:
            if isinstance(event, StopAsked):  # the herder's thread learns in another way that it is to end
                for thread in threading.enumerate():
                    if thread.name == "herder":
                        thread.join(ample_s(3))
            post(event)

        monkeypatch.setattr(inbox, "post", late)
        node.stop()
        assert (node.launcher.stops, node.herder.state.facts.phase) == ([TaskId("fsrc", 0)], Phase.STOPPED)


def test_a_connector_restarts_where_it_runs_when_the_secret_that_its_config_refers_to_changes(tmp_path):
    file = tmp_path / "secrets.properties"
    file.write_text("word=first\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.ttl.ms": "20",
    }
    with memory_cluster(2, variables=Variables.of_worker(providers)) as cluster:
        cluster.create("fsrc", file=f"${{file:{file}:word}}")
        cluster.await_running("fsrc")
        assert cluster.journal.last._props["file"] == "first"
        file.write_text("word=second\n")
        eventually(lambda: cluster.journal.last._props["file"] == "second", 5, "the connector has the new secret")
        cluster.await_running("fsrc")
        assert cluster.journal.calls.count("start") == 2, "it has restarted once"
        assert cluster.leader.herder.connector_config("fsrc")["file"] == f"${{file:{file}:word}}"


def test_tasks_restart_on_every_worker_when_the_secret_that_their_config_refers_to_changes(tmp_path):
    """Each worker looks for itself: the one with the connector's instance need not tell those with its tasks."""
    file = tmp_path / "secrets.properties"
    file.write_text("word=first\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.ttl.ms": "20",
    }
    with memory_cluster(2, variables=Variables.of_worker(providers)) as cluster:
        cluster.create("fsrc", file=f"${{file:{file}:word}}", tasks="3", tasks_max="3")
        cluster.create("other", file="plain")
        cluster.await_running("fsrc", tasks=3)
        cluster.await_running("other")
        before = {node.url: {task: spec.run for task, spec in node.launcher.tasks.items()} for node in cluster.nodes}
        assert all(any(task.connector == "fsrc" for task in runs) for runs in before.values()), before
        file.write_text("word=second\n")

        def restarted():
            after = {node.url: {task: spec.run for task, spec in node.launcher.tasks.items()} for node in cluster.nodes}
            return all(
                (after[url].get(task, run) != run) == (task.connector == "fsrc")  # not there between stop and start
                for url, runs in before.items()
                for task, run in runs.items()
            )

        eventually(restarted, 20, "the tasks of the one connector run anew, where they were")
        cluster.await_running("fsrc", tasks=3, within_s=20)
        starts = sum(spec.id.connector == "fsrc" for node in cluster.nodes for spec in node.launcher.starts)
        cluster.create("later")  # what was to come after the change has come by then
        cluster.await_running("later")
        again = sum(spec.id.connector == "fsrc" for node in cluster.nodes for spec in node.launcher.starts)
        assert again == starts


def test_a_task_is_measured_where_it_runs_though_its_connector_runs_elsewhere():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="3", tasks_max="3")
        cluster.await_running("fsrc", tasks=3)
        cluster.await_settled()
        for node in cluster.nodes:
            found = list(node.herder.metrics())
            states = {one.labels for one in found if one.metric.name == "status" and len(one.labels) == 2}
            here = {(str(task.connector), str(task.task)) for task in node.launcher.tasks}
            assert here
            assert states >= here
            by_name = {one.metric.name: one.value for one in found}
            assert by_name["task-count"] == len(here)
            is_host = "fsrc" in node.herder.assembly.work.host.names()
            assert by_name["connector-count"] == int(is_host)
            assert ("connector-running-task-count" in by_name) == is_host


def test_metrics_of_the_group_are_those_of_each_worker():
    with memory_cluster(2) as cluster:
        cluster.create("fsrc", tasks="3", tasks_max="3")
        cluster.await_running("fsrc", tasks=3)
        cluster.await_settled()

        def measured():  # the work of a round is begun a moment after its phase is STABLE
            found = [{one.metric.name: one.value for one in node.herder.metrics()} for node in cluster.nodes]
            return all(one["rebalancing"] == 0 for one in found) and found

        found = eventually(measured, 20, "no worker is rebalancing")
        assert sum(one["assigned-connectors"] for one in found) == 1
        assert sum(one["assigned-tasks"] for one in found) == 3
        for one in found:
            assert one["connect-protocol"] == "SESSIONED"
            assert one["leader-name"] == cluster.leader.url
            assert one["epoch"] == cluster.group.generation
            assert one["completed-rebalances-total"] >= 2, "it came, the connector came"
            assert 0 <= one["rebalance-avg-time-ms"] <= one["rebalance-max-time-ms"]
            assert 0 <= one["time-since-last-rebalance-ms"] < float("inf")
