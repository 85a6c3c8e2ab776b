"""A REST catalog of Iceberg that is killed, or frozen, while a table is written: each row is there once."""

from __future__ import annotations

import random
import threading
import time

import pyarrow as pa
import pytest

from kconnect.api import ConnectError, RetriableError, TopicPartition
from kconnect.builtin.connectors.tables.open_table import open_table
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.builtin.connectors.tables.table_format import OffsetRange, TableWrite
from kit.iceberg_rest import IcebergRestCatalog
from kit.tables import read_table

AT = TopicPartition("orders", 0)
COMMITS = 21
ROWS = 5


@pytest.fixture
def catalog(tmp_path):
    made = IcebergRestCatalog(tmp_path).start()
    yield made
    made.kill()


def settings_of(catalog, **more):
    return {"name": "sink", "table.format": "iceberg", "table.name": "default.t", **catalog.settings, **more}


def write(table, base):
    first = base or 0
    rows = pa.table({"id": pa.array(range(first, first + ROWS), pa.int64())})
    table.write(TableWrite(rows, (OffsetRange(AT, base, first, first + ROWS),)))


def test_rows_are_there_once_through_kills_of_the_catalog(catalog):
    """Every third commit is killed at a moment of it that chance picks, early or late."""
    settings = settings_of(catalog)
    table = open_table(TableConfig.parse(settings), "orders")
    table.open([AT])
    chance = random.Random(7)
    took_s, base, refused = 0.1, None, 0
    for number in range(COMMITS):
        killer = threading.Timer(chance.uniform(0, 1.2 * took_s), catalog.kill) if number % 3 == 1 else None
        began = time.monotonic()
        if killer is not None:
            killer.start()
        try:
            write(table, base)
            base = (base or 0) + ROWS
            took_s = took_s if killer else time.monotonic() - began
        except RetriableError:
            refused += 1
        finally:
            if killer is not None:
                killer.join()
                catalog.start()
        # As the sink does when its task starts again: the table knows best
        base = table.open([AT]).get(AT, base)
    table.close()
    assert refused, "no kill met a commit"
    assert sorted(read_table(settings).column("id").to_pylist()) == list(range(base))
    assert base >= (COMMITS - refused) * ROWS


def test_a_frozen_catalog_is_an_error_in_time_that_names_the_setting(catalog):
    table = open_table(TableConfig.parse(settings_of(catalog, **{"table.catalog.timeout.ms": "5000"})), "orders")
    table.open([AT])
    write(table, None)
    catalog.freeze()
    try:
        with pytest.raises(RetriableError, match=r"did not answer within 5 s, .* table\.catalog\.timeout\.ms"):
            write(table, ROWS)
    finally:
        catalog.thaw()
    patient = open_table(TableConfig.parse(settings_of(catalog)), "orders")
    found = patient.open([AT])[AT]
    assert found in (ROWS, 2 * ROWS), "what was asked for before the answer was given up may have been done"
    write(patient, found)
    assert patient.open([AT]) == {AT: found + ROWS}
    for opened in (table, patient):
        opened.close()


def test_what_the_catalog_refuses_is_reported_without_the_secret(catalog):
    settings = settings_of(catalog, **{"table.catalog.token": "sesame"})
    settings["table.catalog.uri"] += "/nowhere"
    table = open_table(TableConfig.parse(settings), "orders")
    with pytest.raises(ConnectError, match=r"Cannot read table default\.t: .*nowhere") as refused:
        table.open([AT])
    assert not isinstance(refused.value, RetriableError)
    catalog.kill()
    settings["table.catalog.uri"] = catalog.url.replace("//", "//me:sesame@")
    table = open_table(TableConfig.parse(settings), "orders")
    with pytest.raises(RetriableError, match=r"Its catalog at 127\.0\.0\.1:\d+ cannot be reached") as away:
        table.open([AT])
    for error in (refused.value, away.value):
        assert "sesame" not in f"{error}"
    assert "sesame" not in repr(TableConfig.parse(settings))
