"""Two tasks that both believe to own a partition, in any order of reads, writes, crashes, starts: each record once.

And tables that several write to with good reason: two connectors, and somebody who knows nothing of us.
"""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from deltalake.table import TableMerger
from pyiceberg.catalog import load_catalog

from kconnect.api import TopicPartition
from kconnect.builtin.connectors.tables.open_table import open_table
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.testing import MemoryLog, SinkHarness
from kit.tables import FORMATS, read_table, table_settings

PLACE = TopicPartition("t", 0)


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
    _drain(owners, settings, log)
    assert sorted(read_table(settings).column("id").to_pylist()) == list(range(next(number)))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_last_change_of_each_key_is_there_whoever_writes_it(kind, tmp_path):
    chance, log, number = random.Random(kind), MemoryLog(), itertools.count()
    changes = {"write.mode": "upsert", "merge.keys": "key", "flush.ms": "600000", "flush.rows": "5"}
    settings = {**table_settings(kind, tmp_path), "topics": "t", **changes}
    owners = [SinkHarness(TableSinkConnector, settings, log=log).start() for _ in range(2)]
    wanted: dict[int, int] = {}
    for _ in range(16):
        owner = chance.choice(owners)
        if chance.random() < 0.65:
            for _ in range(chance.randrange(1, 4)):
                key, at = chance.randrange(5), next(number)
                is_gone = chance.random() < 0.3
                wanted.pop(key, None)
                if not is_gone:
                    wanted[key] = at
                owner.put(None if is_gone else {"key": key, "at": at}, key=key)
        elif chance.random() < 0.5:
            owner.deliver()
            owner.commit(is_last=True)
        else:
            owner.crash()
            owner.start()
    _drain(owners, settings, log)
    found = {row["key"]: row["at"] for row in read_table(settings).to_pylist()}
    assert found == wanted


def test_a_writer_asleep_behind_a_merge_that_changed_nothing_takes_no_offset_back(tmp_path, monkeypatch):
    """Delta commits nothing then, so that the offset has a commit of its own."""
    changes = {"write.mode": "upsert", "merge.keys": "key", "topics": "t", "flush.ms": "0"}
    settings, log = {**table_settings("delta", tmp_path), **changes}, MemoryLog()
    asleep, merged = SinkHarness(TableSinkConnector, settings, log=log).start(), TableMerger.execute
    asleep.put({"key": 1})
    owner = SinkHarness(TableSinkConnector, settings, log=log)

    def take_over(merger):
        done = merged(merger)
        monkeypatch.setattr(TableMerger, "execute", merged)
        owner.start()
        owner.deliver()
        owner.put({"key": 2})
        return done

    monkeypatch.setattr(TableMerger, "execute", take_over)
    asleep.put(None, key=9)
    assert open_table(TableConfig.parse(settings), "t").offsets([PLACE]) == {PLACE: 3}
    _drain([asleep, owner], settings, log)
    assert sorted(read_table(settings).column("key").to_pylist()) == [1, 2]


def _drain(owners, settings, log):
    for owner in owners:
        owner.crash()
    last = SinkHarness(TableSinkConnector, settings, log=log).start()
    last.deliver()
    last.stop()


@pytest.mark.parametrize(
    ("kind", "mode"), [*((kind, "append") for kind in FORMATS), ("delta", "upsert"), ("iceberg", "upsert")]
)
def test_two_connectors_and_a_stranger_write_one_table(kind, mode, tmp_path):
    more = {"write.mode": mode, **({"merge.keys": "id"} if mode == "upsert" else {})}
    sinks = []
    for name in ("one", "two"):
        settings = {**table_settings(kind, tmp_path, name), **more, "topics": "t", "flush.ms": "0"}
        sinks.append(SinkHarness(TableSinkConnector, settings).start())
    for turn in range(2):
        for place, sink in enumerate(sinks):
            sink.put({"id": 10 * turn + place}, {"id": 10 * turn + place + 5})
            _append(kind, settings, 1000 + 2 * turn + place)
        sinks[turn % 2].crash()
        sinks[turn % 2].start()
        sinks[turn % 2].deliver()
    for sink in sinks:
        sink.stop()
    own = [10 * turn + place + more for turn in range(2) for place in (0, 1) for more in (0, 5)]
    assert sorted(read_table(settings).column("id").to_pylist()) == sorted([*own, *range(1000, 1004)])


def _append(kind, settings, number):
    """A row by somebody who knows nothing of our offsets."""
    row = pa.table({"id": pa.array([number], pa.int64())})
    if kind == "parquet":
        pq.write_table(row, f"{settings['table.path']}/stranger-{number}.parquet")
    elif kind == "delta":
        write_deltalake(settings["table.path"], row, mode="append")
    else:
        prefix = "table.catalog."
        catalog = load_catalog("default", **{k[len(prefix) :]: v for k, v in settings.items() if k.startswith(prefix)})
        catalog.load_table(settings["table.name"]).append(row)
        catalog.close()
