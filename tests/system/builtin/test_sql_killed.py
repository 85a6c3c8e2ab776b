"""Each record is in each database's table once, by plain inserts, although slots, worker and databases are killed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.sql_kills import sql_run
from kit.table_kills import Numbers
from kit.topics import create_topic, topic_for
from kit.waiting import stays

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_PARTS = ("slot", "postgresql", "slot", "mariadb", "worker")
_IS_LONG = os.environ.get("KCONNECT_DATABASES") == "long"  # `make databases`


@pytest.mark.timeout(1_800 if _IS_LONG else 400)
def test_records_are_there_once_after_kills_every_few_seconds(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count, rate, kills = (1_000_000, 5_000, 25) if _IS_LONG else (60_000, 3_000, 5)
    topic, seed = topic_for(request), int(os.environ.get("KCONNECT_DATABASES_SEED", "1"))
    chance, bootstrap = random.Random(seed), broker.bootstrap
    create_topic(bootstrap, topic, partitions=2)
    with sql_run(tmp_path, broker, topic, seed) as run, Numbers(bootstrap, topic, count, rate) as numbers:
        for turn in range(kills):
            # Each kill has its share of the records, so that none comes when all is done
            numbers.released = count * (turn + 1) // kills
            stays(lambda: True, chance.uniform(2, 5), "the worker is left alone")
            run.kill(_PARTS[turn % len(_PARTS)])
        numbers.await_end(300)
        run.await_rows(count, 600)
        run.worker.stop()
        run.assert_each_once(count)
    message = f"seed {seed}: {count} records once in each of three databases; killed: {run.kills}"
    request.config.get_terminal_writer().line(message)
