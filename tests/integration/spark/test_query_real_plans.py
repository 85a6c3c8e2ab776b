"""What Spark's own plans say of queries over records: which keep state, and which make sense for all records only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

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
