"""A worker on a real Spark standalone cluster: what is shipped, where slots go, and what is lost when parts of it die.

The executors' Python has the packages that kconnect needs, and no kconnect.
"""

from __future__ import annotations

import tarfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kconnect.spark import SparkLauncher, SparkSettings
from kit.launchers import SeenEvents
from kit.spark_cluster import SparkCluster, bare_interpreter
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, end_offset
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(200)]

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


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The cluster outlives each test here; test_spark_application.py looks for leaks."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two executors of one core each."""
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Counted:
    """A worker with two file sources that number their lines."""

    worker: Standalone
    bootstrap: str
    topic: str
    fed: dict[str, int]

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

        return eventually(values, 40, "every line in the topic", pause_s=0.2)

    def await_running(self, within_s: float = 60.0) -> None:
        for name in _NAMES:
            self.worker.await_task(name, RunState.RUNNING, within_s)


@pytest.fixture(scope="module")
def counted(
    cluster: SparkCluster, broker: DevBroker, tmp_path_factory: pytest.TempPathFactory, record_testsuite_property
) -> Iterator[Counted]:
    folder = tmp_path_factory.mktemp("worker")
    topic = f"spark-cluster-{uuid.uuid4().hex[:6]}"
    create_topic(broker.bootstrap, topic)
    (folder / "plugins" / "mine").mkdir(parents=True)
    (folder / "plugins" / "mine" / "where.py").write_text(_WHERE)
    bare_interpreter(folder / "environment")
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as packed:
        packed.add(folder / "environment", ".")
    connectors = {}
    for name in _NAMES:
        (folder / f"{name}.txt").touch()
        connectors[name] = {
            "connector.class": "FileStreamSource",
            "file": str(folder / f"{name}.txt"),
            "topic": topic,
            "transforms": "where",
            "transforms.where.type": "where.TellsWhere",
        }
    settings = {
        "spark.master": cluster.url,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.archives": f"{folder / 'environment.tar.gz'}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "kconnect.link.bind.host": "127.0.0.1",
        "kconnect.link.advertised.host": "localhost",
        "plugin.path": str(folder / "plugins"),
    }
    with Standalone(folder, broker.bootstrap, connectors, settings) as worker:
        began_s = time.monotonic()
        worker.start(90)
        record_testsuite_property("cluster_running_s", round(time.monotonic() - began_s, 2))
        yield Counted(worker, broker.bootstrap, topic, dict.fromkeys(_NAMES, 0))
        worker.stop()


def _slots(executor: psutil.Process) -> list[psutil.Process]:
    """The slots in an executor: Python children of its Python daemon."""
    try:
        daemons = [child for child in executor.children() if "python" in child.name()]
        return [slot for daemon in daemons for slot in daemon.children()]
    except psutil.NoSuchProcess:
        return []


def _one_slot_each(cluster: SparkCluster, executors: int) -> bool:
    found = [len(_slots(executor)) for executor in cluster.executors()]
    assert found == [1] * executors, found
    return True


def _feed_until(counted: Counted, *folders: str) -> None:
    """Feed until lines have come by way of each executor, told by its folder. A restart takes its time."""

    def seen() -> bool:
        counted.feed(5)
        told = counted.await_all()[-20:]
        missing = [folder for folder in folders if not any(folder in value for value in told)]
        assert not missing, f"nothing came by way of {missing}"
        return True

    eventually(seen, 30, f"lines by way of {folders}")
    counted.await_running()


def test_an_executor_that_lacks_a_package_is_named_with_the_package(cluster, tmp_path):
    python = bare_interpreter(tmp_path / "bad", without=("orjson",))
    settings = {"spark.master": cluster.url, "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
    launcher = SparkLauncher(SparkSettings.parse({**settings, "spark.pyspark.python": str(python)}))
    launcher.start(SeenEvents())
    try:
        failure = eventually(launcher.failure, 90, "the reason why no slot starts")
    finally:
        launcher.stop(10.0)

    assert "its Python has no orjson" in failure
    assert str(python) in failure
    assert "\n" not in failure


def test_slots_are_on_both_executors_and_run_what_was_shipped(cluster, counted):
    eventually(lambda: _one_slot_each(cluster, 2), 30, "a slot in each executor")
    with counted.worker.client() as client:
        for name in _NAMES:  # on a busy machine the second executor comes late, and running tasks do not move
            client.restart_connector(name, include_tasks=True)
    _feed_until(counted, "/worker-0/", "/worker-1/")

    told = {value.partition("|")[2] for value in counted.await_all()}

    assert len(told) == 2, told  # two executors, two folders
    assert {line.partition("/worker-")[2][:1] for line in told} == {"0", "1"}
    for line in told:
        library, plugin = line.split("|")
        assert "/kconnect-lib/kconnect/" in library
        assert plugin.endswith("/kconnect-plugins-0/mine/where.py")


def test_a_killed_slot_is_back_and_no_line_is_lost(cluster, counted, record_property):
    eventually(lambda: _one_slot_each(cluster, 2), 30, "a slot in each executor")
    (victim,) = _slots(cluster.executors()[0])
    log_before = counted.worker.log_text().count(" is up: process")
    counted.feed()

    began_s = time.monotonic()
    victim.kill()
    eventually(lambda: counted.worker.log_text().count(" is up: process") > log_before, 40, "the slot is back")
    record_property("slot_back_s", round(time.monotonic() - began_s, 2))
    counted.await_running()
    counted.feed()

    counted.await_all()


def test_a_killed_executor_is_replaced_and_no_line_is_lost(cluster, counted, record_property):
    victim = cluster.executors()[0]
    ups = counted.worker.log_text().count(" is up: process")
    counted.feed()

    began_s = time.monotonic()
    victim.kill()
    eventually(lambda: not victim.is_running() and _one_slot_each(cluster, 2), 60, "a slot in each executor again")
    eventually(lambda: counted.worker.log_text().count(" is up: process") > ups, 40, "the slot is back")
    record_property("executor_back_s", round(time.monotonic() - began_s, 2))
    counted.await_running()
    counted.feed()

    counted.await_all()


def test_tasks_of_a_killed_spark_worker_go_to_the_others_and_its_slot_to_the_next_that_comes(cluster, counted):
    counted.feed()
    cluster.kill_worker(0)
    eventually(lambda: len(cluster.executors()) == 1, 20, "one executor is left")
    counted.feed()
    counted.await_all()  # both sources run in the one slot that is left

    cluster.add_worker(wait=False)
    eventually(lambda: _one_slot_each(cluster, 2), 60, "the lost slot is in the new executor")
    cluster.add_worker(wait=False)
    eventually(lambda: _one_slot_each(cluster, 3), 60, "a third executor has a slot too")
    with counted.worker.client() as client:
        client.restart_connector("one", include_tasks=True)
    _feed_until(counted, "/worker-2/")

    told = counted.await_all()
    assert "3 in all" in counted.worker.log_text()
    assert any("/worker-2/" in value for value in told), "a restarted task goes to the slot with the least"
