"""What is of a declared type comes back from Spark and PostgreSQL as it was, at random.

`make roundtrips` is the long form; rooms in this process: unit/builtin/types/test_round_trips.py.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from kconnect.api import RecordBatch, SinkRecord
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.types.foreign_schemas import schema_of_arrow
from kconnect.spark.arrow_types import arrow_schema, struct_type
from kconnect.spark.datasource.chain import Part, Rows
from kconnect.spark.datasource.columns import Columns
from kconnect.spark.query.row_sender import fitted
from kconnect.spark.query.topic_rows import RowsOfBatch
from kconnect.testing import SinkHarness
from kit.random_types import LEAVES, Drawn, drawings, try_all
from kit.spark_session import local_session
from kit.sql_tables import through_database
from kit.tables import table_settings

pytestmark = pytest.mark.timeout(7200)


def as_jsonb(text: str) -> str:
    """The JSON text that PostgreSQL makes of one: it keeps values, not spaces and the order of members."""

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            pairs = sorted(value.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
            return {key: ordered(member) for key, member in pairs}
        return [ordered(item) for item in value] if isinstance(value, list) else value

    return json.dumps(ordered(json.loads(text)), ensure_ascii=False)


# PostgreSQL has no NUL in texts: such a record is an error
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
OF_POSTGRESQL = {
    "string": TEXTS,
    "varchar(20)": TEXTS,
    "json": LEAVES["json"].filter(lambda text: "\\u0000" not in text).map(as_jsonb),
}


# Times of day as a query's session has them, and a zone that must not count
_SESSION = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.timeType.enabled": "true"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("spark"), _SESSION) as session:
        yield session


def test_values_come_back_from_postgresql(postgres_uri: str) -> None:
    numbers = itertools.count()

    def run(drawn: Drawn) -> None:
        table = f"round_trip_{next(numbers)}"
        assert through_database({"connection.url": postgres_uri}, table, drawn) == drawn.wanted

    try_all("PostgreSQL", drawings(others=OF_POSTGRESQL), run, small=10, share=0.01)


@pytest.mark.spark
def test_values_come_back_from_spark_as_a_sink_gave_them(spark: Any) -> None:
    """By SparkSink's rows of records and of columns, and as a frame that format("kconnect") makes."""

    def run(drawn: Drawn) -> None:
        kinds = struct_type(pa.schema(list(arrow_type(drawn.schema))))
        rows = RowsOfBatch(arrow_schema(kinds), (), is_inferred=False, keeps_tombstones=False)
        records = [SinkRecord("t", 0, None, None, drawn.schema, value, n) for n, value in enumerate(drawn.values)]
        batch = RecordBatch.from_records(records)
        assert batch is not None
        alone = rows.of(records, refuse)
        assert drawn.of_table(pa.Table.from_batches([rows.of(batch, refuse)])) == drawn.wanted
        part = Part(drawn.values, drawn.schema)
        framed = Columns(arrow_schema(kinds), is_record=False).batch(
            Rows(len(records), "t", 0, None, None, Part(None), part)
        )
        assert drawn.of_table(pa.Table.from_batches([framed])) == drawn.wanted
        assert drawn.of_table(spark.createDataFrame(pa.Table.from_batches([alone]), kinds).toArrow()) == drawn.wanted

    try_all("SparkSink", drawings(is_fine=True, has_nan=True), run, small=8, share=0.01)


@pytest.mark.spark
def test_rows_of_spark_are_records_of_the_same_values(spark: Any) -> None:
    def run(drawn: Drawn) -> None:
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(column_of(drawn.schema, drawn.values))])
        frame = spark.createDataFrame(table, struct_type(table.schema))
        rows = frame.toArrow().sort_by("n").to_struct_array().combine_chunks()
        schema = schema_of_arrow(rows.type, "value")
        assert drawn.of_values(values_of(schema, fitted(rows, schema), len(rows))) == drawn.wanted

    try_all("SparkSource", drawings(has_nan=True), run, small=8, share=0.01)


@pytest.mark.spark
def test_spark_and_duckdb_read_the_parquet_that_a_sink_wrote(spark: Any, tmp_path: Path) -> None:
    numbers = itertools.count()

    def run(drawn: Drawn) -> None:
        config = table_settings("parquet", tmp_path / str(next(numbers)))
        with SinkHarness("TableSink", {"topics": "t", **config}) as sink:
            sink.put(*drawn.values, schema=drawn.schema)
        assert drawn.of_table(spark.read.parquet(config["table.path"]).toArrow()) == drawn.wanted

    # Spark reads no TIME of milliseconds out of Parquet
    try_all("Parquet in Spark", drawings(["time(3)"], is_fine=True, has_nan=True), run, small=5, share=0.005)


def refuse(record: Any, error: Exception) -> None:
    raise error
