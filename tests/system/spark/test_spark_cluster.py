"""Workers on a real Spark standalone cluster: what is shipped, where slots go, and what is lost when parts of it die.

One cluster for all, and one `connect distributed`. The executors' Python has the packages that kconnect needs, and no
kconnect.
"""

from __future__ import annotations

import logging
import socket
import tarfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kconnect.spark import SparkLauncher, SparkSettings
from kit.distributed_worker import Distributed
from kit.launchers import SeenEvents
from kit.ports import free_port
from kit.processes import below, named
from kit.spark_cluster import SparkCluster, bare_interpreter
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, end_offset
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1500)]

# A transform that tells where it and kconnect were imported from, in the value of each record
_WHERE = """
import kconnect
from kconnect.api import ConfigDef, Transformation


class TellsWhere(Transformation):
    def configure(self, configs):
        pass

    def apply(self, record):
        return record.new_record(value=f"{record.value}|{kconnect.__file__}|{__file__}")

    def config(self):
        return ConfigDef()
"""
_NAMES = ("one", "two")
# Above what Spark and a slot take to come up with sixty others at work on two cores: they took 263 s
_START_S = 450
# An address of this machine that nothing uses unless it is asked to
_LINK_HOST = "127.0.0.3"


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The cluster outlives each test here; test_spark_application.py looks for leaks."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """One machine of one core; tests add others and kill them."""
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster"), workers=1) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Counted:
    """A worker of a cluster with two file sources that number their lines."""

    worker: Distributed
    bootstrap: str
    topic: str
    fed: dict[str, int]
    link_port: int

    def create(self, name: str) -> None:
        file = self.worker.folder / f"{name}.txt"
        file.touch()
        config = {
            "connector.class": "FileStreamSource",
            "file": str(file),
            "topic": self.topic,
            "transforms": "where",
            "transforms.where.type": "where.TellsWhere",
        }
        with self.worker.client() as client:
            client.put_connector_config(name, config)

    def feed(self, lines: int = 200) -> None:
        for name in _NAMES:
            with (self.worker.folder / f"{name}.txt").open("a") as file:
                file.writelines(f"{name}-{self.fed[name] + number}\n" for number in range(lines))
            self.fed[name] += lines

    def await_all(self) -> list[str]:
        """Wait until each line fed was seen; gives all values."""
        wanted = {f"{name}-{number}" for name in _NAMES for number in range(self.fed[name])}

        def values() -> list[str]:
            count = end_offset(self.bootstrap, self.topic)
            found = [str(value, "utf-8") for value in consume_values(self.bootstrap, self.topic, count) if value]
            missing = wanted - {value.partition("|")[0] for value in found}
            assert not missing, f"{len(missing)} lines are missing, {sorted(missing)[:3]}"
            return found

        return eventually(values, _START_S, "every line in the topic", pause_s=0.2)

    def await_running(self) -> None:
        for name in _NAMES:
            self.worker.await_task(name, RunState.RUNNING, _START_S)

    def starts(self) -> int:
        """How many slots have come up so far."""
        return self.worker.log_text().count(" is up: process")


@pytest.fixture(scope="module")
def counted(
    cluster: SparkCluster, broker: DevBroker, tmp_path_factory: pytest.TempPathFactory, record_testsuite_property
) -> Iterator[Counted]:
    if len(cluster.workers) < 2:
        cluster.add_worker()
    folder = tmp_path_factory.mktemp("worker")
    topic = f"spark-cluster-{uuid.uuid4().hex[:6]}"
    create_topic(broker.bootstrap, topic)
    (folder / "plugins" / "mine").mkdir(parents=True)
    (folder / "plugins" / "mine" / "where.py").write_text(_WHERE)
    bare_interpreter(folder / "environment")
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as packed:
        packed.add(folder / "environment", ".")
    link_port = free_port()
    settings = {
        **cluster.settings(),
        "spark.archives": f"{folder / 'environment.tar.gz'}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executor.cores": "1",
        "spark.dynamicAllocation.enabled": "true",
        "spark.excludeOnFailure.enabled": "true",
        "kconnect.slots": "2",
        "kconnect.link.bind.host": _LINK_HOST,
        "kconnect.link.advertised.host": _LINK_HOST,
        "kconnect.link.port": str(link_port),
        "plugin.path": str(folder / "plugins"),
    }
    group = f"spark-cluster-{uuid.uuid4().hex[:6]}"
    with Distributed(folder / "worker", broker.bootstrap, group, settings) as worker:
        began_s = time.monotonic()
        worker.start(_START_S)
        running = Counted(worker, broker.bootstrap, topic, dict.fromkeys(_NAMES, 0), link_port)
        for name in _NAMES:
            running.create(name)
        running.await_running()
        record_testsuite_property("cluster_running_s", round(time.monotonic() - began_s, 2))
        yield running
        worker.stop()


def _slots(executor: psutil.Process) -> list[psutil.Process]:
    """The slots in an executor: Python children of its Python daemon."""
    return [slot for daemon in named(below(executor, deep=False), "python") for slot in below(daemon, deep=False)]


def _one_slot_each(cluster: SparkCluster, executors: int) -> list[psutil.Process]:
    """The slot of each executor, once each has one."""

    def found() -> list[psutil.Process]:
        slots = [_slots(executor) for executor in cluster.executors()]
        assert [len(each) for each in slots] == [1] * executors, slots
        return [slot for (slot,) in slots]

    return eventually(found, _START_S, f"a slot in each of {executors} executors")


def _feed_until(counted: Counted, *folders: str) -> None:
    """Feed until lines have come by way of each executor, reported by its folder. A restart takes its time."""

    def seen() -> bool:
        counted.feed(5)
        reported = counted.await_all()[-20:]
        missing = [folder for folder in folders if not any(folder in value for value in reported)]
        assert not missing, f"nothing came by way of {missing}"
        return True

    eventually(seen, _START_S, f"lines by way of {folders}")
    counted.await_running()


def test_a_host_that_lacks_a_package_is_named_and_slots_run_on_the_one_that_is_added(cluster, caplog):
    python = bare_interpreter(cluster.programs_of(0).parent, without=("orjson",))
    bare_interpreter(cluster.programs_of(1).parent)
    launcher = SparkLauncher(SparkSettings.parse(cluster.settings(spark_pyspark_python="python")))
    launcher.start(SeenEvents())
    try:
        with caplog.at_level(logging.WARNING):
            eventually(lambda: "its Python has no orjson" in caplog.text, _START_S, "the reason in the log")
        cluster.add_worker()
        (slot,) = eventually(lambda: [slot for slot in launcher.slots() if slot.attached], _START_S, "a slot is up")
        where = psutil.Process(slot.pid).cwd()
    finally:
        launcher.stop(10.0)

    reported = next(record.getMessage() for record in caplog.records if "no orjson" in record.getMessage())
    assert f"No slot can run in the executor on {socket.gethostname()} ({python}): its Python has no orjson" in reported
    assert "\n" not in reported
    assert "/worker-1/" in where


def test_slots_are_on_both_executors_and_run_what_was_shipped(cluster, counted):
    """The two executors were asked for by Spark's dynamic allocation: it begins with none."""
    slots = _one_slot_each(cluster, 2)
    for name in _NAMES:  # on a busy machine the second executor comes late, and running tasks do not move
        with counted.worker.client() as client:
            client.restart_connector(name, include_tasks=True)
    _feed_until(counted, "/worker-0/", "/worker-1/")

    reported = {value.partition("|")[2] for value in counted.await_all()}

    assert len(reported) == 2, reported  # two executors, two folders
    assert {line.partition("/worker-")[2][:1] for line in reported} == {"0", "1"}
    for line in reported:
        library, plugin = line.split("|")
        assert "/kconnect-lib/kconnect/" in library
        assert plugin.endswith("/kconnect-plugins-0/mine/where.py")
    for slot in slots:
        peers = {connection.raddr[:2] for connection in slot.net_connections("tcp") if connection.raddr}
        assert (_LINK_HOST, counted.link_port) in peers, peers


