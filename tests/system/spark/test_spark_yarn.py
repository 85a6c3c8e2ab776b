"""A worker on a real YARN: it waits for room and says so, runs in its queue, loses an executor, and ends in order."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kconnect.spark.jvm import FAST_FLAGS, spark_home
from kit.pace import ample_s
from kit.spark_cluster import bare_interpreter
from kit.standalone import Standalone
from kit.topics import create_topic
from kit.waiting import eventually
from kit.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(600)]

# Above what YARN, Spark and a slot take to come up one after the other on a machine that does much else
_START_S = 240


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[YarnCluster]:
    (tmp_path / "yarn").mkdir()
    with YarnCluster(tmp_path / "yarn") as running:
        yield running


def test_a_worker_runs_on_yarn_by_its_settings_alone(yarn: YarnCluster, broker: DevBroker, tmp_path: Path) -> None:
    topic = f"yarn-{uuid.uuid4().hex[:6]}"
    create_topic(broker.bootstrap, topic)
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.touch()
    settings = {
        "spark.master": "yarn",
        "spark.yarn.queue": "connect",
        "spark.yarn.stagingDir": str(tmp_path / "staging"),
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.am.memory": "256m",
        "spark.yarn.am.extraJavaOptions": " ".join(FAST_FLAGS),
        "spark.driver.host": "127.0.0.1",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "512m",
        "spark.executor.extraJavaOptions": " ".join(FAST_FLAGS),
        "spark.pyspark.python": str(bare_interpreter(tmp_path / "environment")),
        "kconnect.slot.start.timeout.ms": str(int(ample_s(2.5) * 1000)),  # Spark's JVM has to answer in it, too
    }
    connectors = {
        f"{topic}-in": {"connector.class": "FileStreamSource", "file": str(source), "topic": topic},
        f"{topic}-out": {"connector.class": "FileStreamSink", "file": str(sink), "topics": topic},
    }
    written = 0

    def more_lines_arrive() -> None:
        nonlocal written
        with source.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(written, written + 100))
        written += 100
        wanted = {f"line {number}" for number in range(written)}
        eventually(
            lambda: sink.exists() and wanted <= set(sink.read_text().splitlines()),
            _START_S,
            f"{written} lines in the sink's file",
            pause_s=0.2,
        )

    where = {"HADOOP_CONF_DIR": str(yarn.configuration)}
    with Standalone(tmp_path, broker.bootstrap, connectors, settings, where) as worker:
        worker.launch()  # it is not healthy as long as its application waits
        worker.await_log("yarn has not started this worker's application", _START_S)
        worker.await_task(f"{topic}-in", RunState.UNASSIGNED)
        yarn.add_node()
        more_lines_arrive()
        (application,) = yarn.applications()
        assert (application["state"], application["queue"]) == ("RUNNING", "root.connect")
        executors = eventually(lambda: len(found := yarn.executors()) == 2 and found, _START_S, "two executors")
        executors[0].kill()
        more_lines_arrive()
        worker.stop()
        (application,) = eventually(
            lambda: [app for app in yarn.applications() if app["state"] == "FINISHED"], 30, "its end"
        )
        assert application["finalStatus"] == "SUCCEEDED"
        eventually(lambda: not yarn.executors(), 30, "no executor outlives its application")
