"""Workers of a cluster on a real broker: topics, group and REST are real, tasks are entries in a table."""

from __future__ import annotations

import json
import urllib.request

import pytest

from kconnect.client import ConnectClient
from kconnect.errors import ConflictError, ConnectError, WrongWorkerError
from kconnect.java.devbroker import DevBroker
from kconnect.model import ConnectorOffset, RunState, TargetState
from kconnect.worker import EXIT_HERDER, EXIT_WORKER, DistributedWorker, StartupError
from kit.distributed_worker import cluster_settings, tasks_of, workers
from kit.memory_launcher import MemoryLauncher
from kit.standalone import STRING_CONVERTERS
from kit.topics import create_topic, end_offset
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]


def source(name: str, topic: str = "t") -> dict[str, str]:
    return {"name": name, "connector.class": "FileStreamSource", "file": f"/none/{name}", "topic": topic}


def running(worker: DistributedWorker, *names: str) -> bool:
    found = {status.name: status for status in worker.statuses()}
    return all(
        name in found
        and found[name].connector.state is RunState.RUNNING
        and [task.state for task in found[name].tasks] == [RunState.RUNNING]
        for name in names
    )


def by_role(made: list[DistributedWorker]) -> tuple[DistributedWorker, DistributedWorker]:
    leader = next(worker for worker in made if worker.herder.is_leader)
    return leader, next(worker for worker in made if worker is not leader)


def test_two_workers_share_connectors_and_one_that_leaves_gives_them_back(broker: DevBroker) -> None:
    names = [f"c{number}" for number in range(6)]
    with workers(broker.bootstrap, "dist-share", 2) as made:
        leader, follower = by_role(made)
        with ConnectClient(leader.rest_url) as client:
            for name in names:
                client.create_connector(name, source(name))
        eventually(lambda: running(leader, *names), 20, "all run")
        eventually(lambda: running(follower, *names), 5, "the other worker sees it")
        assert len(tasks_of(leader)) == len(tasks_of(follower)) == 3

        def tells_of_its_rebalances(worker: DistributedWorker) -> bool:
            with urllib.request.urlopen(f"{worker.rest_url}/metrics") as answer:
                measured = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
            assert measured[f'kafka_connect_worker_rebalance_metrics_leader_name{{value="{leader.url}"}}'] == "1"
            assert measured['kafka_connect_worker_rebalance_metrics_connect_protocol{value="SESSIONED"}'] == "1"
            assert measured["kafka_connect_worker_rebalance_metrics_rebalancing"] == "0"
            assert int(measured["kafka_connect_worker_rebalance_metrics_completed_rebalances_total"]) >= 2
            of_group = {name.partition("{")[0]: value for name, value in measured.items() if "client_id" in name}
            assert of_group["kafka_connect_coordinator_metrics_assigned_tasks"] == "3"
            for what in ("heartbeat", "join", "sync", "rebalance"):
                assert int(of_group[f"kafka_connect_coordinator_metrics_{what}_total"]) >= 1
            assert float(of_group["kafka_connect_coordinator_metrics_heartbeat_response_time_max"]) > 0
            assert int(of_group["kafka_connect_coordinator_metrics_last_heartbeat_seconds_ago"]) >= 0
            return True

        for worker in made:  # one that got no task in the last rebalance may end it later than the tasks run
            eventually(lambda worker=worker: tells_of_its_rebalances(worker), 20, f"metrics of {worker.url}")
        with pytest.raises(WrongWorkerError) as err:
            follower.herder.delete_connector("c0")
        assert err.value.url == leader.url
        follower.stop()
        eventually(lambda: len(tasks_of(leader)) == 6, 20, "the leader has all tasks")
        eventually(lambda: running(leader, *names), 5, "and they run")


