"""Types seen in values without schema: the rules, and at random that no value changes however it is divided."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError, Schema, SchemaBuilder, Struct
from kconnect.builtin.converters import plain_json_type
from kconnect.builtin.types.seen import NOTHING, Kind, Seen, is_untyped, joined, joined_schemas, see
from kconnect.builtin.types.seen_columns import column_of_seen, seen_column, seen_table
from kit.examples import examples

_NUMBERS = st.one_of(
    st.integers(-1000, 1000),
    st.integers(-(2**66), 2**66),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**37, 10**38, 10**40, 2**1024]),
    st.floats(allow_nan=False),
    st.sampled_from([0.1, 3.5, 1e300, 5e-324, -0.0]),
)
_LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(max_size=4))
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)
# Mostly of one kind, as data is
_COLUMNS = st.one_of(
    st.lists(_NUMBERS, max_size=8),
    st.lists(st.one_of(st.none(), st.integers(), st.floats()), max_size=8),
    st.lists(st.fixed_dictionaries({"p": _NUMBERS}, optional={"q": _LEAVES, "r": st.lists(_NUMBERS)}), max_size=8),
    st.lists(_VALUES, max_size=8),
)


def is_same(written: Any, read: Any, kind: pa.DataType) -> bool:
    """Whether a column says of a value what it is: numbers with every digit, what is text as JSON."""
    if written is None:
        return read is None
    if pa.types.is_struct(kind):
        names = {field.name: field.type for field in kind}
        return written.keys() <= names.keys() and all(
            is_same(written.get(name), read[name], part) for name, part in names.items()
        )
    if pa.types.is_list(kind):
        pairs = zip(written, read, strict=True)
        return read is not None and all(is_same(one, other, kind.value_type) for one, other in pairs)
    if pa.types.is_string(kind):
        return read == written if isinstance(written, str) else _reads_as(read, written)
    if isinstance(written, bool) or isinstance(read, bool):
        return read is written
    if isinstance(written, float) and math.isnan(written):
        return math.isnan(read)
    if not isinstance(written, Decimal) and isinstance(read, Decimal) and math.isfinite(written):
        return read in (Decimal(repr(written)), Decimal(written))
    return bool(read == written)


def _reads_as(text: str, value: Any) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return text == str(value)
    found = json.loads(text)
    return json.dumps(found) == json.dumps(_json(value))


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    return [_json(item) for item in value] if isinstance(value, list) else value


@examples(300)
@given(_COLUMNS)
def test_no_value_changes_in_its_column(values: list[Any]):
    column = seen_column(values)
    assert len(column) == len(values)
    assert all(is_same(one, read, column.type) for one, read in zip(values, column.to_pylist(), strict=True)), column


@examples(300)
@given(_COLUMNS, st.data())
def test_any_division_into_batches_gives_the_type_and_values_of_all_at_once(values: list[Any], data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = [values[start:end] for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    whole = see(values)
    assert reduce(Seen.join, map(see, parts), NOTHING) == whole
    assert reduce(Seen.join, map(see, reversed(parts)), NOTHING).numbers == whole.numbers
    assert whole.type == seen_column(values).type, "as Arrow finds it where it is asked first"
    made = pa.concat_arrays([column_of_seen(part, whole) for part in parts])
    assert str(made.to_pylist()) == str(seen_column(values).to_pylist()), "str: NaN is not equal to itself"


@examples(200)
@given(_COLUMNS, _COLUMNS)
def test_types_join_as_values_do_but_for_digits_that_only_values_show(one: list[Any], other: list[Any]):
    both = joined(seen_column(one).type, seen_column(other).type)
    assert both == joined(both, seen_column(one).type) == joined(seen_column(one).type, both)
    assert _ordered(joined(seen_column(other).type, seen_column(one).type)) == _ordered(both)


def _ordered(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(sorted(((part.name, _ordered(part.type)) for part in kind), key=lambda part: part[0]))
    return pa.list_(_ordered(kind.value_type)) if pa.types.is_list(kind) else kind


_PLAIN: dict[plain_json_type.Kind, Kind] = {
    plain_json_type.Kind.NULL: Kind.NOTHING,
    plain_json_type.Kind.BOOLEAN: Kind.BOOL,
    plain_json_type.Kind.STRING: Kind.TEXT,
    plain_json_type.Kind.LIST: Kind.LIST,
    plain_json_type.Kind.OBJECT: Kind.STRUCT,
}


def _is_of(plain: plain_json_type.PlainType, seen: Seen) -> bool:
    if seen.kind is not _PLAIN.get(plain.kind, Kind.NUMBER):
        return False
    if seen.numbers is not None:
        return seen.numbers.has_floats is (plain.kind is not plain_json_type.Kind.WHOLE)
    if plain.item is not None:
        return seen.item is not None and _is_of(plain.item, seen.item)
    members = {member.name: member.type for member in plain.members}
    return members.keys() == seen.members.keys() and all(_is_of(members[name], seen.members[name]) for name in members)


@examples(300)
@given(_COLUMNS)
def test_values_whose_texts_have_one_form_are_seen_as_of_one_type(values: list[Any]):
    """What PlainJsonColumns learns says more: how numbers are written, in which order members come, how they lack."""
    try:
        plain = plain_json_type.common_type(values)
    except plain_json_type.NoTypeError:
        return
    seen = see(values)
    assert not seen.is_mixed
    assert _is_of(plain, seen), (plain, seen)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None], pa.null()),
        ([3, 3.5], pa.float64()),
        ([3, 3.5, 2**63], pa.float64()),  # 2 ** 63 is a double
        ([3, 2**63], pa.decimal128(38, 0)),
        ([2**53 + 1, 2.5], pa.decimal128(38, 1)),
        ([2**53 + 1, 1e300], pa.string()),
        ([10**38], pa.string()),
        ([12345678901234567890], pa.decimal128(38, 0)),
        ([Decimal("1.50"), 7], pa.decimal128(38, 2)),
        ([1.5, True], pa.string()),  # which Arrow takes for 1.0
        ([True, 1], pa.string()),
        (["no", False], pa.string()),
        (["2026-11-28T10:00:00Z", None], pa.string()),
        ([dt.date(2026, 1, 1)], pa.date32()),
        ([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC)], pa.string()),  # of which Arrow takes the day
        (["a", b"b"], pa.string()),  # which Arrow takes for bytes
        ([{"a": 1}, {"b": None}, {"a": "x"}], pa.struct([("a", pa.string()), ("b", pa.null())])),
        ([[{"p": 1}, {"q": "z"}], None], pa.list_(pa.struct([("p", pa.int64()), ("q", pa.string())]))),
        ([[], None], pa.list_(pa.null())),
        ([{}, None], pa.struct([])),
        ([[1], {"a": 1}], pa.string()),
    ],
)
def test_the_type_of_values(values: list[Any], kind: pa.DataType):
    column = seen_column(values)
    assert column.type == kind
    assert column.is_null().to_pylist() == [value is None for value in values], "null stays null, and [] is none"


def test_structs_of_connect_are_seen_as_mappings():
    schema = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).build()
    assert seen_column([Struct(schema).put("id", 1), {"id": 2.5}]).to_pylist() == [{"id": 1.0}, {"id": 2.5}]
    assert seen_table([{"a": 1}, {"b": [True]}]).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": [True]}]
    assert len(seen_table([{}, {}])) == 2


def test_what_no_column_holds_is_an_error_that_says_what_it_is():
    with pytest.raises(DataError, match="of type object has no column"):
        seen_column([object()])
    with pytest.raises(DataError, match="the name 1, and only texts"):
        seen_column([{1: 2}])
    with pytest.raises(DataError, match="surrogates not allowed"):
        seen_column(["\ud800"])


def test_types_of_columns_join():
    whole, text = pa.int64(), pa.string()
    assert joined(pa.int32(), whole) == whole
    assert joined(pa.int16(), pa.float32()) == joined(whole, pa.float64()) == pa.float64()
    assert joined(whole, pa.decimal128(12, 2)) == pa.decimal128(38, 2)
    assert joined(pa.float64(), pa.decimal128(12, 2)) == text, "neither holds the other"
    assert joined(pa.bool_(), whole) == joined(text, pa.list_(whole)) == joined(pa.date32(), text) == text
    assert joined(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")) == pa.timestamp("us", "UTC")
    assert joined(pa.large_string(), text) == text
    assert joined(pa.dictionary(pa.int32(), text), text) == text
    assert joined(pa.map_(text, whole), pa.map_(text, pa.float64())) == pa.map_(text, pa.float64())
    one, other = pa.schema([("a", whole), ("b", pa.null())]), pa.schema([("b", text), ("c", pa.struct([]))])
    assert joined_schemas([one, other]) == pa.schema([("a", whole), ("b", text), ("c", pa.struct([]))])
    assert is_untyped(pa.list_(pa.struct([("a", pa.null())])))
    assert not is_untyped(pa.list_(whole))
