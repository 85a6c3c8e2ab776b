"""Records as rows of a fixed schema: what fits, what is reported, what is new."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, Schema, SchemaBuilder, SinkRecord, Struct
from kconnect.api.plain_columns import NULL_IS_MISSING, WHOLE_IS_INT
from kconnect.builtin.types.contracts import Contract, Contracts
from kconnect.errors import DataError
from kconnect.spark.query.sink_settings import SinkQuerySettings
from kconnect.spark.query.table_columns import TableColumns, typed_by_table, with_table_columns
from kconnect.spark.query.topic_rows import ABOUT, RowsOfBatch, SchemaGrownError, fields_of, key_row

FIELDS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def record(value: Any, offset: int = 0, schema: Schema | None = None, key: Any = None) -> SinkRecord:
    return SinkRecord("t", 0, None, key, schema, value, offset, timestamp=1000)


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        self.values: list[tuple[str, int]] = []

    def __call__(self, record: SinkRecord, error: Exception, column: str = "", count: int = 0) -> None:
        self.seen.append((record.kafka_offset, str(error)))
        self.values.append((column, count))


def rows_of(about: tuple[str, ...] = (), **more: Any) -> RowsOfBatch:
    settings: dict[str, Any] = {"is_inferred": True, "keeps_tombstones": False} | more
    schema = pa.schema([*FIELDS, *((name, ABOUT[name]) for name in about)])
    return RowsOfBatch(schema, about, **settings)


def test_dicts_and_structs_become_rows_and_tombstones_do_not() -> None:
    schema = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("name", Schema.STRING_SCHEMA).build()
    records = [record({"id": 1}), record(None, 1), record(Struct(schema, {"id": 2, "name": "b"}), 2, schema)]

    made = rows_of().of(records, Reports())

    assert made.to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]


def test_columns_are_taken_as_they_are_and_cast_where_the_type_is_wider() -> None:
    value = pa.StructArray.from_arrays([pa.array([1, 2], pa.int32()), pa.array(["a", "b"])], names=["id", "name"])
    schema = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).field("name", Schema.STRING_SCHEMA).build()
    batch = RecordBatch("t", kafka_partition=3, value=value, value_schema=schema, kafka_offsets=pa.array([7, 8]))

    made = rows_of(("_topic", "_partition", "_offset", "_deleted")).of(batch, Reports())

    assert made.to_pylist()[1] == {
        "id": 2,
        "name": "b",
        "_topic": "t",
        "_partition": 3,
        "_offset": 8,
        "_deleted": False,
    }


def without_schema(*values: Any, marks: dict[bytes, bytes]) -> RecordBatch:
    fields = [pa.field("id", pa.int64(), metadata=marks), pa.field("name", pa.string(), metadata=marks)]
    value = pa.StructArray.from_arrays(
        [pa.array([one.get(field.name) for one in values], field.type) for field in fields], fields=fields
    )
    return RecordBatch(
        "t", kafka_partition=0, value=value, kafka_offsets=pa.array(range(len(values))), original_kafka_partition=0
    )


def test_a_value_without_fields_is_no_row_and_one_of_nulls_is() -> None:
    reports = Reports()
    alone = [record({"id": 1}), record({}, 1), record({"id": None}, 2)]
    assert rows_of().of(alone, reports).to_pylist() == [{"id": 1, "name": None}, {"id": None, "name": None}]

    columns = without_schema({"id": 1}, {}, {"name": "a"}, marks=NULL_IS_MISSING)
    assert rows_of().of(columns, reports).to_pylist() == [{"id": 1, "name": None}, {"id": None, "name": "a"}]
    assert reports.seen == [(1, "its value has no field, so that it is no row")] * 2

    nulls = without_schema({"id": 1}, {"id": None}, marks={})
    assert rows_of().of(nulls, reports).to_pylist() == [{"id": 1, "name": None}, {"id": None, "name": None}]
    declared = rows_of(is_inferred=False)
    assert declared.of([record({})], reports).to_pylist() == [{"id": None, "name": None}]
    assert len(reports.seen) == 2


def test_a_record_that_does_not_fit_is_reported_with_its_field_and_the_others_stay() -> None:
    reports = Reports()

    made = rows_of(contracts=Contracts(Contract.FREEZE)).of(
        [record({"id": 1}), record({"id": "one"}, 1), record({"id": 3}, 2)], reports
    )

    assert made["id"].to_pylist() == [1, 3]
    assert [offset for offset, _ in reports.seen] == [1]
    assert "Column id is string in the record, and cannot be int64: 'one'" in reports.seen[0][1]


def test_what_was_seen_goes_beside_the_columns_that_cannot_hold_it() -> None:
    reports = Reports()
    with pytest.raises(SchemaGrownError) as grown:
        rows_of().of([record({"id": 1}), record({"id": "01"}, 1), record({"id": 2.5}, 2)], reports)
    assert SchemaGrownError.fields_in(str(grown.value)) == pa.schema(
        [("id__v_text", pa.string()), ("id__v_double", pa.float64())]
    )
    schema = pa.schema([*FIELDS, ("id__v_text", pa.string()), ("id__v_double", pa.float64())])
    rows = RowsOfBatch(schema, (), is_inferred=True, keeps_tombstones=False)
    made = rows.of(
        [record({"id": 1, "name": 5}), record({"id": "01"}, 1), record({"id": 2.0}, 2), record({"id": 2.5}, 3)], reports
    )
    kept = [{name: value for name, value in row.items() if value is not None} for row in made.to_pylist()]
    assert kept == [{"id": 1, "name": "5"}, {"id__v_text": "01"}, {"id": 2}, {"id__v_double": 2.5}]
    assert not reports.seen


def test_json_text_is_the_value_as_it_came() -> None:
    kinds = [
        ("id", pa.int64()),
        ("t", pa.string()),
        ("s", pa.struct([("t", pa.string())])),
        ("id__v_json", pa.string()),
    ]
    rows = RowsOfBatch(pa.schema(kinds), (), is_inferred=True, keeps_tombstones=False)
    values, texts = [[1, "x"], [{"a": 1}, {"b": [2.5, 1]}]], ['[1,"x"]', '[{"a":1},{"b":[2.5,1]}]']
    for put in (values, values[:1]):  # lists of what has nothing in common, and of texts to Arrow
        made = rows.of([record({"t": value, "s": {"t": value}}, at) for at, value in enumerate(put)], Reports())
        assert made.to_pylist() == [
            {"id": None, "t": text, "s": {"t": text}, "id__v_json": None} for text in texts[: len(put)]
        ]
    made = rows.of([record({"id": value}, at) for at, value in enumerate(values)], Reports())
    assert made["id__v_json"].to_pylist() == texts


def test_columns_that_become_json_text_are_the_values_as_they_came() -> None:
    inner = pa.field("x", pa.float64(), metadata={**NULL_IS_MISSING, **WHOLE_IS_INT})
    value = pa.array([{"name": {"x": 1.0}}, {"name": {}}], pa.struct([("name", pa.struct([inner]))]))

    made = rows_of().of(RecordBatch("t", value=value, kafka_partition=0, kafka_offsets=pa.array([0, 1])), Reports())

    assert made["name"].to_pylist() == ['{"x":1}', "{}"]


def test_contracts_leave_out_or_refuse_what_is_new() -> None:
    reports, left = Reports(), Reports()
    contracts = Contracts(Contract.FREEZE, {"name": Contract.DISCARD_VALUE, "more": Contract.DISCARD_ROW})
    rows = rows_of(contracts=contracts, discard=left)
    values = [{"id": 1, "name": "a"}, {"id": 2, "more": 1}, {"id": 3, "name": "b"}, {"id": 4, "new": 1}, {"id": 2.5}]
    made = rows.of([record(value, at) for at, value in enumerate(values)], reports)
    assert made["id"].to_pylist() == [1, 3]
    assert [offset for offset, _ in left.seen] == [1]
    assert [offset for offset, _ in reports.seen] == [3, 4]
    column = RecordBatch("t", kafka_partition=0, value=pa.array([{"id": 1, "new": 2}]), kafka_offsets=pa.array([9]))
    assert not rows.of(column, reports).num_rows, "columns as records"
    rows_of(infers=False).of([record({"id": 1}, 7)], reports)
    assert reports.seen[-1] == (7, "Its value has no schema, and schema.infer is false")


def test_a_new_field_ends_the_reading_and_its_type_can_be_read_from_the_trace() -> None:
    with pytest.raises(SchemaGrownError) as caught:
        rows_of().of([record({"id": 1, "at": 1.5}, 4)], Reports())

    assert "t-0@4" in str(caught.value)
    trace = f"Traceback ..\nkconnect.x.SchemaGrownError: {caught.value}\n\tat org.apache.spark"
    assert SchemaGrownError.fields_in(trace) == pa.schema([("at", pa.float64())])
    assert SchemaGrownError.fields_in("something else") is None


def _growth(rows: RowsOfBatch, payload: Any) -> pa.Schema | None:
    with pytest.raises(SchemaGrownError) as caught:
        rows.of(payload, Reports())
    return SchemaGrownError.fields_in(str(caught.value))


@pytest.mark.parametrize("form", ["records", "columns"])
def test_members_that_a_struct_or_list_lacks_are_new_fields(form: str) -> None:
    columns = pa.schema([("s", pa.struct([("x", pa.int32())])), ("l", pa.list_(pa.struct([("x", pa.int32())])))])
    rows = RowsOfBatch(columns, (), is_inferred=True, keeps_tombstones=False)
    value = {"s": {"x": 1, "y": "a", "z": None}, "l": [{"x": 1, "y": "b"}]}
    batch = RecordBatch("t", kafka_partition=0, value=pa.array([value]), kafka_offsets=pa.array([0]))
    both = pa.struct([("x", pa.int32()), ("y", pa.string())])
    grown = pa.schema([("s", both), ("l", pa.list_(both))])
    assert _growth(rows, [record(value)] if form == "records" else batch) == grown
    made = RowsOfBatch(grown, (), is_inferred=True, keeps_tombstones=False).of([record(value)], Reports())
    assert made.to_pylist() == [{"s": {"x": 1, "y": "a"}, "l": [{"x": 1, "y": "b"}]}]


@pytest.mark.parametrize("form", ["records", "columns"])
def test_members_that_are_one_to_spark_are_an_error_of_their_record(form: str) -> None:
    reports = Reports()
    inner = pa.list_(pa.struct([("x", pa.int64())]))
    rows = RowsOfBatch(pa.schema([("l", inner)]), (), is_inferred=True, keeps_tombstones=False)
    values = [{"l": [{"x": 1}]}, {"l": [{"x": 2, "X": 3}]}, {"l": [{"x": 4}]}]
    batch = RecordBatch("t", kafka_partition=0, value=pa.array(values), kafka_offsets=pa.array([0, 1, 2]))
    payload: Any = batch if form == "columns" else [record(value, at) for at, value in enumerate(values)]
    made = rows.of(payload, reports).to_pylist()
    assert made == [values[0], values[2]]
    ((offset, reported),) = reports.seen
    assert (offset, "Its field l[].X differs from l[].x in case alone" in reported) == (1, True)
    assert fields_of(values) == pa.schema([("l", inner)])


def test_what_a_member_cannot_hold_goes_beside_it() -> None:
    rows = RowsOfBatch(pa.schema([("s", pa.struct([("x", pa.int64())]))]), (), is_inferred=True, keeps_tombstones=False)
    assert _growth(rows, [record({"s": {"x": 1}}), record({"s": {"x": "a"}})]) == pa.schema(
        [("s", pa.struct([("x", pa.int64()), ("x__v_text", pa.string())]))]
    )


@pytest.mark.parametrize("form", ["records", "columns"])
def test_columns_become_wider_for_records_with_a_schema_where_the_format_can(form: str) -> None:
    schema = SchemaBuilder.struct().field("i", Schema.INT64_SCHEMA).field("r", Schema.FLOAT64_SCHEMA).build()
    columns = pa.schema([("i", pa.int32()), ("r", pa.float32())])
    values = [{"i": 1, "r": 0.5}, {"i": 1 << 40, "r": 0.1}]
    records = [record(Struct(schema, value), at, schema) for at, value in enumerate(values)]
    batch = RecordBatch(
        "t", kafka_partition=0, value_schema=schema, value=pa.array(values), kafka_offsets=pa.array([0, 1]),
        original_topic="t",
    )  # fmt: skip
    payload: Any = records if form == "records" else batch
    wider = pa.schema([("i", pa.int64()), ("r", pa.float64())])
    settings: dict[str, Any] = {"is_inferred": True, "keeps_tombstones": False, "where": "/data"}

    assert _growth(RowsOfBatch(columns, (), widens=True, **settings), payload) == wider
    assert RowsOfBatch(wider, (), widens=True, **settings).of(payload, Reports()).to_pylist() == values
    reports = Reports()
    assert RowsOfBatch(columns, (), **settings).of(payload, reports).to_pylist() == values[:1]
    frozen = Contracts(Contract.FREEZE)
    assert len(RowsOfBatch(columns, (), widens=True, contracts=frozen, **settings).of(payload, reports)) == 1
    left, dropped = Reports(), Contracts(Contract.DISCARD_ROW, {"r": Contract.DISCARD_VALUE})
    rows = RowsOfBatch(columns, (), widens=True, contracts=dropped, discard=left, **settings)
    assert rows.of(payload, reports).to_pylist() == values[:1]
    assert [offset for offset, _ in reports.seen] == [1, 1]
    assert [offset for offset, _ in left.seen] == [1]
    assert left.values == [("", 0)]
    rows = RowsOfBatch(columns, (), widens=True, contracts=Contracts(Contract.DISCARD_VALUE), discard=left, **settings)
    assert rows.of(payload, reports).to_pylist() == [values[0], {"i": None, "r": None}]
    assert left.values[1:] == [("i", 1), ("r", 1)]


def test_a_type_that_has_nothing_in_common_is_an_error_of_its_record() -> None:
    schema = SchemaBuilder.struct().field("id", Schema.STRING_SCHEMA).build()
    reports = Reports()
    assert not len(rows_of(widens=True).of([record(Struct(schema, {"id": "x"}), 4, schema)], reports))
    assert reports.seen[0][0] == 4
    assert "Column id is string in the record, and cannot be int64: 'x'" in reports.seen[0][1]


def test_with_a_configured_schema_other_fields_are_left_out() -> None:
    made = rows_of(is_inferred=False).of([record({"id": 1, "at": 1.5})], Reports())

    assert made.to_pylist() == [{"id": 1, "name": None}]


def test_a_tombstone_is_a_deleted_row_of_a_merge() -> None:
    made = rows_of(("_key", "_deleted"), keeps_tombstones=True).of([record(None, key={"k": 1})], Reports())

    assert made.to_pylist() == [{"id": None, "name": None, "_key": '{"k":1}', "_deleted": True}]


def test_fields_take_a_type_that_fits_all_values() -> None:
    found = fields_of([{"a": 1, "c": [1]}, {"a": 1.5, "d": {"e": 1}}])

    assert found == pa.schema([("a", pa.float64()), ("c", pa.list_(pa.int64())), ("d", pa.struct([("e", pa.int64())]))])
    assert fields_of([{"a": 1}, {"a": "x"}]) == pa.schema([("a", pa.string())])


NULLS = {"b": None, "c": {}, "d": {"e": None, "f": 1}, "g": [None], "h": {"i": None}, "j": [{"k": None, "l": 1}]}


def test_fields_that_are_only_known_to_be_null_wait_for_a_value_unless_somebody_names_them() -> None:
    typed = [("d", pa.struct([("f", pa.int64())])), ("j", pa.list_(pa.struct([("l", pa.int64())])))]
    assert fields_of([{"a": 1, **NULLS}]) == pa.schema([("a", pa.int64()), *typed])
    assert fields_of([{"a": 1, **NULLS}], {"b", "i"}.__contains__) == pa.schema(
        [("a", pa.int64()), ("b", pa.string()), typed[0], ("h", pa.struct([("i", pa.string())])), typed[1]]
    )
    assert fields_of([{"a": None, "b": {}}]) == pa.schema([("a", pa.string()), ("b", pa.string())])


def test_a_field_that_was_null_at_first_gets_the_type_of_its_first_value() -> None:
    rows = RowsOfBatch(fields_of([{"a": 1, "b": None}]), (), is_inferred=True, keeps_tombstones=False)
    assert rows.of([record({"a": 2, "b": None})], Reports()).to_pylist() == [{"a": 2}]
    column = pa.array([{"a": 2, "b": None}])
    batch = RecordBatch("t", kafka_partition=3, value=column, kafka_offsets=pa.array([7]), original_topic="t")
    assert rows.of(batch, Reports()).to_pylist() == [{"a": 2}], "the same of columns"
    assert rows.of([record({"a": 2, **NULLS, "d": None, "j": None})], Reports()).to_pylist() == [{"a": 2}]
    with pytest.raises(SchemaGrownError) as grown:
        rows.of([record({"a": 3, "b": None}), record({"a": 3, "b": 3.5}, 1)], Reports())
    assert SchemaGrownError.fields_in(str(grown.value)) == pa.schema([("b", pa.float64())])


def test_a_tombstone_names_its_row_by_its_key_and_one_that_names_none_is_reported() -> None:
    reports = Reports()
    rows = rows_of(("_deleted",), keeps_tombstones=True, merge_keys=("id",))

    made = rows.of([record({"id": 1}), record(None, 1, key="17"), record(None, 2), record(None, 3, key="x")], reports)

    assert made.to_pylist() == [
        {"id": 1, "name": None, "_deleted": False},
        {"id": 17, "name": None, "_deleted": True},
    ]
    assert [offset for offset, _ in reports.seen] == [2, 3]
    assert "names no row to remove" in reports.seen[0][1]
    assert "does not fit the column id of type int64" in reports.seen[1][1]


def test_the_columns_that_name_a_row_are_fields_of_the_key() -> None:
    columns = [pa.field("id", pa.int64()), pa.field("region", pa.string())]

    assert key_row({"id": 1, "region": "eu", "more": True}, columns) == {"id": 1, "region": "eu"}
    with pytest.raises(DataError, match=r"merge\.keys names 2 columns"):
        key_row(1, columns)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("_offset", "name of a column about records"),
        ("a\x00b", "null sign"),
        ("Name", "differs from name in case alone"),
    ],
)
def test_a_record_with_a_name_that_no_column_can_have_is_an_error_of_its_own(member: str, words: str) -> None:
    reports = Reports()
    made = rows_of().of([record({"id": 1}), record({"id": 2, member: 1}, 1), record({"id": 3}, 2)], reports)
    assert [row["id"] for row in made.to_pylist()] == [1, 3]
    ((offset, reported),) = reports.seen
    assert (offset, words in reported) == (1, True), reported


def test_the_first_records_tell_the_fields_without_those_that_no_column_can_have() -> None:
    rows = [{"id": 1}, {"a\x00b": 1}, {"_offset": 1, "x": 1.5}, {"ID": 2, "X": 1}]
    assert fields_of(rows).names == ["id", "x"]


def test_columns_with_the_name_of_a_column_about_records_are_looked_at_one_by_one() -> None:
    reports = Reports()
    value = pa.array([{"id": 1, "_offset": 5}, {"id": 2, "_offset": 6}])
    batch = RecordBatch("t", kafka_partition=3, value=value, kafka_offsets=pa.array([7, 8]), original_topic="t")
    assert len(rows_of().of(batch, reports)) == 0
    assert [offset for offset, _ in reports.seen] == [7, 8]


def test_a_table_that_is_there_has_its_columns_whatever_the_next_records_have() -> None:
    table = pa.schema([("ID", pa.int64()), ("old", pa.string())])
    seen = pa.schema([("id", pa.string()), ("more", pa.bool_())])

    made = with_table_columns(table, seen, Contracts())

    assert made == pa.schema([("id", pa.int64()), ("old", pa.string()), ("more", pa.bool_())])
    frozen = with_table_columns(table, seen, Contracts(Contract.FREEZE))
    assert frozen.names == ["id", "old"]


def test_a_table_that_spark_does_not_change_has_its_types_and_no_more_columns() -> None:
    table = pa.schema([("id", pa.int64()), ("AT", pa.timestamp("us")), ("note", pa.string()), ("own", pa.string())])
    seen = pa.schema([("id", pa.float64()), ("at", pa.string()), ("note", pa.int64()), ("more", pa.bool_())])

    def typed(**more: str) -> TableColumns:
        options = {f"spark.options.{name}": value for name, value in more.items() if name != "kind"}
        settings = {"spark.format": more.get("kind", "delta"), **options}
        return typed_by_table(table, seen, SinkQuerySettings.parse(settings))

    assert typed().fixed == ("id", "at", "note", "own")
    assert typed().schema == pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("note", pa.string())])
    assert typed(kind="jdbc").schema.field("at").type == pa.string(), "a driver may read it"
    grown = typed(mergeSchema="true")
    assert (grown.fixed, grown.schema.names) == (None, ["id", "at", "note", "more"])


def test_doubles_go_as_they_are_where_a_column_rounds_or_has_no_precision() -> None:
    table = pa.schema([("r", pa.float32()), ("n", pa.decimal128(38, 18)), ("p", pa.decimal128(10, 2))])
    settings = SinkQuerySettings.parse({"spark.format": "jdbc"})
    seen = pa.schema([(name, pa.float64()) for name in "rnp"])
    assert typed_by_table(table, seen, settings).schema.types == [pa.float64(), pa.float64(), pa.decimal128(10, 2)]
    whole = pa.schema([(name, pa.int64()) for name in "rnp"])
    assert typed_by_table(table, whole, settings).schema == table


def test_a_table_that_grows_gets_members_of_structs() -> None:
    table = pa.schema([("of", pa.struct([("a", pa.int64())]))])
    seen = pa.schema([("of", pa.struct([("a", pa.float64()), ("b", pa.string())]))])
    settings = SinkQuerySettings.parse({"spark.format": "delta", "spark.options.mergeSchema": "true"})
    (field,) = typed_by_table(table, seen, settings).schema
    assert field.type == pa.struct([("a", pa.int64()), ("b", pa.string())])


def test_what_a_fixed_table_has_no_place_for_is_an_error_of_its_record() -> None:
    reports = Reports()
    fixed = Contracts(fixed=frozenset(["id", "price", "note"]))
    known = pa.schema([("id", pa.int64()), ("price", pa.int64())])
    rows = RowsOfBatch(known, (), is_inferred=True, keeps_tombstones=False, contracts=fixed)
    values = [{"id": 1, "price": 5}, {"id": 2, "price": 5.5}, {"id": 3, "more": 1}, {"id": 4, "price": 6.0}]
    made = rows.of([record(value, offset) for offset, value in enumerate(values)], reports)
    assert [row["id"] for row in made.to_pylist()] == [1, 4]
    (price, more) = (reported for _, reported in reports.seen)
    assert "Column price is double in the record, and cannot be int64: 5.5" in price
    assert "Column more is not in the table, and its value is 1" in more
    with pytest.raises(SchemaGrownError, match="note"):
        rows.of([record({"id": 5, "note": "x"})], reports)
