"""What Spark's own plans say of queries over records, and what it takes for the name of a column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kconnect.spark.query.arrow_map import mapped
from kconnect.spark.query.batch_writer import newest_of_each
from kconnect.spark.query.row_source import CursorBatches
from kconnect.spark.query.source_positions import RowPosition
from kconnect.spark.query.source_settings import SourceQuerySettings
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
