"""One record at a time: a statement whose parameters are the record's fields, in place of an Arrow table of one row.

Measured, CPU time a record on a busy machine: a predicate of two conditions 1.8 ms as a table of one row (to register,
bind and fetch it), 0.5 ms so; a query with upper() and a condition 3.9 and 1.2 ms, most of it for planning what upper()
is in Spark. It is used where every field is of a plain type, so that its values mean the same to DuckDB as those of a
column do; whatever it refuses is evaluated as a table of one row, which gives the error.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kconnect.api import DataError, Schema, Timestamp, Type
from kconnect.builtin.sql.engine import TABLE, Engine
from kconnect.builtin.sql.rows import RecordRows
from kconnect.builtin.sql.spark_expressions import Path

_TYPES: Final[Mapping[Type, tuple[str, type]]] = {
    Type.INT8: ("TINYINT", int),
    Type.INT16: ("SMALLINT", int),
    Type.INT32: ("INTEGER", int),
    Type.INT64: ("BIGINT", int),
    Type.FLOAT32: ("FLOAT", float),
    Type.FLOAT64: ("DOUBLE", float),
    Type.BOOLEAN: ("BOOLEAN", bool),
    Type.STRING: ("VARCHAR", str),
    Type.BYTES: ("BLOB", bytes),
}


class UnfitError(Exception):
    """A record cannot be evaluated so: evaluate it as a table of one row."""


class SingleRow:
    """What a query makes of one record: `SELECT selected FROM (its fields) WHERE condition`."""

    def __init__(self, engine: Engine, fields: Mapping[Path, tuple[str, Schema]], select: str, where: str) -> None:
        """`fields`: the columns' names and schemas, by path. `where` is empty or begins with WHERE."""
        self._engine = engine
        self._readers = [(path, _reader_of(schema)) for path, (_, schema) in fields.items()]
        # As a list of values, into which the optimizer does not look: what it knows to be null it would not evaluate,
        # and so not fail either
        names = ", ".join(name for name, _ in fields.values()) or "none_"
        values = ", ".join(f"CAST(? AS {_kind_of(schema)})" for _, schema in fields.values()) or "1"
        self._query = f"SELECT {select} FROM (VALUES ({values})) AS {TABLE}({names}){where}"

    def of(self, rows: RecordRows) -> tuple[Any, ...] | None:
        """The selected values; None when the condition does not hold. Errors: UnfitError."""
        try:
            values = [read(rows.value(path)) for path, read in self._readers]
            return self._engine.row(self._query, values)
        except (DataError, UnicodeError, OverflowError) as err:
            raise UnfitError from err


def can_be_given(schema: Schema) -> bool:
    """Whether values of this schema can be parameters."""
    return schema.name == Timestamp.LOGICAL_NAME or is_plain(schema)


def is_plain(schema: Schema) -> bool:
    """Whether DuckDB's Python values are Connect's."""
    return schema.name is None and schema.type in _TYPES


def _kind_of(schema: Schema) -> str:
    return "TIMESTAMP" if schema.name == Timestamp.LOGICAL_NAME else _TYPES[schema.type][0]


def _reader_of(schema: Schema) -> Callable[[Any], Any]:
    """Checks a value as a column of it would be checked."""
    if schema.name == Timestamp.LOGICAL_NAME:
        return _instant
    wanted = _TYPES[schema.type][1]

    def read(value: Any) -> Any:
        if value is not None and type(value) is not wanted:
            raise UnfitError
        return value

    return read


def _instant(value: Any) -> Any:
    """Without a zone, which is UTC, and to the millisecond, as a column has it."""
    if value is None:
        return None
    if type(value) is not datetime.datetime or value.tzinfo is not datetime.UTC:
        raise UnfitError
    return value.replace(tzinfo=None, microsecond=value.microsecond // 1000 * 1000)


def single_row(
    engine: Engine,
    fields: Mapping[Path, tuple[str, Schema | None]],
    select: str,
    where: str,
    results: Sequence[Schema],
) -> SingleRow | None:
    """Returns None where a field or a result is of a type that parameters or rows do not have."""
    given = {path: (name, schema) for path, (name, schema) in fields.items() if schema is not None}
    if not all(can_be_given(schema) for _, schema in given.values()) or not all(map(is_plain, results)):
        return None
    return SingleRow(engine, given, select, where)
