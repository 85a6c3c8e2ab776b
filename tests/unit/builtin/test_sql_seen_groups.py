"""Queries over many values without schema: in columns and in lists they give what they give of each value alone."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError, RecordBatch, SinkRecord
from kconnect.builtin.converters.columns_from_plain_json import PlainJsonColumns
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.sql.sql_transform import SqlTransform
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kit.examples import examples

QUERIES = (
    "SELECT a, b FROM records",
    "SELECT * FROM records WHERE n > 1",
    "SELECT *, n * 2 AS twice FROM records",
    "SELECT * EXCEPT (a), upper(s) AS s2, _topic AS t, _offset AS o FROM records",
    "SELECT n + 1 AS n, coalesce(a, b) AS first, s FROM records WHERE s IS NOT NULL",
    "SELECT CASE WHEN n IS NULL THEN 1 ELSE n END AS n, in.x AS x, in.x IS NULL AS is_null FROM records",
    "SELECT concat(s, '!') AS s, size(list) AS size, list FROM records",
    "SELECT coalesce(in, other).x AS x, N AS capital FROM records",
    "SELECT id, CAST(n AS DECIMAL(12,2)) AS price, a FROM records",
    "SELECT *, to_date(timestamp_millis(id)) AS day FROM records",
    "SELECT id, explode(list) AS item FROM records",
    "SELECT 1 AS one FROM records WHERE id % 2 = 0",
    "SELECT n / n AS one, s FROM records",
)
COUNTED: collections.Counter[str] = collections.Counter()
_numbers = st.one_of(
    st.integers(-3, 3), st.integers(-7, 7).map(lambda number: number / 4), st.sampled_from([2**53 + 1, 2**63])
)
_texts = st.sampled_from(["", "x", "ß", "12"])
_leaves = st.one_of(st.none(), st.booleans(), _numbers, _texts)


def _of_one_kind(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(kind, kind, kind, st.none())


_members = {
    "n": st.one_of(_of_one_kind(_numbers), _of_one_kind(st.integers(-3, 3)), _leaves),
    "a": _of_one_kind(_texts),
    "b": st.one_of(_of_one_kind(_texts), _leaves),
    "s": _of_one_kind(_texts),
    "in": st.fixed_dictionaries({}, optional={"x": _of_one_kind(_numbers), "y": _leaves}),
    "other": st.one_of(st.none(), st.fixed_dictionaries({"x": _numbers})),
    "list": st.lists(st.one_of(_numbers, _numbers, _leaves), max_size=3),
}


@st.composite
def values(draw: st.DrawFn) -> list[Any]:
    """Of one topic: each member is there always, at times or never."""
    named = draw(st.lists(st.sampled_from(sorted(_members)), unique=True))
    fixed = {name: draw(st.booleans()) for name in named}
    narrow = {
        name: draw(st.sampled_from([_members[name], st.integers(0, 3), st.just(1.5), st.none()])) for name in named
    }
    one = st.fixed_dictionaries(
        {"id": st.integers(0, 9), **{name: narrow[name] for name in named if fixed[name]}},
        optional={name: narrow[name] for name in named if not fixed[name]},
    )
    return draw(st.lists(st.one_of(one, one, one, one, st.none()), min_size=8, max_size=14))


@pytest.fixture(scope="module", params=QUERIES)
def step(request: pytest.FixtureRequest) -> Iterator[SqlTransform]:
    yield from made(request.param)


def made(query: str) -> Iterator[SqlTransform]:
    step = SqlTransform()
    step.configure({"query": query})
    yield step
    step.close()


@examples(15)
@given(values())
def test_a_query_gives_of_many_records_what_it_gives_of_each(step: SqlTransform, values: list[Any]) -> None:
    compared(step, [SinkRecord("t", 0, None, None, None, value, at) for at, value in enumerate(values)])


def compared(step: SqlTransform, records: list[SinkRecord]) -> None:
    alone = list(one_by_one(step, records))
    assert reported(step, records) == alone
    batch = batch_of(records)
    if batch is not None:
        assert in_columns(step, batch) in (None, alone)


def one_by_one(step: SqlTransform, records: list[SinkRecord]) -> Iterator[str]:
    for record in records:
        try:
            yield from map(shown, step.expand(record))
        except DataError as error:
            yield str(error)
            return


def reported(step: SqlTransform, records: list[SinkRecord]) -> list[str]:
    """Through the pipeline, where a failing record ends it."""
    chain = TransformChain([TransformStep(step)])
    assert chain.takes_lists
    try:
        return [shown(record) for record in chain.apply_records(records)]
    except StageError as failure:
        return [*map(shown, failure.done), str(failure.error)]


def in_columns(step: SqlTransform, batch: RecordBatch) -> list[str] | None:
    try:
        made = step.apply_batch(batch)
    except DataError:
        return None
    if made is NotImplemented:
        COUNTED["records"] += 1
        return None
    COUNTED["columns"] += 1
    return [] if made is None else [shown(record) for record in made.to_records()]


def batch_of(records: list[SinkRecord]) -> RecordBatch | None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    columns = PlainJsonColumns(lambda text: converter.to_connect_data("t", text).value, 10)
    texts = [json.dumps(record.value).encode() for record in records]
    try:
        column = columns.column("t", pa.array(texts, pa.binary()))
    except ByRecordsError:
        return None
    offsets = pa.array([record.kafka_offset for record in records], pa.int64())
    return RecordBatch("t", kafka_partition=0, value=column, kafka_offsets=offsets)


def shown(record: SinkRecord) -> str:
    """All of it; 1 is not 1.0, and one order of members not another."""
    return f"{record.kafka_offset} {record.value_schema} {record.value!r}"


def test_most_batches_stay_columns() -> None:
    records = [
        SinkRecord("t", 0, None, None, None, {"id": at, "n": None if at % 3 else at, "s": "x"}, at) for at in range(30)
    ]
    COUNTED.clear()
    for query in QUERIES[:6]:
        for step in made(query):
            compared(step, records)
    assert COUNTED == {"columns": 6}
