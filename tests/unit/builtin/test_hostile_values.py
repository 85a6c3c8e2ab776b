"""Sinks with a page of hostile values: each good record is there, each bad one is an error of that record alone."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kconnect.api import TopicPartition
from kconnect.builtin.connectors.objects.object_sink import ObjectSinkConnector
from kconnect.builtin.connectors.sql.sql_sink import SqlSinkConnector
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.testing import SinkHarness
from kit.hostile import HOSTILE, page
from kit.tables import FORMATS, read_table, table_settings


def table_ids(settings: dict[str, str]) -> list[Any]:
    return [row["id"] if row["id"] is not None else row.get("id__v_text") for row in read_table(settings).to_pylist()]


def objects(kind: str, folder: Path) -> list[Any]:
    found: list[Any] = []
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        body = file.read_bytes()
        if kind == "jsonl":
            found += [json.loads(line)["id"] for line in body.splitlines()]
        elif kind == "json":
            found += [row["id"] for row in json.loads(body)]
        elif kind == "csv":
            csv.field_size_limit(10_000_000)
            found += [
                "three" if row["id"] == "three" else int(row["id"])
                for row in csv.DictReader(io.StringIO(body.decode()))
            ]
        elif kind == "parquet":
            found += pq.read_table(file)["id"].to_pylist()
        elif kind == "avro":
            import fastavro

            found += [row["id"] for row in fastavro.reader(io.BytesIO(body))]
    return found


def hold(connector: Any, settings: dict[str, str], read: Callable[[], list[Any]], batch: int) -> None:
    values = page()
    sink = SinkHarness(connector, {"topics": "t", "errors.tolerance": "all", **settings}).start()
    for first in range(0, len(values), batch):
        for value in values[first : first + batch]:
            sink._append(sink._record(value, None, None, None, None, 0))
        sink.deliver()
    sink.deliver()
    sink.commit()
    sink.stop()
    values = values[: sink.committed[TopicPartition("t", 0)]]  # the rest waits for more, to be put again
    assert len(values) > 60
    errors = {record.record.value["id"]: str(record.error) for record in sink.errant}
    there = Counter(int(one) if isinstance(one, str) and one.isdigit() else one for one in read())
    names = {value["id"]: what for value, what in zip(values[1::2], HOSTILE, strict=False)}
    good = [value["id"] for value in values[::2]]
    assert all(text.startswith("The record at t-0, offset ") for text in errors.values()), errors
    assert [number for number in good if there[number] != 1] == []
    for number, what in names.items():
        assert there[number] + (number in errors) == 1, (what, there[number], errors.get(number))


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_has_all_that_is_no_error(kind: str, batch: int, tmp_path: Path) -> None:
    settings = table_settings(kind, tmp_path)
    hold(TableSinkConnector, settings | {"flush.ms": "600000"}, lambda: table_ids(settings), batch)


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "avro"])
def test_objects_have_all_that_is_no_error(kind: str, batch: int, tmp_path: Path) -> None:
    settings = {"object.url": str(tmp_path), "object.format": kind, "flush.rows": "12"}
    hold(ObjectSinkConnector, settings, lambda: objects(kind, tmp_path), batch)


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_database_has_all_that_is_no_error(batch: int, tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    settings = {
        "connection.url": f"sqlite:///{file}",
        "auto.create": "true",
        "auto.evolve": "true",
        "insert.mode": "insert",
    }

    def read() -> list[Any]:
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            db.row_factory = sqlite3.Row
            rows = [dict(row) for row in db.execute("select * from t")]
            return [row["id"] if row["id"] is not None else row["id__v_text"] for row in rows]

    hold(SqlSinkConnector, settings, read, batch)


def table_of(kind: str, folder: Path) -> tuple[Any, dict[str, str], Callable[[], list[Any]]]:
    settings = table_settings(kind, folder)
    return TableSinkConnector, settings | {"flush.ms": "600000"}, lambda: table_ids(settings)


def objects_of(kind: str, folder: Path) -> tuple[Any, dict[str, str], Callable[[], list[Any]]]:
    settings = {"object.url": str(folder), "object.format": kind, "flush.rows": "2"}
    return ObjectSinkConnector, settings, lambda: objects(kind, folder)


def database_of(folder: Path) -> tuple[Any, dict[str, str], Callable[[], list[Any]]]:
    file = folder / "t.db"

    def read() -> list[Any]:
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            return [row[0] for row in db.execute("select id from t")]

    return SqlSinkConnector, {"connection.url": f"sqlite:///{file}", "auto.create": "true"}, read


SINKS_OF_COLUMNS: dict[str, Callable[[Path], tuple[Any, dict[str, str], Callable[[], list[Any]]]]] = {
    **{f"table of {kind}": partial(table_of, kind) for kind in FORMATS},
    **{f"objects of {kind}": partial(objects_of, kind) for kind in ("csv", "parquet", "avro")},
    "database": database_of,
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("sink", SINKS_OF_COLUMNS)
def test_a_value_without_fields_is_no_row_wherever_it_comes(sink: str, batch: int, tmp_path: Path) -> None:
    connector, settings, read = SINKS_OF_COLUMNS[sink](tmp_path)
    texts = [b"{}", b'{"id":1}', b"{}", b'{"id":2}', b"{}"]
    with SinkHarness(connector, {"topics": "t", "errors.tolerance": "all", **settings}) as harness:
        for first in range(0, len(texts), batch):
            for text in texts[first : first + batch]:
                harness.take_in(text)
            harness.deliver()
        harness.commit(is_last=True)
        assert [record.record.kafka_offset for record in harness.errant] == [0, 2, 4]
        assert all(
            f"{record.error}".endswith("its value has no field, so that it is no row") for record in harness.errant
        )
    assert sorted(read()) == [1, 2]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("sink", [name for name in SINKS_OF_COLUMNS if not name.startswith("objects")])
def test_a_value_of_nulls_alone_says_no_type_and_is_a_row_where_there_is_a_table(
    sink: str, batch: int, tmp_path: Path
) -> None:
    """Of a database it was a column of texts for ever, and numbers became texts."""
    connector, settings, read = SINKS_OF_COLUMNS[sink](tmp_path)
    settings |= {"topics": "t", "errors.tolerance": "all", "auto.evolve": "true"}
    texts = [b'{"id":null}', b'{"id":1}', b'{"id":null}', b'{"y":null}', b'{"id":2,"y":null}']
    with SinkHarness(connector, settings) as harness:
        for first in range(0, len(texts), batch):
            for text in texts[first : first + batch]:
                harness.take_in(text)
            harness.deliver()
            harness.commit()
        early = [record.record.kafka_offset for record in harness.errant]
        assert early == ([0] if batch == 1 else [])
        assert all(f"{record.error}".endswith("so that no table can be made of it") for record in harness.errant)
    rows = read()
    assert Counter(rows) == {1: 1, 2: 1, None: 5 - 2 - len(early)}
