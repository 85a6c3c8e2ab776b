"""SqlTransform and SqlPredicate: by columns what they are by records, each row with its own offset."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import (
    ConfigError,
    ConnectHeaders,
    DataError,
    Decimal,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
    Timestamp,
)
from kconnect.builtin.sql.sql_predicate import SqlPredicate
from kconnect.builtin.sql.sql_transform import SqlTransform
from kconnect.builtin.transforms.filter import Filter
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.builtin.types.column_type import schema_of
from kconnect.builtin.types.declared import declared_type
from kconnect.runtime.pipeline.stages import DROPPED, StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kit.examples import examples

INNER = SchemaBuilder.struct().field("x", Schema.INT32_SCHEMA).field("y", Schema.OPTIONAL_STRING_SCHEMA).optional()
ROW = (
    SchemaBuilder.struct()
    .name("row")
    .version(3)
    .field("id", Schema.INT32_SCHEMA)
    .field("name", SchemaBuilder.string().optional().default("none").doc("who").build())
    .field("amount", Schema.OPTIONAL_FLOAT64_SCHEMA)
    .field("at", Timestamp.builder().optional().build())
    .field("price", Decimal.builder(2).optional().build())
    .field("tags", SchemaBuilder.array(Schema.STRING_SCHEMA).optional().build())
    .field("nested", INNER.build())
    .build()
)
KEY = SchemaBuilder.struct().field("k", Schema.INT64_SCHEMA).build()
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

QUERIES = [
    "SELECT id, upper(name) AS name, amount * 100 AS cents FROM records WHERE amount > 0",
    "SELECT *, nested.x + 1 AS y, _topic, _timestamp AS ts FROM records WHERE name LIKE 'a%' OR id % 2 = 0",
    "SELECT * EXCEPT (tags, nested), tags[0] AS first FROM records WHERE size(tags) > 0",
    "SELECT r.ID AS id, date_format(at, 'yyyy-MM-dd') AS day, price * 2 AS price, _key.k AS k FROM records r",
    "SELECT struct(id AS a, nested.y AS b) AS s, map('n', name) AS m, at + INTERVAL 1 DAY AS next, _headers['h'] AS h "
    "FROM records WHERE _partition IS NULL",
    "SELECT 10 / id AS tenth FROM records",
    "SELECT CAST(name AS INT) AS n FROM records WHERE id > 0",
    "SELECT name, id FROM records",
]
CONDITIONS = ["amount > 0", "name LIKE 'a%' AND _topic = 'topic'", "nested.x = id OR at IS NULL", "10 / id > 1"]


MADE: list[SqlTransform | SqlPredicate] = []


def transform_of(query: str) -> SqlTransform:
    made = SqlTransform()
    made.configure({"query": query})
    MADE.append(made)
    return made


def predicate_of(condition: str) -> SqlPredicate:
    made = SqlPredicate()
    made.configure({"condition": condition})
    MADE.append(made)
    return made


@pytest.fixture(autouse=True, scope="module")
def closing() -> Any:
    yield
    for made in MADE:
        made.close()


# Made at their first use: each has a DuckDB of its own, which whoever only collects these tests need not wait for
@cache
def transforms() -> list[SqlTransform]:
    return [transform_of(query) for query in QUERIES]


@cache
def predicates() -> list[SqlPredicate]:
    return [predicate_of(condition) for condition in CONDITIONS]


@cache
def steps() -> Mapping[str, TransformStep]:
    """By query or condition."""
    found = {query: TransformStep(made) for query, made in zip(QUERIES, transforms(), strict=True)}
    filters = zip(CONDITIONS, predicates(), strict=True)
    return found | {condition: TransformStep(Filter(), made) for condition, made in filters}


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


inner = st.tuples(st.integers(-3, 3), maybe(st.text(max_size=2))).map(
    lambda row: Struct.from_values(INNER.build(), list(row))
)
rows = st.tuples(
    st.integers(-2, 9),
    maybe(st.sampled_from(["a", "Grüße", "12", " 7", ""]) | st.text(max_size=3)),
    maybe(st.floats(-10, 10)),
    maybe(st.integers(-(1 << 40), 1 << 40).map(lambda millis: EPOCH + datetime.timedelta(milliseconds=millis))),
    maybe(st.integers(-999, 999).map(lambda cents: decimal.Decimal(cents).scaleb(-2))),
    maybe(st.lists(st.text(max_size=2), min_size=0, max_size=2)),
    maybe(inner),
).map(lambda row: Struct.from_values(ROW, list(row)))


def record_of(number: int, value: Any, stamp: int | None = 1000) -> SourceRecord:
    headers = ConnectHeaders()
    if number % 2:
        headers.add("h", number, Schema.INT32_SCHEMA)
    key = Struct(KEY, {"k": number})
    return SourceRecord(
        {"p": 1}, {"n": number}, "topic", value, value_schema=ROW, key=key, key_schema=KEY, timestamp=stamp,
        headers=headers,
    )  # fmt: skip


def outcome(chain: TransformChain, given: list[SourceRecord] | RecordBatch) -> Any:
    """What the chain gives, or which record failed in it and why."""
    try:
        after = chain.apply_batch(given) if isinstance(given, RecordBatch) else chain.apply_records(given)
    except StageError as failure:
        return f"{failure.record.source_offset}: {failure.error}"
    return list(after.to_records() if isinstance(after, RecordBatch) else after or [])


@examples(50)  # one record costs DuckDB 2 ms: each example is for one of the steps
@given(
    text=st.sampled_from([*QUERIES, *CONDITIONS]), values=st.lists(rows, min_size=1, max_size=3), has_null=st.booleans()
)
def test_columns_give_what_records_give(text: str, values: list[Any], has_null: bool) -> None:
    records = [record_of(number, value) for number, value in enumerate([*values, *([None] if has_null else [])])]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    chain = TransformChain([steps()[text]])
    assert outcome(chain, batch) == outcome(chain, records), text


FULL = Struct.from_values(
    ROW, [7, "12", 0.5, EPOCH, decimal.Decimal("1.50"), ["a"], Struct(INNER.build(), {"x": 1, "y": "q"})]
)


def test_whole_batches_never_fall_back_to_records() -> None:
    """Counted: a columnar form that always hands the batch back would be none."""
    bare = Struct.from_values(ROW, [7, "12", None, None, None, None, None])
    for values in ([FULL, FULL, FULL], [FULL, bare, bare]):
        batch = RecordBatch.from_records([record_of(number, value) for number, value in enumerate(values)])
        assert batch is not None
        assert [
            query
            for query, made in zip(QUERIES, transforms(), strict=True)
            if made.apply_batch(batch) is NotImplemented
        ] == []
        assert [made.test_batch(batch) for made in predicates() if made.test_batch(batch) is NotImplemented] == []


def test_rows_that_are_left_keep_their_offsets_keys_and_headers() -> None:
    transform = transform_of("SELECT id * 2 AS twice FROM records WHERE id % 3 = 0")
    values = [Struct(ROW, {"id": number}) for number in range(300)]
    batch = RecordBatch.from_records([record_of(number, value, number) for number, value in enumerate(values)])
    assert batch is not None
    made = transform.apply_batch(batch)
    assert isinstance(made, RecordBatch)
    kept = list(range(0, 300, 3))
    records = made.to_records()
    assert [record.source_offset["n"] for record in records] == kept  # type: ignore[union-attr]
    assert [record.value.get("twice") for record in records] == [number * 2 for number in kept]
    assert [(record.key.get("k"), record.timestamp, len(record.headers)) for record in records] == [
        (number, number, number % 2) for number in kept
    ]
    assert made.last_source_offset() == {"n": 297}
    assert transform.apply_batch(batch.slice(1, 2)) is None


def test_a_sink_batch_keeps_the_offsets_in_kafka() -> None:
    records = [SinkRecord("t", 4, None, None, ROW, Struct(ROW, {"id": n}), 100 + n) for n in range(4)]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    transform = transform_of("SELECT id, _partition AS p FROM records WHERE id > 1")
    made = transform.apply_batch(batch)
    assert isinstance(made, RecordBatch)
    assert [(record.kafka_offset, record.value.get("p")) for record in made.to_records()] == [(102, 4), (103, 4)]  # type: ignore[union-attr]


def test_a_field_that_is_only_named_keeps_its_schema_and_the_others_are_optional() -> None:
    made = transform_of("SELECT name, name AS who, id + 1 AS next, price / 2.0D AS half FROM records").apply(
        record_of(0, FULL)
    )
    assert made is not None
    schema = made.value_schema
    assert schema is not None
    assert (schema.name, schema.version) == ("row", 3)
    kinds = [(field.name, field.schema) for field in schema.fields]
    name = ROW.field("name")
    assert name is not None
    assert kinds == [
        ("name", name.schema),
        ("who", name.schema),
        ("next", Schema.OPTIONAL_INT32_SCHEMA),
        ("half", Schema.OPTIONAL_FLOAT64_SCHEMA),
    ]


def test_a_field_of_what_can_be_null_can_be_null() -> None:
    """By columns, by records and in a schema alike; a field of the value itself stays as required as it is."""
    bare, full = record_of(0, Struct.from_values(ROW, [7, "12", None, None, None, None, None])), record_of(1, FULL)
    batch = RecordBatch.from_records([bare, full])
    assert batch is not None
    for query in ("SELECT id, nested.x AS x FROM records", "SELECT id, nested.* EXCEPT (y) FROM records"):
        transform = transform_of(query)
        made = transform.apply_batch(batch)
        assert isinstance(made, RecordBatch)
        assert made.to_records() == [transform.apply(bare), transform.apply(full)]
        assert [str(record.value) for record in made.to_records()] == ["Struct{id=7}", "Struct{id=7,x=1}"]
        assert made.value_schema is not None
        assert [field.schema.is_optional for field in made.value_schema.fields] == [False, True]


def test_the_fields_of_a_struct_can_be_taken_by_a_star() -> None:
    schema = SchemaBuilder.struct().field("op", Schema.STRING_SCHEMA).field("before", ROW).field("after", ROW).build()
    change, key = Struct.from_values(schema, ["u", FULL, FULL]), Struct(KEY, {"k": 5})
    transform = transform_of("SELECT after.* EXCEPT (tags, nested), _key.*, c.op AS op FROM records c")
    made = transform.apply(SourceRecord({}, {}, "t", change, value_schema=schema, key=key, key_schema=KEY))
    assert made is not None
    assert made.value_schema is not None
    assert [field.name for field in made.value_schema.fields] == ["id", "name", "amount", "at", "price", "k", "op"]
    assert (made.value.get("id"), made.value.get("k"), made.value.get("op")) == (7, 5, "u")


def test_a_star_of_a_schemaless_struct_has_all_that_is_in_it() -> None:
    transform = transform_of("SELECT op, after.* FROM records")
    values = [
        {"op": "c", "after": {"a": 1, "b": [2]}},
        {"op": "d", "after": None},
        {"op": "d"},
        {"op": "u", "after": {}},
    ]
    made = [transform.apply(SourceRecord({}, {}, "t", value)) for value in values]
    wanted = [{"op": "c", "a": 1, "b": [2]}, {"op": "d"}, {"op": "d"}, {"op": "u"}]
    assert [record.value if record else None for record in made] == wanted
    with pytest.raises(DataError, match="has no fields"):
        transform.apply(SourceRecord({}, {}, "t", {"op": "c", "after": 5}))


def test_equal_schemas_give_the_very_same_schema() -> None:
    """Converters and the schema registry remember schemas by identity."""
    transform = transform_of("SELECT id FROM records")
    made = [transform.apply(record_of(number, FULL)) for number in range(2)]
    batch = RecordBatch.from_records([record_of(0, FULL)])
    assert batch is not None
    column_form = transform.apply_batch(batch)
    assert isinstance(column_form, RecordBatch)
    assert made[0] is not None
    assert made[1] is not None
    assert made[0].value_schema is made[1].value_schema is column_form.value_schema


def test_a_null_takes_its_default_and_a_record_without_value_passes() -> None:
    nameless = record_of(0, Struct(ROW, {"id": 1}))
    transform = transform_of("SELECT upper(name) AS name FROM records WHERE name = 'none'")
    made = transform.apply(nameless)
    assert made is not None
    assert made.value.get("name") == "NONE"
    tombstone = record_of(1, None)
    assert transform.apply(tombstone) is tombstone


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ({"name": "a", "amount": 2}, {"name": "A", "cents": 200, "more": None}),
        ({"NAME": "a", "Amount": 2.5, "more": [1]}, {"name": "A", "cents": 250.0, "more": [1]}),
        ({"amount": 1, "more": {"deep": [{"x": 1}]}}, {"name": None, "cents": 100, "more": {"deep": [{"x": 1}]}}),
        ({"name": "a", "amount": 0}, None),
        ({"name": "a"}, None),
    ],
)
def test_a_schemaless_value_is_a_map_and_a_field_that_it_lacks_is_null(value: Any, made: Any) -> None:
    transform = transform_of("SELECT upper(name) AS name, amount * 100 AS cents, more FROM records WHERE amount > 0")
    after = transform.apply(SourceRecord({}, {}, "t", value))
    assert (None if after is None else (after.value_schema, after.value)) == (None if made is None else (None, made))


def test_star_of_a_schemaless_value_has_all_that_is_in_it() -> None:
    transform = transform_of("SELECT * EXCEPT (b), a.c AS c, struct(a.c AS d) AS e FROM records")
    after = transform.apply(SourceRecord({}, {}, "t", {"a": {"c": 5, "t": EPOCH}, "b": 1, "n": None}))
    assert after is not None
    assert after.value == {"a": {"c": 5, "t": EPOCH}, "n": None, "c": 5, "e": {"d": 5}}


def test_a_value_that_is_no_struct_is_read_as_value() -> None:
    line = SourceRecord({}, {"n": 1}, "t", "a;b", value_schema=Schema.STRING_SCHEMA)
    transform = transform_of("SELECT split(_value, ';')[1] AS second FROM records")
    after = transform.apply(line)
    assert after is not None
    assert str(after.value) == "Struct{second=b}"
    batch = RecordBatch.from_records([line])
    assert batch is not None
    made = transform.apply_batch(batch)
    assert isinstance(made, RecordBatch)
    assert made.to_records() == [after]


class Tolerant:
    """A policy that drops what fails and remembers it."""

    def __init__(self) -> None:
        self.failures: list[StageError] = []

    def on_failure(self, failure: StageError, retry: Any) -> Any:
        self.failures.append(failure)
        return DROPPED


def test_rows_that_fail_are_reported_one_by_one_and_the_others_go_on() -> None:
    values = [Struct(ROW, {"id": number, "name": name}) for number, name in enumerate(["1", "x", "3", "y", "5"])]
    batch = RecordBatch.from_records([record_of(number, value) for number, value in enumerate(values)])
    assert batch is not None
    policy = Tolerant()
    chain = TransformChain([TransformStep(transform_of("SELECT CAST(name AS INT) AS n FROM records"))], policy)
    made = outcome(chain, batch)
    assert [(record.source_offset["n"], record.value.get("n")) for record in made] == [(0, 1), (2, 3), (4, 5)]
    assert [str(failure) for failure in policy.failures] == [
        "Record of topic 'topic' (source partition {'p': 1}, source offset {'n': 1}) failed in TRANSFORMATION of "
        "SqlTransform: [CAST_INVALID_INPUT] x is not a whole number",
        "Record of topic 'topic' (source partition {'p': 1}, source offset {'n': 3}) failed in TRANSFORMATION of "
        "SqlTransform: [CAST_INVALID_INPUT] y is not a whole number",
    ]


def test_all_fields_of_a_struct_that_is_null_are_a_tombstone_by_columns_too() -> None:
    after = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).optional().build()
    schema = SchemaBuilder.struct().field("after", after).build()
    rows = [Struct(schema, {"after": Struct(after, {"id": 0})}), Struct(schema)]
    records = [SourceRecord({}, {}, "topic", row, value_schema=schema) for row in rows]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    chain = TransformChain([TransformStep(transform_of("SELECT after.* FROM records"))])
    for form in (records, batch):
        kept, gone = outcome(chain, form)
        assert kept.value["id"] == 0
        assert (gone.value_schema, gone.value) == (None, None)


def test_what_is_computed_has_the_types_of_the_one_table() -> None:
    """The precision of decimals travels, and keys of a map are never null."""
    made = transform_of("SELECT CAST(id AS decimal(12,2)) AS price, map('a', id) AS found FROM records").apply(
        record_of(0, FULL)
    )
    price, found = made.value_schema.fields
    assert price.schema == schema_of(declared_type("decimal(12,2)"))
    assert found.schema == schema_of(declared_type("map<string,int>"))


def test_an_object_without_members_is_json_as_well() -> None:
    transform = transform_of("SELECT to_json(o) AS j FROM records")
    found = [transform.apply(SourceRecord(None, None, "t", {"o": value})).value for value in ({}, {"a": {}})]
    assert found == [{"j": "{}"}, {"j": '{"a":{}}'}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT nothing FROM records", "The value has no field nothing; it has id, name, amount"),
        ("SELECT coalesce(nested, nested).z AS x FROM records", "COALESCE(nested, nested) has no field z; it has x, y"),
        ("SELECT upper(name).z AS x FROM records", "UPPER(name) is STRING, which has no fields"),
        ("SELECT coalesce(nested, struct(1 AS q)) AS x FROM records", "are of several types (STRUCT<"),
        ("SELECT id.* FROM records", "id.*: id has no fields"),
        ("SELECT nothing.* FROM records", "The value has no field nothing"),
        ("SELECT to_json(name) AS x FROM records", "to_json(): it takes a struct, array or map, found VARCHAR"),
        ("SELECT nested.z FROM records", "The value has no field nested.z; it has x, y"),
        ("SELECT id.z FROM records", "The value has no field id.z"),
        ("SELECT id + name AS x FROM records", "calculates with text: write CAST"),
        ("SELECT price / 3 AS x FROM records", "write double(..) around one of them"),
        ("SELECT coalesce(id, 'x') AS x FROM records", "are of several types (INT, STRING): cast them to one"),
        ("SELECT coalesce(id, true) AS x FROM records", "are of several types (INT, BOOLEAN): cast them to one"),
        ("SELECT map_keys(nested) AS x FROM records", "map_keys(): nested is STRUCT<"),
        ("SELECT size(name) AS x FROM records", "size(): name is STRING, and an array or a map is needed"),
        ("SELECT ~price AS x FROM records", "~price is not made for these types: price is DECIMAL("),
        (
            "SELECT 1 + abs(id % name) AS x FROM records",
            "id % name is not made for these types: id is INT, name is STRING",
        ),
        ("SELECT id FROM records WHERE id AND true", "id AND TRUE: id is INT, and true or false is needed"),
        ("SELECT CASE WHEN id THEN 1 END AS x FROM records", "id is INT, and true or false is needed"),
        ("SELECT name['k'] AS x FROM records", "name['k']: name is STRING, and a map is needed"),
        ("SELECT id FROM records WHERE nested = 1", "are of several types (STRUCT<"),
        ("SELECT id FROM records WHERE id", "A condition is true or false; id is INT"),
        ("SELECT *, id FROM records", "Two fields of the result are named id"),
        ("SELECT concat(tags, tags) AS x FROM records", "has no text as in Spark"),
        ("SELECT NULL AS x FROM records", "x is null, which has no type: cast it"),
    ],
)
def test_a_query_that_does_not_fit_the_records_fails_with_a_reason(query: str, why: str) -> None:
    transform, record = transform_of(query), record_of(0, FULL)
    batch = RecordBatch.from_records([record])
    assert batch is not None
    for call in (lambda: transform.apply(record), lambda: transform.apply_batch(batch)):
        with pytest.raises(DataError) as caught:
            call()
        assert why in str(caught.value)


def test_names_that_differ_in_capitals_only_have_to_be_written_as_they_are() -> None:
    schema = SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).field("A", Schema.INT32_SCHEMA).build()
    record = SourceRecord({}, {}, "t", Struct(schema, {"a": 1, "A": 2}), value_schema=schema)
    made = transform_of("SELECT A + 0 AS upper, a + 0 AS lower FROM records").apply(record)
    assert made is not None
    assert str(made.value) == "Struct{upper=2,lower=1}"
    schema = SchemaBuilder.struct().field("ab", Schema.INT32_SCHEMA).field("AB", Schema.INT32_SCHEMA).build()
    record = SourceRecord({}, {}, "t", Struct(schema, {"ab": 1, "AB": 2}), value_schema=schema)
    with pytest.raises(DataError, match="Ab can be any of the fields ab, AB"):
        transform_of("SELECT Ab FROM records").apply(record)


def test_a_predicate_knows_neither_what_is_unknown_nor_what_is_false() -> None:
    predicate = predicate_of("amount > 0")
    values = [Struct(ROW, {"id": 0, "amount": amount}) for amount in (1.0, -1.0, None)]
    records = [record_of(number, value) for number, value in enumerate([*values, None])]
    assert [predicate.test(record) for record in records] == [True, False, False, False]
    assert predicate_of("_value IS NULL").test(records[3])
    schemaless = [SourceRecord({}, {}, "t", value) for value in ({"amount": 1}, {"other": 1}, None)]
    assert [predicate.test(record) for record in schemaless] == [True, False, False]


def test_a_query_with_nothing_to_calculate_passes_the_columns_on() -> None:
    batch = RecordBatch.from_records([record_of(0, FULL), record_of(1, FULL)])
    assert batch is not None
    made = transform_of("SELECT nested, tags FROM records").apply_batch(batch)
    assert isinstance(made, RecordBatch)
    assert [record.value.get("tags") for record in made.to_records()] == [["a"], ["a"]]


def test_it_works_behind_other_transformations_on_columns() -> None:
    hoist = HoistFieldValue()
    hoist.configure({"field": "line"})
    records = [SourceRecord({}, {"n": n}, "t", f"line {n}", value_schema=Schema.STRING_SCHEMA) for n in range(3)]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    sql = transform_of("SELECT upper(line) AS line FROM records WHERE line <> 'line 1'")
    made = TransformChain([TransformStep(hoist), TransformStep(sql)]).apply_batch(batch)
    assert isinstance(made, RecordBatch)
    assert [str(record.value) for record in made.to_records()] == ["Struct{line=LINE 0}", "Struct{line=LINE 2}"]


@pytest.mark.parametrize("kind", [SqlTransform, SqlPredicate])
def test_settings_are_checked_before_anything_is_made(kind: Any) -> None:
    setting = "query" if kind is SqlTransform else "condition"
    with pytest.raises(ConfigError, match="does not parse at line 1"):
        kind().configure({setting: "SELECT a FROM records WHERE a >" if kind is SqlTransform else "a >"})
    with pytest.raises(ConfigError, match=f'Missing required configuration "{setting}"'):
        kind().configure({})


def test_a_map_with_a_schema_has_values_by_key_and_no_fields() -> None:
    schema = SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT64_SCHEMA).build()
    record = SourceRecord({}, {}, "t", {"a": 1}, value_schema=schema)
    made = transform_of("SELECT _value['a'] + 1 AS next, _value['b'] AS none FROM records").apply(record)
    assert made is not None
    assert str(made.value) == "Struct{next=2}"
    with pytest.raises(DataError, match="The value has no field a; it has no fields; _value is the whole"):
        transform_of("SELECT a FROM records").apply(record)


@pytest.mark.parametrize("condition", ["_key.k = 1", "a.b = 1", "_key = 'x'", "a IS NOT NULL"])
def test_what_a_batch_without_keys_and_values_lacks_is_unknown(condition: str) -> None:
    records = [SourceRecord({}, {"n": n}, "t", None) for n in range(2)]
    batch = RecordBatch.from_records(records)
    assert batch is not None
    predicate = predicate_of(condition)
    assert predicate.test_batch(batch).to_pylist() == [predicate.test(record) for record in records] == [False, False]
