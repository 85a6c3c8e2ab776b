"""Slots between bounds on a real Spark standalone cluster: Spark's dynamic allocation brings and takes executors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kconnect.model import RunState
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.spark.jvm import FAST_FLAGS
from kit.launchers import SeenEvents, journal_spec
from kit.spark_cluster import SparkCluster
from kit.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

# Above what Spark and a slot take to come up on a machine that does much else
_START_S = 300


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two machines of one core each."""
    with SparkCluster(tmp_path_factory.mktemp("bounds-cluster"), workers=2) as running:
        yield running


def test_a_load_brings_an_executor_for_a_slot_and_both_leave_with_it(cluster, tmp_path):
    settings = SparkSettings.parse(
        {
            "spark.master": cluster.url,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": " ".join(FAST_FLAGS),
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": "1",
            "spark.dynamicAllocation.executorIdleTimeout": "2s",
            "kconnect.slots": "1..2",
        }
    )
    (tmp_path / "busy").touch()
    events = SeenEvents()
    launcher = SparkLauncher(settings)
    launcher.start(events)

    def executors() -> set[str | None]:
        return {slot.executor for slot in launcher.slots() if slot.attached}

    def held() -> int:
        runtime = launcher.runtime()
        return len(runtime.executors) if runtime is not None else 0

    try:
        tasks = [journal_spec(name, tmp_path / "journal", busy_while=str(tmp_path / "busy")) for name in ("one", "two")]
        launcher.start_tasks(tasks)
        events.await_state(RunState.RUNNING, *tasks, within_s=_START_S)

        eventually(lambda: len(executors()) == 2, _START_S, "a slot in an executor of its own comes with the load")
        eventually(lambda: all(slot.tasks for slot in launcher.slots()), _START_S, "each has a task")
        events.await_state(RunState.RUNNING, *tasks, within_s=_START_S)
        assert held() == 2

        (tmp_path / "busy").unlink()
        eventually(lambda: len(launcher.slots()) == 1, _START_S, "one ends with the load")
        eventually(lambda: held() == 1, _START_S, "Spark gives its executor back")
        eventually(
            lambda: {len(slot.tasks) for slot in launcher.slots()} == {2}, _START_S, "both tasks are in the other"
        )
        events.await_state(RunState.RUNNING, *tasks, within_s=_START_S)
    finally:
        launcher.stop(10.0)