def test_what_a_cluster_was_reported_is_there_when_it_starts_again(broker: DevBroker) -> None:
    offset = ConnectorOffset({"filename": "/none/keep"}, {"position": 7})
    with workers(broker.bootstrap, "dist-again", 1) as [worker]:
        herder = worker.herder
        herder.put_connector("keep", source("keep"), replace=False)
        eventually(lambda: running(worker, "keep"), 20, "it runs")
        herder.set_target_state("keep", TargetState.STOPPED)
        eventually(lambda: not tasks_of(worker), 20, "it has no tasks")
        eventually(lambda: not herder.connector_info("keep").tasks, 5, "nor are any written")
        assert "altered successfully" in herder.alter_connector_offsets("keep", [offset])
    with workers(broker.bootstrap, "dist-again", 1) as [worker]:
        assert worker.herder.connectors() == ["keep"]
        assert worker.herder.connector_offsets("keep") == [offset]
        state = worker.herder.connector_status("keep").connector.state
        assert state in (RunState.STOPPED, RunState.UNASSIGNED)
        worker.herder.set_target_state("keep", TargetState.STARTED)
        eventually(lambda: running(worker, "keep"), 20, "it runs again")
        with urllib.request.urlopen(f"{worker.rest_url}/health") as answer:
            assert json.load(answer)["status"] == "healthy"


def test_a_restart_by_plan_reaches_tasks_on_the_other_worker(broker: DevBroker) -> None:
    names = ["r0", "r1"]
    with workers(broker.bootstrap, "dist-restart", 2) as made:
        leader, follower = by_role(made)
        for name in names:
            leader.herder.put_connector(name, source(name), replace=False)
        eventually(lambda: running(leader, *names), 20, "all run")
        (task,) = tasks_of(follower)
        launcher = follower._launcher
        assert isinstance(launcher, MemoryLauncher)
        before = len(launcher.starts)
        name = task.removesuffix("-0")
        plan = leader.herder.restart_by_plan(name, include_tasks=True, only_failed=False)
        assert [item.state for item in plan.tasks] == [RunState.RESTARTING]
        eventually(lambda: len(launcher.starts) == before + 1, 10, "its task starts anew")
        eventually(lambda: running(leader, name), 10, "and runs")


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"status.storage.topic": "dist-bad-config"}, EXIT_WORKER, "is both config.storage.topic and"),
        ({"config.storage.topic": "dist-two"}, EXIT_HERDER, "config.storage.topic"),
    ],
    ids=["one topic for two stores", "two partitions"],
)
def test_topics_that_do_not_fit_end_the_worker_with_a_sentence(
    broker: DevBroker, changes: dict[str, str], code: int, words: str
) -> None:
    if code == EXIT_HERDER:
        create_topic(broker.bootstrap, "dist-two", partitions=2, config={"cleanup.policy": "compact"})
    props = {
        "bootstrap.servers": broker.bootstrap,
        **STRING_CONVERTERS,
        **cluster_settings("dist-bad"),
        "listeners": "http://127.0.0.1:0",
        **changes,
    }
    worker = DistributedWorker(props, launcher=lambda _props: MemoryLauncher())
    with pytest.raises(StartupError) as err:
        worker.start()
    assert err.value.exit_code == code
    assert words in str(err.value)
    with pytest.raises(ConnectError):
        worker.herder.put_connector("x", source("x"), replace=False)


def test_a_connector_with_its_own_offsets_topic_has_its_offsets_there_and_in_the_worker_s(broker: DevBroker) -> None:
    offset = ConnectorOffset({"filename": "/none/own"}, {"position": 3})
    with workers(broker.bootstrap, "dist-own", 1) as [worker]:
        herder = worker.herder
        herder.put_connector("own", source("own") | {"offsets.storage.topic": "dist-own-of-own"}, replace=False)
        eventually(lambda: running(worker, "own"), 20, "it runs")
        herder.events.commit_offsets("own", [offset])
        assert herder.connector_offsets("own") == [offset]
        assert end_offsets(broker.bootstrap, "dist-own-of-own", 3) == end_offsets(
            broker.bootstrap, "dist-own-offset", 3
        )
        assert sum(end_offsets(broker.bootstrap, "dist-own-of-own", 3)) == 1
        herder.set_target_state("own", TargetState.STOPPED)
        eventually(lambda: not tasks_of(worker), 20, "it has no tasks")
        herder.reset_connector_offsets("own")
        assert herder.connector_offsets("own") == []
        with pytest.raises(ConflictError):
            herder.events.commit_offsets("own", [offset])  # of a task that was left behind


def end_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    return [end_offset(bootstrap, topic, partition) for partition in range(partitions)]
