"""Slots of a connector's own on a real Spark standalone cluster: by a free core, and bounded by their heartbeats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kconnect.model import RunState
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.spark.application import SparkApplication
from kconnect.spark.jvm import FAST_FLAGS
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
    with SparkCluster(tmp_path_factory.mktemp("own-slots-cluster"), workers=2) as running:
        yield running


def test_an_own_slot_takes_a_free_core_fails_over_its_bound_and_says_when_there_is_no_core(cluster, tmp_path):
    settings = SparkSettings.parse(
        {
            "spark.master": cluster.url,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(FAST_FLAGS),
            "kconnect.slots": "1",
        }
    )
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
