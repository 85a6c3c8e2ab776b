"""SqlTransform gives what PySpark gives for the same random records: fields of expressions, stars, JSON, time zones."""

from __future__ import annotations

import datetime
import decimal
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from kconnect.api import Date, Decimal, RecordBatch, Schema, SchemaBuilder, SourceRecord, Struct, Timestamp
from kconnect.builtin.sql.sql_transform import SqlTransform
from kit.spark_session import local_session
from kit.sql_rows import plain

UTC: Final = datetime.UTC
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=UTC)
INNER: Final = SchemaBuilder.struct().field("c", Schema.OPTIONAL_INT32_SCHEMA).field("D", Schema.OPTIONAL_STRING_SCHEMA)
ROW: Final = (
    SchemaBuilder.struct()
    .field("id", Schema.INT64_SCHEMA)
    .field("name", Schema.OPTIONAL_STRING_SCHEMA)
    .field("x", Schema.OPTIONAL_FLOAT64_SCHEMA)
    .field("f", Schema.OPTIONAL_FLOAT32_SCHEMA)
    .field("small", Decimal.builder(12).optional().build())
    .field("price", Decimal.builder(2).optional().build())
    .field("at", Timestamp.builder().optional().build())
    .field("day", Date.builder().optional().build())
    .field("raw", Schema.OPTIONAL_BYTES_SCHEMA)
    .field("ok", Schema.OPTIONAL_BOOLEAN_SCHEMA)
    .field("inner", INNER.optional().build())
    .optional()
    .build()
)
ITEM: Final = SchemaBuilder.struct().field("z", Schema.OPTIONAL_INT32_SCHEMA).field("w", Schema.OPTIONAL_STRING_SCHEMA)
CHANGE: Final = (
    SchemaBuilder.struct()
    .field("op", Schema.STRING_SCHEMA)
    .field("before", ROW)
    .field("after", ROW)
    .field("items", SchemaBuilder.array(ITEM.optional().build()).optional().build())
    .field("tags", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA).optional().build())
    .field("deep", SchemaBuilder.array(SchemaBuilder.array(Schema.OPTIONAL_FLOAT64_SCHEMA)).optional().build())
    .field("at", Timestamp.builder().optional().build())
    .field("local", Schema.STRING_SCHEMA)
    .build()
)
ZONES: Final = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC", "+05:30", "-03:00")
EXPRESSIONS: Final = (
    "coalesce(after, before).id",
    "coalesce(after, before).NAME",
    "coalesce(after, before).inner.d",
    "coalesce(before.inner, after.inner).c",
    "coalesce(after.inner, named_struct('c', 1, 'D', 'none')).D",
    "struct(op AS a, after.id AS b).b",
    "CASE WHEN op = 'd' THEN before ELSE after END.small",
    "get(items, 0).w",
    "element_at(tags, 'k')",
    "coalesce(items, array(named_struct('z', 1, 'w', 'q'))).z",
    "coalesce(tags, map('k', 'v')).k",
    "to_json(after)",
    "to_json(items)",
    "to_json(tags)",
    "to_json(deep)",
    "to_json(struct(op, before, tags, items, deep, at))",
    "to_json(array(after.inner, before.inner))",
    "to_json(map(op, after))",
    "to_json(named_struct('a\"b', after.x, 'é', coalesce(after, before).price))",
    *(f"from_utc_timestamp(at, '{zone}')" for zone in ZONES),
    *(f"to_utc_timestamp(local, '{zone}')" for zone in ZONES),
)
LETTERS: Final = 'aZ09 "\\/\b\f\n\r\t\x00\x01\x1f\x7f\x80\u2028éßИ中😀<>&'


