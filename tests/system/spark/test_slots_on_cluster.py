"""Slots of a connector's own, and slots between bounds, on a real Spark standalone cluster.

Own ones take a free core and are bounded by their heartbeats; dynamic allocation brings executors with a load,
and takes them back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kconnect.model import RunState
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.spark.application import SparkApplication
from kconnect.spark.ports import PoolPorts
from kit.launchers import SeenEvents, journal_spec
from kit.spark_cluster import SparkCluster
from kit.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

# Above what Spark and a slot take to come up on a machine that does much else
_START_S = 300


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two machines of one core each."""
    with SparkCluster(tmp_path_factory.mktemp("slots-cluster"), workers=2) as running:
        yield running


def test_an_own_slot_takes_a_free_core_fails_over_its_bound_and_says_when_there_is_no_core(cluster, tmp_path):
    settings = SparkSettings.parse(cluster.settings(kconnect_slots="1"))
    app, events = SparkApplication(settings), SeenEvents()
    # As if the executors' machines were others: nothing is known of their processes but what they say
    launcher = SparkLauncher(settings, app, PoolPorts(jobs=app, memory=lambda _: None, kill=lambda _: False))
    launcher.start(events)
    try:
        calm = journal_spec("calm", tmp_path / "journal")
        hog = journal_spec(
            "hog", tmp_path / "journal", eats="400000000", kconnect_slot="own", kconnect_slot_memory="300m"
        )
        launcher.start_tasks([calm, hog])
        events.await_state(RunState.FAILED, hog, within_s=_START_S)
        events.await_state(RunState.RUNNING, calm, within_s=_START_S)

        assert " of connector hog took " in events.trace(hog)
        assert "kconnect.slot.memory allows 300 MB: its process was killed" in events.trace(hog)
        assert {slot.connector for slot in launcher.slots()} == {None, "hog"}
        eventually(lambda: all(slot.attached for slot in launcher.slots()), _START_S, "both are up again")

        other = journal_spec("other", tmp_path / "journal", kconnect_slot="own")
        launcher.start_tasks([other])
        events.await_state(RunState.FAILED, other, within_s=_START_S)
        assert events.trace(other) == (
            "No slot of its own has started for connector other in 60 s (kconnect.slot.start.timeout.ms): "
            f"no core of {cluster.url} is free. "
            "Lower kconnect.slots, give Spark more cores, or set kconnect.slot=shared."
        )
        assert events.states(calm).count(RunState.RUNNING) == 1
    finally:
        launcher.stop(10.0)


def test_a_load_brings_an_executor_for_a_slot_and_both_leave_with_it(cluster, tmp_path):
    settings = SparkSettings.parse(
        cluster.settings(
            spark_executor_cores="1",
            spark_dynamicAllocation_enabled="true",
            spark_dynamicAllocation_initialExecutors="1",
            spark_dynamicAllocation_executorIdleTimeout="2s",
            kconnect_slots="1..2",
        )
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
