"""What Spark says: its plans of queries over records, the names that it takes, the columns of what it has written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kconnect.builtin.types.contracts import Contracts
from kconnect.spark.query.arrow_map import mapped
from kconnect.spark.query.batch_writer import newest_of_each
from kconnect.spark.query.row_source import CursorBatches
from kconnect.spark.query.sink_settings import SinkQuerySettings
from kconnect.spark.query.source_positions import RowPosition
from kconnect.spark.query.source_settings import SourceQuerySettings
from kconnect.spark.query.table_columns import TableColumns, table_columns, with_exact_numbers
from kconnect.spark.query.topic_jobs import keeps_state, needs_all, records
from kconnect.spark.query.topic_order import TopicOrder
from kit.spark_session import local_session

_SCHEMA = StructType([StructField("id", LongType()), StructField("v", StringType())])


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    order = TopicOrder(
        key="k", spec={}, plugin_path=None, schema=_SCHEMA.jsonValue(), about=(),
        is_inferred=False, keeps_tombstones=False, max_records=5, begin={},
    )  # fmt: skip
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        records(session, order, ()).createOrReplaceTempView("records")
        session.range(3).createOrReplaceTempView("names")
        yield session


@pytest.mark.parametrize(
    ("query", "state", "whole"),
    [
        ("SELECT id + 1 AS x FROM records WHERE id > 1", False, None),
        ("SELECT id, explode(array(1, 2)) AS x FROM records", False, None),
        ("SELECT r.* FROM records r JOIN names USING (id)", False, None),
        ("SELECT * FROM records UNION ALL SELECT * FROM records", False, None),
        ("SELECT a.* FROM records a JOIN records b USING (id)", True, None),
        ("SELECT DISTINCT v FROM records", True, None),
        ("SELECT v, count(*) FROM records GROUP BY v", True, None),
        ("SELECT * FROM records LIMIT 3", True, None),
        ("SELECT * FROM records ORDER BY id", False, "ORDER BY"),
        ("SELECT *, row_number() OVER (PARTITION BY v ORDER BY id) AS n FROM records", False, "A window function"),
        ("SELECT * FROM records OFFSET 3", False, "OFFSET"),
    ],
)
def test_the_plan_of_a_query_tells_what_it_needs(spark: Any, query: str, state: bool, whole: str | None) -> None:
    plan = str(spark.sql(query)._jdf.queryExecution().analyzed().toString())
    assert (keeps_state(plan), needs_all(plan)) == (state, whole)


def test_a_column_is_found_whatever_signs_its_name_has(spark: Any, tmp_path: Path) -> None:
    named = spark.createDataFrame([(1, 2, 0), (1, 3, 1)], "`a.b` int, `c``d.` int, _offset int")
    assert mapped(named, lambda batches: batches, named.schema).collect() == named.collect()
    assert [row[1] for row in newest_of_each(named, ["a.b"]).collect()] == [3]

    named.write.parquet(str(tmp_path / "named"))
    source = {"connector.class": "SparkSource", "topic": "t", "spark.format": "parquet", "cursor.column": "c`d."}
    settings = SourceQuerySettings.parse({**source, "spark.options.path": str(tmp_path / "named")})
    sent: list[int] = []
    batches = CursorBatches(
        spark, settings, RowPosition("id", done={"cursor": "2"}), lambda rows, end: sent.extend(rows.collect()) or 1
    )
    assert batches.once(lambda: False) is not None
    assert [row[1] for row in sent] == [3]


_SEEN = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_sink_that_starts_again_knows_the_columns_that_it_wrote(spark: Any, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / kind
    settings = SinkQuerySettings.parse(
        {"spark.format": kind, "spark.options.path": str(folder), "spark.options.compression": "snappy"}
    )
    assert table_columns(spark, settings, _SEEN, Contracts()) == TableColumns(_SEEN)
    spark.createDataFrame([("a",)], "_old string").write.format(kind).save(str(folder))
    written = "id bigint, at timestamp, price decimal(12,2), parts array<struct<n:bigint>>, _offset bigint"
    spark.createDataFrame([], written).coalesce(1).write.format(kind).mode("append").save(str(folder))
    (folder / f"cut.{kind}").write_bytes(b"half of a f")

    found = table_columns(spark, settings, _SEEN, Contracts()).schema

    parts = pa.list_(pa.struct([("n", pa.int64())]))
    fields = {field.name: field.type for field in found}
    assert fields.pop("_old") == pa.string()
    assert fields == {
        "id": pa.int64(),
        "at": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(12, 2),
        "parts": parts,
    }


def test_columns_of_a_query_or_of_text_are_not_those_of_records(spark: Any, tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        spark.range(1).write.format(kind).save(str(tmp_path / kind))
    for more in ({"spark.format": "csv"}, {"spark.format": "parquet", "spark.query": "select 1 as id"}):
        settings = SinkQuerySettings.parse(more | {"spark.options.path": str(tmp_path / more["spark.format"])})
        assert table_columns(spark, settings, _SEEN, Contracts()) == TableColumns(_SEEN)


def test_a_table_of_a_catalog_has_its_types_for_the_columns_of_records(spark: Any) -> None:
    settings = SinkQuerySettings.parse({"spark.format": "parquet", "spark.table": "typed"})
    seen = pa.schema([("ID", pa.float64()), ("at", pa.string()), ("more", pa.bool_())])
    assert table_columns(spark, settings, seen, Contracts()) == TableColumns(seen), "there is none yet"
    spark.sql("create table typed (id bigint, at timestamp, beside string) using parquet")
    declared = pa.schema([("id", pa.decimal128(12, 2)), ("at", pa.string()), ("beside", pa.float64())])
    try:
        found = table_columns(spark, settings, seen, Contracts())
        exact = with_exact_numbers(spark, settings, declared)
    finally:
        spark.sql("drop table typed")
    assert found == TableColumns(
        pa.schema([("ID", pa.int64()), ("at", pa.timestamp("us", "UTC"))]), ("id", "at", "beside")
    )
    assert exact == declared.set(0, pa.field("id", pa.int64())), "a fraction is an error, not rounded"


def test_a_database_that_is_away_tells_no_columns(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings = SinkQuerySettings.parse(
        {"spark.format": "jdbc", "spark.options.url": "jdbc:nothing:1", "spark.options.dbtable": "t"}
    )
    with caplog.at_level("INFO", logger="kconnect.spark.query"):
        assert table_columns(spark, settings, _SEEN, Contracts()) == TableColumns(_SEEN)
    assert "jdbc does not tell its columns, and may not be there yet: " in caplog.text