def test_a_slot_that_is_killed_more_often_than_spark_tries_a_task_is_back_each_time(cluster, counted, record_property):
    """Spark's exclusion is on: it must not hold the executor of a killed slot against it."""
    began_s = time.monotonic()
    for _ in range(5):
        victim, starts = _one_slot_each(cluster, 2)[0], counted.starts()
        counted.feed(20)
        victim.kill()
        eventually(lambda before=starts: counted.starts() > before, _START_S, "the slot is back")
    record_property("slot_back_s", round((time.monotonic() - began_s) / 5, 2))
    counted.await_running()
    counted.feed(20)

    counted.await_all()


def test_a_killed_executor_is_replaced_and_no_line_is_lost(cluster, counted, record_property):
    _one_slot_each(cluster, 2)
    victim, starts = cluster.executors()[0], counted.starts()
    counted.feed()

    began_s = time.monotonic()
    victim.kill()
    eventually(lambda: counted.starts() > starts, _START_S, "the slot is back")
    record_property("executor_back_s", round(time.monotonic() - began_s, 2))
    _one_slot_each(cluster, 2)
    counted.await_running()
    counted.feed()

    counted.await_all()


def test_tasks_of_a_lost_machine_go_to_the_others(cluster, counted):
    _one_slot_each(cluster, 2)
    counted.feed()
    cluster.kill_machine(0)
    counted.feed()

    reported = counted.await_all()[-20:]  # both sources run in the one slot that is left
    assert all("/worker-1/" in value for value in reported), reported


def test_without_a_free_core_it_is_said_and_a_new_machine_takes_what_waits(cluster, counted, broker, tmp_path):
    """A second worker, a `connect standalone`, comes while a slot of the first waits: each gets one of two cores."""
    topic = f"late-{uuid.uuid4().hex[:6]}"
    create_topic(broker.bootstrap, topic)
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic}
    settings = cluster.settings(spark_executor_cores="1", spark_scheduler_maxRegisteredResourcesWaitingTime="1s")
    with Standalone(tmp_path, broker.bootstrap, {"late": source}, settings) as late:
        late.launch()
        message = f"ERROR {cluster.url} has given this worker no executor in 1 s: it has no free core"
        late.await_log(message, _START_S)
        assert late.process is not None
        assert late.process.poll() is None  # cores are freed, and then it goes on

        cluster.add_worker(cores=2)
        late.await_task("late", RunState.RUNNING, _START_S)
        eventually(lambda: end_offset(broker.bootstrap, topic) == 2, _START_S, "both lines")
        assert late.stop() == 143
    with counted.worker.client() as client:
        eventually(
            lambda: [slot["attached"] for slot in client.slots()] == [True, True],
            _START_S,
            "the lost slot is back, on the new machine",
        )
        client.restart_connector("one", include_tasks=True)
    _feed_until(counted, "/worker-1/", "/worker-2/")
