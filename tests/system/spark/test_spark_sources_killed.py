"""Each row is in its topic once, although Python processes, the worker and the broker are killed meanwhile."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.postgres import postgres
from kit.source_kills import Feed, SourceRun, assert_each_once
from kit.topics import topic_for
from kit.waiting import eventually, stays

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def a_million_rows_are_there_once_after_kills_every_few_seconds(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    count, chance = int(os.environ.get("KCONNECT_QUERIES_RECORDS", "1000000")), random.Random(seed)
    with postgres() as uri, SourceRun(tmp_path, own_broker, topic_for(request), uri, seed) as run:
        run.await_count("files", 0, 60)
        with Feed(run.folder, uri, count, 6_000) as feed:
            while feed.written < count:
                stays(lambda: True, chance.uniform(3, 8), "the worker is left alone")
                run.kill(chance.choice(["process", "process", "process", "worker", "broker"]))
            eventually(lambda: feed.written >= count, 600, "all is written")
        for kind, wanted in (("files", count), ("rows", feed.in_database)):
            run.await_count(kind, wanted, 600)
            assert_each_once(own_broker, run.topics[kind], wanted)
        run.worker.stop()
    message = f"seed {seed}: {count} rows of files and {count // 10} of a table once each; killed: {run.kills}"
    request.config.get_terminal_writer().line(message)


if os.environ.get("KCONNECT_QUERIES") == "long":  # `make queries`: minutes for each seed
    test_a_million = pytest.mark.timeout(3_600)(
        pytest.mark.parametrize(
            "seed", [int(seed) for seed in os.environ.get("KCONNECT_QUERIES_SEEDS", "1 2 3").split()]
        )(a_million_rows_are_there_once_after_kills_every_few_seconds)
    )
