"""Debezium loses no change of a database and keeps their order, and a sink copies it, although each of them is killed.

`make debezium`: 100,000 changes, and the slot, its JVM, the worker and the database killed in turn.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator

import pytest

from kconnect.java.devbroker import DevBroker
from kit.changed_rows import ChangedRows, assert_in_order, planned_changes
from kit.debezium_run import DebeziumRun
from kit.postgres import logical_database
from kit.topics import consume
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark]

_KILLED = ("jvm", "database", "slot", "worker")


@pytest.mark.timeout(300)
def test_no_change_is_lost_when_jvm_database_and_worker_are_killed(
    broker: DevBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    reported = change_and_kill(broker, tmp_path_factory, 1_500, 1, ["jvm", "database", "worker"], rate=150)
    assert reported["records"] >= 1_500


def a_hundred_thousand_changes(
    own_broker: DevBroker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, seed: int
) -> None:
    count = int(os.environ.get("KCONNECT_DEBEZIUM_CHANGES", "100000"))
    reported = change_and_kill(own_broker, tmp_path_factory, count, seed, in_turn(seed), rate=1_500)
    request.config.get_terminal_writer().line(f"seed {seed}: {count} changes, none lost, in order by key: {reported}")


def in_turn(seed: int) -> Iterator[str]:
    """All of them, again and again, in an order that differs each time."""
    chance = random.Random(seed)
    while True:
        yield from chance.sample(_KILLED, len(_KILLED))


def change_and_kill(
    broker: DevBroker, folders: pytest.TempPathFactory, count: int, seed: int, kills: Iterable[str], *, rate: int
) -> dict[str, int]:
    """Make changes and kill what is named, one each time that records have flowed; gives how often what happened."""
    chance, changes = random.Random(seed), planned_changes(count, seed, ids=max(50, count // 200))
    with (
        logical_database() as (database, port),
        DebeziumRun(folders.mktemp("dbz"), broker, database, port, seed) as run,
    ):
        rows = ChangedRows(database.uri, changes, rate)
        run.start()
        with rows:
            for what in kills:
                run.await_flow(chance.randint(count // 20, count // 12))
                if run.written() > 0.9 * count:
                    break
                run.kill(what)
            rows.await_done(count, 900)
            eventually(run.is_monitored, 60, "Debezium's MBeans are in /metrics, of the JVM that runs now")

        def all_there() -> dict[str, int]:
            return assert_in_order(changes, consume(broker.bootstrap, run.topic, run.written(), 300))

        reported = eventually(all_there, 300, "all changes are in the topic", pause_s=1)
        run.await_equal(rows, 300)
        run.worker.stop()
    return reported | {f"{what} killed": times for what, times in sorted(run.kills.items())}


if os.environ.get("KCONNECT_DEBEZIUM") == "long":  # `make debezium`: minutes for each seed
    test_a_hundred_thousand_changes = pytest.mark.timeout(3_600)(
        pytest.mark.parametrize(
            "seed", [int(seed) for seed in os.environ.get("KCONNECT_DEBEZIUM_SEEDS", "1 2 3").split()]
        )(a_hundred_thousand_changes)
    )