class Values:
    """Random records. About a fifth of what can be null is null."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def change(self) -> Struct:
        return Struct.from_values(
            CHANGE,
            [
                self._random.choice("cud"),
                self._maybe(self._row),
                self._maybe(self._row),
                self._maybe(lambda: [self._maybe(self._item) for _ in range(self._random.randrange(4))]),
                self._maybe(lambda: {key: self._maybe(self._text) for key in self._some("k", "q", 'a"b', "é")}),
                self._maybe(lambda: [[self._maybe(self._double) for _ in range(2)] for _ in range(2)]),
                self._maybe(self._time),
                f"{self._time():%Y-%m-%d %H:%M:%S}",
            ],
        )

    def _row(self) -> Struct:
        makers = (
            self._text,
            self._double,
            lambda: pa.scalar(self._number(4, 6), pa.float32()).as_py(),
            lambda: decimal.Decimal(self._random.randrange(-(10 ** self._random.randrange(1, 20)), 10)).scaleb(-12),
            lambda: decimal.Decimal(self._random.randrange(-99_999, 99_999)).scaleb(-2),
            self._time,
            lambda: self._time().date(),
            lambda: self._random.randbytes(self._random.randrange(5)),
            lambda: self._random.random() < 0.5,
            lambda: Struct.from_values(INNER.optional().build(), [self._maybe(self._int), self._maybe(self._text)]),
        )
        return Struct.from_values(ROW, [self._random.randrange(-(1 << 62), 1 << 62), *map(self._maybe, makers)])

    def _item(self) -> Struct:
        return Struct.from_values(ITEM.optional().build(), [self._maybe(self._int), self._maybe(self._text)])

    def _maybe(self, make: Any) -> Any:
        return None if self._random.random() < 0.2 else make()

    def _some(self, *names: str) -> list[str]:
        return [name for name in names if self._random.random() < 0.5]

    def _int(self) -> int:
        return self._random.randrange(-(1 << 31), 1 << 31)

    def _double(self) -> float:
        special = self._random.choice([0.0, -0.0, 1e7, 9999999.0, 1e-3, 9.99e-4, float("inf"), float("-inf")])
        return special if self._random.random() < 0.2 else self._number(10, 15)

    def _number(self, digits: int, most: int) -> float:
        """Of so many digits: Java before 19 writes more of a longer one than tell it from its neighbours."""
        return float(f"{self._random.uniform(-9, 9) * 10 ** self._random.randrange(-most, most):.{digits}g}")

    def _text(self) -> str:
        return "".join(self._random.choice(LETTERS) for _ in range(self._random.randrange(8)))

    def _time(self) -> datetime.datetime:
        """Every third within the hours in which clocks are changed in spring or autumn."""
        if self._random.random() < 0.3:
            month, day = self._random.choice([(3, 31), (10, 27), (3, 10), (11, 3), (4, 7), (10, 6)])
            start = datetime.datetime(2024, month, day, tzinfo=UTC)
            return start + datetime.timedelta(minutes=self._random.randrange(6 * 60))
        return EPOCH + datetime.timedelta(milliseconds=self._random.randrange(-(1 << 40), 3 << 40))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = Path(tmp_path_factory.mktemp("spark"))
    with local_session(folder, {"spark.sql.session.timeZone": "UTC"}) as session:
        yield session


def records_of(seed: int, number: int) -> list[SourceRecord]:
    values = Values(seed)
    return [SourceRecord({"p": 1}, {"n": n}, "t", values.change(), value_schema=CHANGE) for n in range(number)]


def frame_of(spark: Any, batch: RecordBatch) -> Any:
    assert batch.value is not None
    return spark.createDataFrame(pa.Table.from_struct_array(batch.value))


def rows_of(table: pa.Table | pa.StructArray) -> list[Any]:
    """Each row as a list, in one spelling; times to the millisecond, as records have them."""
    made = table if isinstance(table, pa.Table) else pa.Table.from_struct_array(table)
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in made.columns]
    return [[plain(_millis(value)) for value in row] for row in zip(*columns, strict=True)]


def _millis(value: Any) -> Any:
    is_time = isinstance(value, datetime.datetime)
    return value.replace(microsecond=value.microsecond // 1000 * 1000) if is_time else value


def transform_of(query: str) -> SqlTransform:
    made = SqlTransform()
    made.configure({"query": query})
    return made


def test_random_records_give_what_spark_gives(spark: Any) -> None:
    seed = int(os.environ.get("KCONNECT_RANDOM_SEED", "1"))
    records = records_of(seed, 400)
    batch = RecordBatch.from_records(records)
    assert batch is not None
    named = [f"{expression} AS r{n}" for n, expression in enumerate(EXPRESSIONS)]
    wanted = rows_of(frame_of(spark, batch).selectExpr(*named).toArrow())
    transform = transform_of(f"SELECT {', '.join(named)} FROM records")
    made = transform.apply_batch(batch)
    assert isinstance(made, RecordBatch)
    for index, row in enumerate(rows_of(made.value)):
        for expression, given, right in zip(EXPRESSIONS, row, wanted[index], strict=True):
            assert given == right, (expression, index, seed, str(records[index].value))
    assert [transform.apply(record) for record in records[:2]] == made.slice(0, 2).to_records()
    transform.close()


def check_query(spark: Any, query: str, records: list[SourceRecord]) -> None:
    """The query gives Spark's columns and rows of these records, together and one by one."""
    batch = RecordBatch.from_records(records)
    assert batch is not None
    frame_of(spark, batch).createOrReplaceTempView("records")
    wanted = spark.sql(query).toArrow()
    transform = transform_of(query)
    made = transform.apply_batch(batch)
    assert isinstance(made, RecordBatch)
    assert made.value.type.names == wanted.column_names
    assert rows_of(made.value) == rows_of(wanted)
    assert [each for record in batch.to_records() for each in transform.expand(record)] == made.to_records()
    transform.close()


@pytest.mark.parametrize(
    "select",
    [
        "op, after.*",
        "op, coalesce(after, before).id AS id, after.inner.*",
        "r.before.* EXCEPT (raw, f, id), op",
        "after.* EXCEPT (`INNER`), to_json(after.inner) AS j",
    ],
)
def test_a_star_gives_the_columns_that_spark_gives(spark: Any, select: str) -> None:
    check_query(spark, f"SELECT {select} FROM records r", records_of(1, 100))


def test_a_star_alone_gives_what_spark_gives_but_for_structs_that_are_null(spark: Any) -> None:
    """Those are tombstones, where Spark gives rows of nulls."""
    check_query(spark, "SELECT after.* FROM records WHERE after IS NOT NULL", records_of(1, 100))


@pytest.mark.parametrize(
    "select",
    [
        "op, explode(items) AS item",
        "explode(deep), after.id AS id",
        "explode_outer(items) AS item, coalesce(after, before).id AS id",
        "op, posexplode(items) AS (n, item)",
        "op, posexplode_outer(deep)",
        "op, explode(tags)",
        "posexplode_outer(tags) AS (p, k, v), op",
        "op, inline(items)",
        "inline_outer(items) AS (a, b), op",
        "op, explode(array(after, before)) AS r",
    ],
)
def test_generators_give_the_rows_that_spark_gives(spark: Any, select: str) -> None:
    check_query(spark, f"SELECT {select} FROM records WHERE op <> 'c'", records_of(2, 60))
