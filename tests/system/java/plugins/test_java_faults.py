"""Faults of Java's plugins and of their JVM in a worker, and what each screen says meanwhile.

That is status, /metrics, /health and `connect`. Only the tasks of the JVM notice, and go on.
"""

from __future__ import annotations

import itertools
import json
import signal
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import Condition, RunState, TaskId, TaskState
from kit.cli import cli_run
from kit.distributed_worker import Distributed
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import MISBEHAVES, NUMBERS, texts
from kit.pace import ample_s
from kit.processes import below, command, lives
from kit.standalone import Standalone
from kit.topics import consume, consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(180)]

_SOURCE = {"connector.class": "kit.Faulty$Source"}
_AGAIN = {"errors.restart.backoff.ms": "200"}
_NEVER = {"errors.restart.max": "0"}
# It stays down while it is looked at
_LATER = {"errors.restart.backoff.ms": "600000", "errors.restart.backoff.max.ms": "600000"}
_SETTINGS = {
    "plugin.discovery": "service_load",
    "kconnect.slots": "1",
    "spark.master": "local[1]",
    "kconnect.java.timeout.ms": "8000",
    "kconnect.java.heap": "96m",
    "kconnect.java.opts": "-XX:MaxDirectMemorySize=64m",
    "kconnect.task.stuck.after.ms": "1000",
    "task.shutdown.graceful.timeout.ms": "1000",
    "offset.flush.interval.ms": "500",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[Standalone]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    folder = tmp_path_factory.mktemp("worker")
    settings = {"plugin.path": str(plugins), **_SETTINGS}
    with Distributed(folder, broker.bootstrap, f"java-faults-{uuid.uuid4().hex[:6]}", settings) as made:
        made.start()
        yield made
        if made.process is not None and made.process.poll() is None:  # the last test ends it
            made.stop()


@contextmanager
def connectors(worker: Standalone, **configs: dict[str, str]) -> Iterator[ConnectClient]:
    """These run, and are gone afterwards."""
    with worker.client() as client:
        for name, config in configs.items():
            client.create_connector(name, config)
        for name in configs:
            worker.await_task(name, RunState.RUNNING)
        try:
            yield client
        finally:
            for name in configs:
                client.delete_connector(name)


def task(client: ConnectClient, name: str) -> TaskState:
    return client.connector_status(name).tasks[0]


def failed(client: ConnectClient, name: str) -> str:
    """The trace of a task that has failed."""

    def trace() -> str:
        found = task(client, name)
        return (found.trace or "") if found.state is RunState.FAILED else ""

    return eventually(trace, 20, f"{name} is FAILED")


def jvms(worker: Standalone) -> list[psutil.Process]:
    """Those of the slot, then that of the worker."""
    above = [*worker.slots(), psutil.Process(worker.pid)]
    children = [child for process in above for child in below(process, deep=False)]
    return [child for child in children if command(child)[-1:] == ["kconnect.host.Main"]]


def metric(worker: Standalone, line: str) -> str:
    request = urllib.request.Request(f"{worker.url}/metrics", headers={"Accept": "text/plain"})
    with urllib.request.urlopen(request, timeout=ample_s(10)) as answer:
        lines = answer.read().decode().splitlines()
    return next((found.rpartition(" ")[2] for found in lines if found.startswith(f"{line} ")), "")


def grows(broker: DevBroker, topic: str) -> None:
    before = end_offset(broker.bootstrap, topic)
    eventually(lambda: end_offset(broker.bootstrap, topic) > before, 20, f"{topic} grows")


@pytest.fixture
def topics(broker: DevBroker, request: pytest.FixtureRequest) -> tuple[str, str]:
    found = topic_for(request), topic_for(request, "-more")
    for name in found:
        create_topic(broker.bootstrap, name)
    return found


def test_while_a_killed_jvm_is_down_every_screen_says_why_and_pythons_run_on(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str], tmp_path: Path, home: Path
) -> None:
    topic, lines = topics
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    python = {"connector.class": "FileStreamSource", "file": str(file), "topic": lines}
    with connectors(worker, java={**_SOURCE, **_LATER, "topic": topic}, python=python) as client:
        jvms(worker)[0].send_signal(signal.SIGKILL)
        trace = failed(client, "java")
        why = "killed by signal 9: by somebody, or by the kernel when memory ran out"
        said = f"JavaHostDiedError: The JVM that runs Java's plugins ended ({why})"
        assert trace.startswith(f"Task java-0 failed: Faulty$Numbers.poll() raised {said}")
        assert "EOFError" not in trace
        of_task = 'kafka_connect_connector_task_metrics_status{connector="java",task="0",value="failed"}'
        eventually(lambda: metric(worker, of_task) == "1", 10, "its metric says so")

        def is_reported_by_health() -> bool:
            health = json.load(urllib.request.urlopen(f"{worker.url}/health", timeout=ample_s(10)))
            assert health["status"] == "healthy", "the worker is"
            assert health["message"].endswith("1 task on it is FAILED."), health
            return True

        eventually(is_reported_by_health, 10, "/health says so")
        reported = cli_run("status", "--url", worker.url, home=home, env={"COLUMNS": "300"})
        assert why in reported.stdout, reported.stdout
        assert "restart 1 of" in reported.stdout
        with file.open("a") as more:
            more.write("two\n")
        assert consume_values(broker.bootstrap, lines, 2) == [b"one", b"two"]
        assert task(client, "python").state is RunState.RUNNING
        client.restart_task(TaskId("java", 0))
        worker.await_task("java", RunState.RUNNING)
        grows(broker, topic)


