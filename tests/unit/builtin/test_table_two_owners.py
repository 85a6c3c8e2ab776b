"""Two tasks that both believe to own a partition, in any order of reads, writes, crashes, starts: each record once."""

from __future__ import annotations

import itertools
import random

import pytest

from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.testing import MemoryLog, SinkHarness
from kit.tables import FORMATS, read_table, table_settings


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FORMATS)
def test_each_record_is_there_once_whoever_writes_it(kind, seed, tmp_path):
    chance, log, number = random.Random(f"{kind} {seed}"), MemoryLog(), itertools.count()
    settings = {**table_settings(kind, tmp_path), "topics": "t", "flush.ms": "600000", "flush.rows": "4"}
    owners = [SinkHarness(TableSinkConnector, settings, log=log).start() for _ in range(2)]
    for _ in range(14):
        owner = chance.choice(owners)
        match chance.choice(["read", "read", "read", "write", "crash", "stop", "commit"]):
            case "read":
                owner.put(*[{"id": next(number)} for _ in range(chance.randrange(1, 4))])
            case "write":
                owner.deliver()
                owner.commit(is_last=True)  # writes all that waits, and goes on
                owner.crash()
                owner.start()
            case "crash":
                owner.crash()
                owner.start()
            case "stop":
                owner.stop()
                owner.start()
            case "commit":
                owner.commit()
    for owner in owners:
        owner.crash()
    last = SinkHarness(TableSinkConnector, settings, log=log).start()
    last.deliver()
    last.stop()
    assert sorted(read_table(settings).column("id").to_pylist()) == list(range(next(number)))
