"""A round of one table, as SqlSource's reader gives it from a thread of its own."""

from __future__ import annotations

import datetime
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kconnect.builtin.connectors.sql.sql_chunks import Chunk, Target
from kconnect.builtin.connectors.sql.sql_columns import TypeSettings
from kconnect.builtin.connectors.sql.sql_connection import engine_of
from kconnect.builtin.connectors.sql.sql_cursor import Place
from kconnect.builtin.connectors.sql.sql_reader import (
    ReadSettings,
    RoundBegin,
    RoundEnd,
    RoundLeftError,
    RoundReader,
)
from kconnect.builtin.connectors.sql.sql_tables import TableId
from kit.waiting import eventually


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "shop.db"
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO orders (name) VALUES (?)", [("a",), ("b",), ("c",)])
    return made


def test_a_round_that_nobody_takes_rows_of_is_ended_and_gone_on_with_later(file: Path) -> None:
    """A paused task would else keep a transaction open in the database."""
    settings = ReadSettings(
        types=TypeSettings("none", "connect_logical", "UTC"),
        zone=datetime.UTC,
        batch_rows=1,
        delay_ms=0,
        suffix="",
        quotes=True,
        idle_s=0.2,
    )
    table = TableId("", "", "orders")
    target = Target(table=table, query="", mode="incrementing", incrementing="", timestamps=(), requires_values=True)
    engine = engine_of({"connection.url": f"sqlite:///{file}", "connection.user": None, "connection.password": None})
    reader = RoundReader("test", engine, settings)
    reader.start()
    try:
        reader.begin(target, Place())
        assert isinstance(reader.take(5), RoundBegin)
        eventually(lambda: reader.has_let_go, 5, "the connection is closed")
        first, end = reader.take(5), reader.take(5)
        assert isinstance(first, Chunk)
        assert isinstance(end, RoundEnd)
        assert isinstance(end.error, RoundLeftError)
        reader.begin(target, Place(first.ids[-1].as_py()))
        rest = [reader.take(5), reader.take(5), reader.take(5)]
        assert [chunk.ids.to_pylist() for chunk in rest if isinstance(chunk, Chunk)] == [[2], [3]]
    finally:
        reader.stop(5)