def test_when_the_workers_own_jvm_is_killed_its_connectors_fail_with_the_cause_and_can_be_restarted(
    worker: Standalone, topics: tuple[str, str]
) -> None:
    with connectors(worker, watched={**_SOURCE, **_LATER, "topic": topics[0]}) as client:
        jvms(worker)[-1].send_signal(signal.SIGKILL)

        def is_failed() -> bool:
            found = client.connector_status("watched").connector
            assert found.state is RunState.FAILED, f"{found}"
            assert "killed by signal 9" in (found.trace or "")
            return True

        eventually(is_failed, 20, "the connector is FAILED")
        assert task(client, "watched").state is RunState.RUNNING, "it runs in another JVM"

        def is_running() -> bool:
            return client.connector_status("watched").connector.state is RunState.RUNNING

        client.restart_connector("watched")
        eventually(is_running, 60, "the connector runs again")


def slot_jvms(worker: Standalone) -> list[psutil.Process]:
    return jvms(worker)[:-1]


def test_a_jvm_that_is_killed_in_mid_stream_costs_no_record(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    reported = len(worker.log_text())
    with connectors(worker, killed={**NUMBERS, **_AGAIN, "topic": topic, "count": "60000"}):
        consume(broker.bootstrap, topic, 1)
        (jvm,) = slot_jvms(worker)
        jvm.send_signal(signal.SIGKILL)
        jvm.wait(ample_s(10))
        assert end_offset(broker.bootstrap, topic) < 60_000, "it is killed in mid stream"

        def has_all() -> bool:  # some of them may have come twice
            there = end_offset(broker.bootstrap, topic)
            return there >= 60_000 and set(texts(broker, topic, there)) == {f"number {n}" for n in range(60_000)}

        eventually(has_all, 60, "every number is there")
    why = "killed by signal 9: by somebody, or by the kernel when memory ran out"
    said = f"The JVM that runs Java's plugins ended ({why})"
    worker.await_log(said, since=reported)


def test_a_frozen_jvm_is_killed_at_its_deadline_and_its_tasks_go_on(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    with connectors(worker, frozen={**NUMBERS, **_AGAIN, "topic": topic, "count": "100000000"}):
        consume(broker.bootstrap, topic, 1)
        (jvm,) = slot_jvms(worker)
        jvm.send_signal(signal.SIGSTOP)
        jvm.wait(ample_s(60))

        def reported() -> list[str]:
            return [line for line in worker.log_text().splitlines() if "kconnect.java.timeout.ms" in line]

        assert "has not answered for" in eventually(reported, 10, "it is reported")[0]
        eventually(lambda: [one for one in slot_jvms(worker) if one.pid != jvm.pid], 30, "a new JVM")
        worker.await_task("frozen", RunState.RUNNING)
        grows(broker, topic)


def test_a_slot_that_is_killed_takes_its_jvm_along_and_the_task_goes_on_in_another(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    with connectors(worker, bystander={**_SOURCE, **_AGAIN, "topic": topic}):
        (jvm,) = slot_jvms(worker)
        (slot,) = worker.slots()
        slot.kill()
        eventually(lambda: not lives(jvm), 20, "its JVM ends")
        eventually(lambda: slot_jvms(worker), 60, "a new slot with a JVM")
        worker.await_task("bystander", RunState.RUNNING)
        grows(broker, topic)


def test_a_jvm_in_which_a_plugin_hangs_is_killed_once_nobody_else_is_in_it(
    worker: Standalone, topics: tuple[str, str], tmp_path: Path
) -> None:
    topic, other = topics
    hangs = {**NUMBERS, **MISBEHAVES, "transforms.bad.does": "sleep", "bad": "3", "topic": topic, "count": "10"}
    with connectors(worker, bystander={**_SOURCE, "topic": other}):
        (jvm,) = slot_jvms(worker)
        (slot,) = worker.slots()
        with connectors(worker, hangs=hangs):
            worker.await_log("now it sleeps", 30)
            (line,) = [line for line in worker.log_text().splitlines() if "now it sleeps" in line]
            assert "(kit.TestPlugins" in line, "its own logger's name is reported"
        worker.await_task("bystander", RunState.RUNNING)
        assert lives(jvm)
    eventually(lambda: not lives(jvm), 40, "the JVM in which a plugin hangs is killed")
    said = "1 plugin that had to stop did not return within 10 s more than task.shutdown.graceful.timeout.ms: hangs-0"
    worker.await_log(said)
    assert [found.pid for found in worker.slots()] == [slot.pid], "Python is left alone"


@pytest.mark.parametrize("method", ["poll", "put", "stop"])
def test_what_hangs_is_named_and_given_up_and_the_others_in_its_jvm_run_on(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str], tmp_path: Path, method: str
) -> None:
    topic, other = topics
    name, when = f"hangs-{method}", tmp_path / "now"
    does = {"does": "hang", "in": method, "when": str(when), **_NEVER}
    hangs = {**_SOURCE, "topic": topic, **does}
    if method == "put":
        hangs = {"connector.class": "kit.Faulty$Sink", "topics": other, "journal": str(tmp_path / "journal"), **does}
    bystander = f"{other}-bystander"
    with connectors(worker, **{bystander: {**_SOURCE, "topic": other}}) as client:
        before = jvms(worker)[0]
        with connectors(worker, **{name: hangs}):
            when.touch()
            if method != "stop":
                task_class = "Places" if method == "put" else "Numbers"
                call = f"Faulty${task_class}.{method}() has not returned: it is at kit.Faulty.hang(Faulty.java:"

                def is_named() -> bool:
                    condition = task(client, name).condition
                    assert condition is not None, "it has none yet"
                    assert condition.condition is Condition.STUCK, f"{condition}"
                    assert call in (condition.cause or ""), f"{condition}"
                    return f"at kit.Faulty${task_class}.{method}(Faulty.java:" in (condition.stack or "")

                eventually(is_named, 20, "it is stuck")
        given_up = f"Task {name}-0 did not stop within 1.0 s (task.shutdown.graceful.timeout.ms) and was abandoned"
        worker.await_log(given_up)
        assert "at kit.Faulty.hang(Faulty.java:" in worker.log_text().partition(given_up)[2].partition("\n")[0]
        grows(broker, other)
        assert task(client, bystander).state is RunState.RUNNING
        assert jvms(worker)[0].pid == before.pid


@pytest.mark.parametrize(
    ("does", "said", "only_its_own"),
    [
        ("heap", "ended (exit code 3, as it ran out of memory (Java heap space): raise kconnect.java.heap)", False),
        ("exit", "ended (exit code 3, as ends-exit-0 called System.exit at kit.Faulty.in(", False),
        ("direct", "OutOfMemoryError: Cannot reserve 16777216 bytes of direct buffer memory", True),
    ],
)
def test_what_ends_memory_or_the_jvm_is_reported_and_the_others_go_on(
    worker: Standalone,
    broker: DevBroker,
    topics: tuple[str, str],
    tmp_path: Path,
    does: str,
    said: str,
    only_its_own: bool,
) -> None:
    topic, other = topics
    name, when = f"ends-{does}", tmp_path / "now"
    bad = {**_SOURCE, "topic": topic, "does": does, "in": "poll", "when": str(when), **_NEVER}
    bystander = f"{other}-bystander"
    healed = {**_SOURCE, "topic": other, "errors.restart.backoff.ms": "200"}
    with connectors(worker, **{bystander: healed}) as client:
        before = jvms(worker)[0]
        with connectors(worker, **{name: bad}):
            when.touch()
            assert said in failed(client, name)
        worker.await_task(bystander, RunState.RUNNING)
        grows(broker, other)
        assert (jvms(worker)[0].pid == before.pid) is only_its_own


def test_at_last_a_worker_that_is_killed_leaves_no_jvm_and_loses_nothing(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    topic, _ = topics
    journal = tmp_path / "journal"
    worker_configs = {
        f"{topic}-in": {**_SOURCE, "topic": topic},
        f"{topic}-out": {"connector.class": "kit.Faulty$Sink", "topics": topic, "journal": str(journal)},
    }

    def numbers() -> list[int]:
        return [int(line.split()[0]) for line in journal.read_text().splitlines()] if journal.exists() else []

    with connectors(worker, **worker_configs):
        eventually(lambda: len(numbers()) > 30, 40, "records flow")
        assert len({found.pid for found in jvms(worker)} & {found.pid for found in worker.descendants()}) == 2
        worker.kill()  # and waits until nothing that was below it is left
        last = max(numbers())
        worker.start()
        eventually(lambda: numbers()[-1] > last + 30, 90, "records flow again")
        found = numbers()
        assert set(found) == set(range(max(found) + 1)), "none is lost"
        # Written again is what was not committed: whole runs that begin further down, none of them out of order
        assert sum(second != first + 1 for first, second in itertools.pairwise(found)) <= 2
    worker.stop()  # a process that the module does not know
