"""A data engineer's day: a table of PostgreSQL through four converters into six kinds of sinks, and its changes."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg.rows import dict_row

from kit.tables import FORMATS, read_table, table_settings

__all__ = ["FORMS", "Day"]

# Each kind of column that the formats on the way have in common with PostgreSQL; code is the last, as it is dropped
_TABLE: Final = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE day (id bigserial PRIMARY KEY, version int NOT NULL, at timestamptz(3) NOT NULL, flag boolean, s smallint,
    i int, big bigint, r real, d double precision, price numeric(12,2), wide numeric(38,10), free numeric, name text,
    raw bytea, born date, clock time(3), wall timestamp(3), u uuid, j jsonb, tags text[], counts int[], m mood,
    net inet, code varchar(20))
"""
_ROW: Final = """
INSERT INTO day (version, at, flag, s, i, big, r, d, price, wide, free, name, raw, born, clock, wall, u, j, tags,
    counts, m, net{more})
SELECT 0, clock_timestamp(), n % 2 = 0, {s}, {i}, (n * 4611686018427387.0 % 9223372036854775807)::bigint,
    n % 4096 / 4.0, n / 7.0::float8, n / 100.0, n * 1234567890123456789.0123456789 % 1e27, n / 8.0,
    'größe "' || n || '", n''1', decode(md5(n::text), 'hex'), date '1960-01-01' + n % 40000,
    time '00:00' + n % 86400000 * interval '1 ms', timestamp '1999-12-31 23:59:59.999' + n * interval '1 ms',
    md5(n::text)::uuid, jsonb_build_object('n', n, 'l', jsonb_build_array(n, null, 'x')), ARRAY['a' || n, ''],
    ARRAY[n, -n], (ARRAY['sad', 'glad'])[n % 2 + 1]::mood, ('10.0.0.' || n % 256)::inet{values}
FROM generate_series({first}, {last}) n
"""
# Of JSON without schema, whose columns do not become wider in a query: SparkSink is reported what they will be
_DECLARED: Final = (
    "id bigint, version int, at timestamp, flag boolean, s int, i bigint, big bigint, r float, d double, "
    "price decimal(12,2), wide decimal(38,10), free string, name string, raw binary, born date, clock time, "
    "wall timestamp, u string, j string, tags array<string>, counts array<int>, m string, net string, code string, "
    "added string, counted int"
)
_NULLS: Final = "INSERT INTO day (version, at) SELECT 0, clock_timestamp() FROM generate_series(1, 5)"
_TRANSACTION: Final = 500
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
FORMS: Final = ("json", "schema", "avro", "protobuf")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Day:
    """The table, its changes, its connectors, and what each sink has of it. `prefix`: of topics and names."""

    def __init__(self, folder: Path, uri: str, registry: str, prefix: str) -> None:
        self._folder, self.uri, self._registry, self._prefix = folder, uri, registry, prefix
        self._rows = 0
        self._changes = {"i": "n", "s": "n % 1000", "more": ", code", "values": ", 'code ' || n"}
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(_TABLE)
        self._tables: dict[str, dict[str, str]] = {}

    # --- what happens to the table ---

    def insert(self, count: int) -> None:
        """Rows of every kind of value, and five of nulls, in transactions shorter than the delay of the sources."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            for first in range(self._rows + 1, self._rows + count + 1, _TRANSACTION):
                last = min(first + _TRANSACTION - 1, self._rows + count)
                connection.execute(_ROW.format(first=first, last=last, **self._changes))
            connection.execute(_NULLS)
        self._rows += count

    def update(self) -> None:
        """Each seventh row has another name and a later time."""
        self._run("UPDATE day SET version = version + 1, at = clock_timestamp(), name = name || '!' WHERE id % 7 = 0")

    def add_columns(self) -> None:
        self._run("ALTER TABLE day ADD COLUMN added text, ADD COLUMN counted int")
        self._changes["more"] += ", added, counted"
        self._changes["values"] += ", 'new ' || n, n"

    def widen_columns(self) -> None:
        self._run("ALTER TABLE day ALTER COLUMN i TYPE bigint, ALTER COLUMN s TYPE int")
        self._changes |= {"i": "n::bigint * 10000000000", "s": "100000 + n"}

    def drop_a_column(self) -> None:
        self._run("ALTER TABLE day DROP COLUMN code")
        self._changes["more"] = self._changes["more"].replace(", code", "")
        self._changes["values"] = self._changes["values"].replace(", 'code ' || n", "")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(statement)

    # --- connectors ---

    def connectors(self) -> dict[str, dict[str, str]]:
        """A source for each form, and for each form a sink of each kind."""
        made: dict[str, dict[str, str]] = {}
        for form in FORMS:
            topic = self.topic(form)
            converter = self._converter(form)
            made[f"{self._prefix}-{form}"] = {
                "connector.class": "SqlSource", "connection.url": self.uri, "table.whitelist": "day",
                "mode": "timestamp+incrementing", "timestamp.column.name": "at", "incrementing.column.name": "id",
                "timestamp.delay.interval.ms": "4000", "poll.interval.ms": "300",
                "topic.prefix": topic.removesuffix("day"), **converter,
            }  # fmt: skip
            for kind, settings in self._sinks(form).items():
                made[f"{topic}-{kind}"] = {
                    "topics": topic, "consumer.override.isolation.level": "read_committed", **converter, **settings
                }  # fmt: skip
        return made

    def topic(self, form: str) -> str:
        return f"{self._prefix}.{form}.day"

    def _converter(self, form: str) -> dict[str, str]:
        if form in ("json", "schema"):
            more = {"value.converter.schemas.enable": "true" if form == "schema" else "false"}
            return {"value.converter": _JSON, "value.converter.decimal.format": "NUMERIC", **more}
        name = {"avro": "io.confluent.connect.avro.AvroConverter"}.get(
            form, "io.confluent.connect.protobuf.ProtobufConverter"
        )
        more = {"value.converter.optional.for.nullables": "true"} if form == "protobuf" else {}
        return {"value.converter": name, "value.converter.schema.registry.url": self._registry, **more}

    def _sinks(self, form: str) -> dict[str, dict[str, str]]:
        made = {}
        for kind in FORMATS:
            place = self._folder / f"{form}-{kind}"
            place.mkdir()
            settings = self._tables[f"{form}-{kind}"] = table_settings(kind, place)
            made[kind] = {"connector.class": "TableSink", "flush.ms": "500", **settings}
            made[kind].pop("name")
        made["sql"] = {
            "connector.class": "SqlSink", "connection.url": self.uri, "table.name.format": f"copy_{form}",
            "auto.create": "true", "auto.evolve": "true", "insert.mode": "upsert", "pk.mode": "record_value",
            "pk.fields": "id", "retry.backoff.ms": "200", "max.retries": "500",
        }  # fmt: skip
        objects = str(self._folder / f"{form}-objects")
        made["objects"] = {"connector.class": "ObjectSink", "object.url": objects, "object.format": "parquet",
                           "flush.rows": "700", "flush.ms": "500"}  # fmt: skip
        made["spark"] = {"connector.class": "SparkSink", "spark.format": "parquet", "spark.trigger.ms": "500",
                         "spark.options.path": str(self._folder / f"{form}-spark")}  # fmt: skip
        if form == "json":
            made["spark"]["value.schema"] = _DECLARED
        return made

    # --- what is there ---

    def wanted(self) -> dict[int, dict[str, Any]]:
        """The table as it is, by id, each value in the one spelling that values of all readers are brought to."""
        with psycopg.connect(self.uri, row_factory=dict_row) as connection:
            rows = connection.execute("SELECT * FROM day").fetchall()
        return _last(rows)

    def found(self, form: str, kind: str) -> dict[int, dict[str, Any]]:
        """The last version of each row that a sink has."""
        return _last(READERS[kind](self, form))

    def rows_of_table(self, form: str, kind: str) -> list[dict[str, Any]]:
        return read_table(self._tables[f"{form}-{kind}"]).to_pylist()

    def rows_of_files(self, form: str, kind: str) -> list[dict[str, Any]]:
        found = (self._folder / f"{form}-{kind}").rglob("*.parquet")
        files = [file for file in found if "_temporary" not in file.parts]  # what Spark is writing
        if not files:
            return []
        tables = [pq.ParquetFile(file).read() for file in files]
        return pa.concat_tables(tables, promote_options="permissive").to_pylist()

    def rows_of_database(self, form: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.uri, row_factory=dict_row) as connection:
            if connection.execute(f"SELECT to_regclass('copy_{form}') AS t").fetchone() == {"t": None}:
                return []
            return connection.execute(f"SELECT * FROM copy_{form}").fetchall()

    def differences(self, form: str, kind: str) -> list[str]:
        """Column by column, the first few."""
        wanted, found = self.wanted(), self.found(form, kind)
        reported = (
            [f"{len(wanted.keys() - found.keys())} rows of {len(wanted)} are missing"] if wanted.keys() - found else []
        )
        for number, row in wanted.items():
            other = found.get(number, row)
            for column, value in row.items():
                kept = LEFT.get((form, kind, column), lambda one: one)(value)
                if other.get(column) == kept:
                    continue
                reported.append(f"id {number}, {column}: {other.get(column)!r} is not {kept!r}")
                if len(reported) > 12:
                    return reported
        return reported


READERS: Final[Mapping[str, Callable[[Day, str], list[dict[str, Any]]]]] = {
    **{kind: lambda day, form, kind=kind: day.rows_of_table(form, kind) for kind in FORMATS},
    **{kind: lambda day, form, kind=kind: day.rows_of_files(form, kind) for kind in ("objects", "spark")},
    "sql": lambda day, form: day.rows_of_database(form),
}


def _as_double(value: Decimal | None) -> Decimal | None:
    return None if value is None else Decimal(repr(float(value))).normalize()


def _never_null(value: list[Any] | None) -> list[Any]:
    return [] if value is None else value


LEFT: Final[Mapping[tuple[str, str, str], Callable[[Any], Any]]] = {
    # JsonConverter reads fractions as doubles, as Java's does; the schema that is declared for SparkSink reads digits
    **{("json", kind, "wide"): _as_double for kind in READERS if kind != "spark"},
    # Protobuf has no list that is null
    **{("protobuf", kind, column): _never_null for kind in READERS for column in ("tags", "counts")},
}
"""What a form leaves of the values of a column in a kind of sink; all others are equal to the last digit."""


def _last(rows: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    made: dict[int, dict[str, Any]] = {}
    for row in rows:
        known = made.get(row["id"])
        if known is None or known["version"] <= row["version"]:
            made[row["id"]] = {"id": row["id"], "version": row["version"], **row}
    return {
        number: _joined({name: _spelled(name, value) for name, value in row.items()}) for number, row in made.items()
    }


def _joined(row: dict[str, Any]) -> dict[str, Any]:
    """Without second columns: what did not fit a column stands beside it."""
    for name in [name for name in row if "__v_" in name]:
        value = row.pop(name)
        if value is not None:
            row[name.partition("__v_")[0]] = value
    return row


def _spelled(name: str, value: Any) -> Any:
    """Numbers by their digits, times in ms, bytes in base64, JSON and lists as data."""
    name = name.partition("__v_")[0]
    if value is None or isinstance(value, bool):
        return value
    if name in ("j", "tags", "counts"):
        return json.loads(value) if isinstance(value, str) else value
    if isinstance(value, datetime.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return Decimal((value - _EPOCH) // datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.date):
        return Decimal((value - _EPOCH.date()).days)
    if isinstance(value, datetime.time):
        return Decimal(((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000)
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    if name == "free" or isinstance(value, int | float | Decimal):
        return Decimal(str(value)).normalize()
    return str(value)
