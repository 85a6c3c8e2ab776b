"""Workers that do not fit into their group, and one that is cut off from it: what is reported, and what goes on.

One broker, whose second listener is reached by a way that can be cut. Workers are in this process; topics, the group
and REST are real, tasks are entries in a table where it does not matter what they do.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TaskId, TaskSpec
from kconnect.runtime.herder.decisions.facts import Phase
from kconnect.runtime.storage.config_topic import encode_session_key
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.testing.thread_launcher import ThreadLauncher
from kconnect.worker import EXIT_HERDER, DistributedWorker
from kit.brokers import PatientBroker
from kit.cli import cli_run
from kit.distributed_worker import cluster_settings, tasks_of, workers
from kit.memory_launcher import MemoryLauncher
from kit.numbered_source import NUMBERED
from kit.pace import ample_s
from kit.ports import free_port
from kit.relay import Relay
from kit.standalone import STRING_CONVERTERS, write_properties
from kit.topics import committed_values, create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

# The shortest one the broker takes
SESSION = {"session_timeout_ms": "6000"}


@pytest.fixture(scope="module")
def way() -> Iterator[Relay]:
    with Relay() as relay:
        yield relay


@pytest.fixture(scope="module")
def cut_broker(way: Relay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """A broker with a listener which it advertises as the end of `way`."""
    plain, behind, controller = free_port(), free_port(), free_port()
    way.target_port = behind
    at = "127.0.0.1"
    settings = {
        "controller.quorum.voters": f"1@{at}:{controller}",
        "listeners": f"PLAINTEXT://{at}:{plain},BEHIND://{at}:{behind},CONTROLLER://{at}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{at}:{plain},BEHIND://{at}:{way.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with PatientBroker(plain, tmp_path_factory.mktemp("cut") / "data", settings=settings) as running:
        yield running


def source(name: str, topic: str = "t") -> dict[str, str]:
    return {"name": name, "connector.class": "FileStreamSource", "file": f"/none/{name}", "topic": topic}


def create(worker: DistributedWorker, *names: str) -> None:
    for name in names:
        worker.herder.put_connector(name, source(name), replace=False)


def ask(worker: DistributedWorker, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(worker.rest_url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ample_s(30)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as err:
        return err.code, json.load(err)


def one_of(bootstrap: str, group: str, stack: ExitStack, launcher: Callable[[], Any] | None = None, **settings: str):
    """One more worker of a group, up."""
    more = {} if launcher is None else {"launcher": launcher}
    return stack.enter_context(workers(bootstrap, group, 1, **more, **settings))[0]


def test_the_name_of_a_consumer_group_as_group_id_ends_the_worker_with_a_sentence(
    cut_broker: DevBroker, tmp_path: Path, home: Path
) -> None:
    create_topic(cut_broker.bootstrap, "orders")
    consumer = Consumer({"bootstrap.servers": cut_broker.bootstrap, "group.id": "billing"})
    try:
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 40, "the consumer is in its group")
        settings = {
            "bootstrap.servers": cut_broker.bootstrap,
            "listeners": f"http://127.0.0.1:{free_port()}",
            "kconnect.slots": "1",
            **STRING_CONVERTERS,
            **cluster_settings("billing"),
        }
        file = write_properties(tmp_path / "worker.properties", settings)
        ended = cli_run("distributed", str(file), home=home, expect=EXIT_HERDER)
    finally:
        consumer.close()
    reported = [
        line for line in ended.stderr.splitlines() if "group.id=billing is in use by a group of another kind" in line
    ]
    assert reported, ended.stderr
    assert "Choose another group.id for this Connect cluster" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_clusters_on_one_config_topic_are_asked_to_both_leaders(
    cut_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        ours = one_of(cut_broker.bootstrap, "shared-a", stack, **SESSION)
        theirs = one_of(cut_broker.bootstrap, "shared-b", stack, config_storage_topic="shared-a-config", **SESSION)
        create(ours, "c0")
        message = (
            "of config.storage.topic=shared-a-config was written by another process while this worker led group.id="
        )
        eventually(lambda: f"{message}shared-b" in caplog.text, 40, "the leader of the other cluster tells it")
        create(theirs, "c1")
        eventually(lambda: f"{message}shared-a" in caplog.text, 40, "and so does the leader of this one")
    assert "a config.storage.topic, offset.storage.topic and status.storage.topic of its own" in caplog.text


def test_a_session_key_from_the_future_is_reported_with_both_times(
    cut_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        worker = one_of(cut_broker.bootstrap, "clocks", stack)
        eventually(lambda: worker.herder.session_key, 30, "it has made a key")
        assert "ahead of this one's" not in caplog.text
        key, value = encode_session_key(SessionKey(bytes(32), "HmacSHA256", time.time_ns() // 1_000_000 + 3_600_000))
        producer = Producer({"bootstrap.servers": cut_broker.bootstrap})
        producer.produce("clocks-config", value, key)
        assert producer.flush(10) == 0
        eventually(lambda: "ahead of this one's" in caplog.text, 30, "it is reported")
    assert "inter.worker.key.ttl.ms" in caplog.text


def test_a_leader_that_others_can_not_reach_is_named_with_the_settings_of_its_address(cut_broker: DevBroker) -> None:
    nobody = free_port()
    with ExitStack() as stack:
        one_of(cut_broker.bootstrap, "far", stack, rest_advertised_port=str(nobody))
        follower = one_of(cut_broker.bootstrap, "far", stack)
        eventually(lambda: follower.herder.leader_url, 30, "it knows its leader")
        status, body = ask(follower, "POST", "/connectors", {"name": "c", "config": source("c")})
    assert status == 500
    assert f"Nobody answers at http://127.0.0.1:{nobody}" in body["message"]
    assert "rest.advertised.host.name, rest.advertised.port and rest.advertised.listener" in body["message"]


def test_a_worker_with_another_config_topic_leaves_the_group_and_is_unhealthy_whoever_leads(
    cut_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    patience = {"worker_sync_timeout_ms": "500"}
    with ExitStack() as stack:
        short = one_of(cut_broker.bootstrap, "topics", stack, config_storage_topic="topics-other", **patience)
        with ExitStack() as before:
            create(
                one_of(cut_broker.bootstrap, "topics-before", before, config_storage_topic="topics-config"), "c0", "c1"
            )
        right = one_of(cut_broker.bootstrap, "topics", stack, **patience)
        eventually(lambda: short.herder.state.facts.phase is Phase.UNREAD, 40, "the one without its configs has left")
        eventually(lambda: right.herder.is_leader and len(tasks_of(right)) == 2, 40, "the other leads and runs all")
        # It tries again and again: on a busy machine a look at the topic may not even end within the 500 ms
        why = "config.storage.topic=topics-other was read to its end at offset "

        def health() -> tuple[int, Any]:
            status, body = ask(short, "GET", "/health")
            assert body["message"].startswith(why), body
            return status, body

        status, body = eventually(health, 40, "it says what is wrong")
        assert (status, body["status"]) == (500, "unhealthy")
        assert "but the workers of group.id=topics have read configs up to offset" in body["message"]
        assert body["reasons"][0]["reason"] in caplog.text
        assert ask(right, "GET", "/health")[0] == 200
        follower = one_of(cut_broker.bootstrap, "topics", stack, config_storage_topic="topics-other", **patience)
        eventually(lambda: follower.herder.state.facts.phase is Phase.UNREAD, 40, "nor does it stay as a follower")

        def has_all() -> bool:
            return right.herder.state.facts.phase is Phase.STABLE and len(tasks_of(right)) == 2

        # Each of the two that try again may be given a task before it leaves
        eventually(has_all, 60, "the one that is right goes on, with all tasks")


def numbered(name: str, topic: str, **more: str) -> dict[str, str]:
    return {"name": name, "connector.class": NUMBERED, "topic": topic, "tasks": "2", "tasks.max": "2", **more}


def await_running(worker: DistributedWorker, name: str, tasks: int = 2) -> None:
    def reached() -> bool:
        found = next((status.tasks for status in worker.statuses() if status.name == name), ())
        return [task.state for task in found] == [RunState.RUNNING] * tasks

    eventually(reached, 40, f"{tasks} tasks of {name} run")


def leader_of(running: Sequence[DistributedWorker]) -> DistributedWorker:
    """The one that leads, once the group has settled after a worker came or went."""

    def found() -> DistributedWorker | None:
        return next((worker for worker in running if worker.herder.is_leader), None)

    leader = eventually(found, 40, "one of them leads")
    assert leader is not None
    return leader


def test_a_worker_without_exactly_once_support_beside_one_that_has_it_tells_so(
    cut_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        off = one_of(cut_broker.bootstrap, "mixed-eos", stack, ThreadLauncher)
        on = one_of(cut_broker.bootstrap, "mixed-eos", stack, ThreadLauncher, exactly_once_source_support="enabled")
        eventually(lambda: on.herder.leader_url, 30, "both are in")
        off.herder.put_connector("mixed", numbered("mixed", "mixed-eos-out", most="10"), replace=False)
        await_running(off, "mixed")
        eventually(lambda: "have run tasks of mixed" in caplog.text, 30, "it is reported")
    assert "but this worker has exactly.once.source.support=disabled" in caplog.text
    assert "first to preparing on each of them, then to enabled" in caplog.text


def test_exactly_once_support_is_switched_on_by_rolling_the_workers_twice(
    cut_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """disabled -> preparing -> enabled, a worker at a time; both generations of settings run side by side meanwhile."""
    create_topic(cut_broker.bootstrap, "roll-out")
    with ExitStack() as stack:

        def start(support: str) -> DistributedWorker:
            return one_of(
                cut_broker.bootstrap,
                "roll",
                stack,
                ThreadLauncher,
                exactly_once_source_support=support,
                offset_flush_interval_ms="200",
            )

        running = [start("disabled"), start("disabled")]
        leader = leader_of(running)
        leader.herder.put_connector("roll", numbered("roll", "roll-out", most="3000", size="10"), replace=False)
        await_running(leader, "roll")
        for support in ("preparing", "enabled"):
            for old in list(running):
                old.stop()
                running.remove(old)
                running.append(start(support))
                await_running(running[-1], "roll")
        leader = leader_of(running)

        def is_fenced() -> bool:
            snapshot = leader.herder.assembly.cluster.configs.snapshot()
            assert snapshot.task_count_record("roll") == 2, "the tasks of the last roll are fenced and counted"
            return not snapshot.is_pending_fencing("roll")

        eventually(is_fenced, 40, "nothing is left to fence")
        wanted = {f"{task}:{number}".encode() for task in range(2) for number in range(3000)}
        eventually(lambda: wanted <= set(committed_values(cut_broker.bootstrap, "roll-out")), 40, "all are there")
        leader.herder.put_connector("after", numbered("after", "roll-after", most="500"), replace=False)
        everything = sorted(f"{task}:{number}".encode() for task in range(2) for number in range(500))
        eventually(lambda: sorted(committed_values(cut_broker.bootstrap, "roll-after")) == everything, 40, "once each")
    assert "exactly.once.source.support=disabled" not in caplog.text, "no roll leaves a worker behind"


class Dated(MemoryLauncher):
    """Notes when a task was started last, and when it had ended."""

    def __init__(self) -> None:
        super().__init__()
        self.began: dict[TaskId, float] = {}
        self.ended: dict[TaskId, float] = {}

    def start_tasks(self, specs: Sequence[TaskSpec]) -> None:
        self.began.update(dict.fromkeys((spec.id for spec in specs), time.monotonic()))
        super().start_tasks(specs)

    def stop_tasks(self, ids: Collection[TaskId], timeout_s: float, *, is_cut_off: bool = False) -> set[TaskId]:
        left = super().stop_tasks(ids, timeout_s)
        self.ended.update(dict.fromkeys(ids, time.monotonic()))
        return left


def test_a_worker_cut_off_from_the_group_stops_its_tasks_before_another_starts_them_though_it_hangs_in_a_write(
    cut_broker: DevBroker, way: Relay
) -> None:
    # Of it 2 s are left when the tasks have to be stopped, time enough on a busy machine; its write hangs for longer
    session = {"session_timeout_ms": "12000"}
    here, there = Dated(), Dated()
    with ExitStack() as stack:
        behind = one_of(f"127.0.0.1:{way.port}", "cut", stack, lambda: here, **session)
        one_of(cut_broker.bootstrap, "cut", stack, lambda: there, **session)
        stack.callback(way.repair)  # before they stop
        create(behind, *(f"c{number}" for number in range(4)))
        eventually(lambda: len(here.tasks) == len(there.tasks) == 2, 40, "each has its share")
        assert behind.herder.is_leader
        moved = set(here.tasks)
        way.cut()
        writer = threading.Thread(target=_create_late, args=(behind,), name="writer")
        writer.start()
        stages = behind.herder.assembly.requests.stages
        eventually(
            lambda: "is currently writing to the config topic" in stages.summary(), 7, "its thread hangs in a write"
        )
        eventually(lambda: moved <= set(there.tasks), 30, "the other runs its tasks")
        assert not here.tasks
        assert "is currently writing to the config topic" in stages.summary(), "it hangs there still"
        assert all(here.ended[task] < there.began[task] for task in moved), (here.ended, there.began)
        way.repair()
        eventually(lambda: behind.herder.state.facts.phase is Phase.STABLE and here.tasks, 30, "it is back")
        writer.join(30)
        eventually(lambda: not set(here.tasks) & set(there.tasks), 30, "and nothing runs twice")


def _create_late(worker: DistributedWorker) -> None:
    """What comes of it does not matter: the broker may have it, or not, when the way is restored."""
    with suppress(ConnectError):
        create(worker, "late")
