"""Columns and plain values made to fit a type: fields by name, numbers exactly, times from text and milliseconds."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from kconnect.api import DataError, Struct
from kconnect.api.plain_values import is_plain, plain
from kconnect.builtin.types.leaf_columns import is_list, is_text, leaf, may_be

if TYPE_CHECKING:
    import pyarrow as pa


class NotFittingError(DataError):
    """A value has no place in the column: where it lies (`path`, `row`), of which type it is, and what it is.

    `place`: the same as `path`, empty for the whole value, which a sentence calls it.

    `value` is empty where no value of its type has a place.
    """

    def __init__(self, path: str, given: Any, kind: Any, value: str = "", row: int = 0, says: str = "") -> None:
        self.place = path
        self.path = path if path[:1] not in ("", "[", " ") else f"it{path}"
        self.given, self.kind, self.value, self.row = given, kind, value, row
        self.says = says or f"is {value or given}, the column {kind}"
        super().__init__(f"{self.path} {self.says}")

    def within(self, outer: str) -> NotFittingError:
        """The same, of what has `outer`, a field's name or an element's place, in it."""
        inner = self.place if self.place[:1] in ("", "[") else f".{self.place}"
        return NotFittingError(f"{outer}{inner}", self.given, self.kind, self.value, self.row, self.says)


@dataclass(frozen=True, slots=True)
class FitRules:
    """How far a value may go to fit.

    `reads`: the type was declared, and so says how to read: texts may be numbers, numbers texts, and a fraction is
    rounded to a shorter float. Without, a value keeps its meaning and every digit. `is_strict`: a field that the type
    lacks is an error, and not left out. `is_seen`: the column is what Arrow found in values, of which a struct has the
    members of all, so that what becomes text or a map must be built of the values themselves. `writes`: a column of
    text takes any value, as JSON text.
    """

    reads: bool = True
    is_strict: bool = False
    is_seen: bool = False
    writes: bool = False


DECLARED = FitRules()
KEPT = FitRules(reads=False)
WIDENED = FitRules(reads=False, writes=True)


def fit(column: pa.Array, kind: pa.DataType, rules: FitRules = DECLARED, path: str = "") -> pa.Array:
    """The column with this type: fields are taken by name, missing ones are null. Errors: NotFittingError."""
    import pyarrow as pa

    old = column.type
    if old == kind:
        return column
    if pa.types.is_dictionary(old):
        return fit(column.dictionary_decode(), kind, rules, path)
    if pa.types.is_null(old) or (rules.writes and pa.types.is_null(kind)):
        return pa.nulls(len(column), kind)
    if rules.writes and pa.types.is_string(kind) and not is_text(old):
        values = column.to_pylist(maps_as_pydicts="strict") if pa.types.is_nested(old) else column.to_pylist()
        return pa.array([None if value is None else as_text(_as_it_came(value)) for value in values], kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(old):
        return _fit_struct(column, kind, rules, path)
    if pa.types.is_list(kind) and is_list(old):
        values = fit(column.flatten(), kind.value_type, rules, f"{path}[]")
        return pa.ListArray.from_arrays(_offsets_of(column), values, type=kind, mask=_mask_of(column))
    if pa.types.is_map(kind) and pa.types.is_map(old):
        entries = pa.concat_arrays([column])  # of a slice, keys and items are those of all rows
        keys = fit(entries.keys, kind.key_type, rules, f"{path} (key)")
        items = fit(entries.items, kind.item_type, rules, f"{path}[]")
        return pa.MapArray.from_arrays(entries.offsets, keys, items, type=kind, mask=_mask_of(entries))
    if not pa.types.is_nested(old):
        made = None if pa.types.is_nested(kind) else leaf(column, kind, reads=rules.reads)
        if made is not None:
            return made
    elif rules.reads and not rules.is_seen and (pa.types.is_nested(kind) or pa.types.is_string(kind)):
        return build(column.to_pylist(maps_as_pydicts="strict"), kind, rules, path)
    raise _misfit(column, kind, rules, path)


def elements_of(column: pa.Array) -> pa.Array:
    """What is in the lists of a column, or the values of its maps, without those of rows that a slice has left out."""
    import pyarrow as pa

    return pa.concat_arrays([column]).items if pa.types.is_map(column.type) else column.flatten()


def with_elements(column: pa.Array, elements: pa.Array) -> pa.Array:
    """The lists or maps of a column with these in place of `elements_of` it."""
    import pyarrow as pa

    if pa.types.is_map(column.type):
        entries = pa.concat_arrays([column])
        return pa.MapArray.from_arrays(entries.offsets, entries.keys, elements, mask=_mask_of(entries))
    return pa.ListArray.from_arrays(_offsets_of(column), elements, mask=_mask_of(column))


def build(values: Sequence[Any], kind: pa.DataType, rules: FitRules = DECLARED, path: str = "") -> pa.Array:
    """Values of JSON or Python, structs among them, as a column of this type. Errors: NotFittingError."""
    import pyarrow as pa

    try:
        # 0.31 us a row of three fields; field by field 0.6. Given the type, Arrow would take 0.16, but cut off what is
        # behind a decimal point, and take numbers for microseconds
        return fit(pa.array(values), kind, replace(rules, is_seen=True), path)
    except (NotFittingError, *_REFUSALS):
        pass  # a map, values of several types, or one that does not fit
    if pa.types.is_struct(kind):
        return _build_struct(values, kind, rules, path)
    if pa.types.is_list(kind):
        flat, ends = _flat(values, list | tuple, kind, path)
        inner = build(flat, kind.value_type, rules, f"{path}[]")
        return pa.ListArray.from_arrays(ends, inner, type=kind)
    if pa.types.is_map(kind):
        rows = [list(value.items()) if isinstance(value, Mapping) else value for value in values]
        flat, ends = _flat(rows, list | tuple, kind, path)
        keys = build([key for key, _ in flat], kind.key_type, rules, f"{path} (key)")
        items = build([item for _, item in flat], kind.item_type, rules, f"{path}[]")
        return pa.MapArray.from_arrays(ends, keys, items, type=kind)
    return _build_leaf(values, kind, rules, path)


def misfit(value: Any, kind: Any, says: str = "") -> NotFittingError:
    """The error for a value that is not of a declared type, a ColumnType."""
    wanted = str(kind) if len(str(kind)) <= _MOST_SHOWN else kind.name
    return NotFittingError("", None, wanted, _shown(value), says=f"is {_shown(value)}{f' {says}' if says else ''}")


def data_error(error: NotFittingError) -> DataError:
    """The error of a record."""
    what = f"Field {error.place} does not fit its column" if error.place else "The value does not fit: it shall be"
    return DataError(f"{what} of type {error.kind}: it {error.says}")


def as_mapping(value: Any) -> Any:
    """A value with mappings in place of structs, all the way down."""
    if isinstance(value, Struct):
        return {field.name: as_mapping(value.get(field)) for field in value.schema.fields}
    if isinstance(value, list | tuple):
        return [as_mapping(item) for item in value]
    if isinstance(value, dict):
        return {key: as_mapping(item) for key, item in value.items()}
    return value


def as_text(value: Any) -> str:
    """Numbers as JSON writes them, lists and mappings as JSON, times and bytes as their text."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):  # 0.1 us, by all the rest 4
        return repr(value)
    if (kind := type(value)) is dict or kind is list:
        return json_text(value)
    found = _plain_data(value)
    return found if isinstance(found, str) else _dumped(found)


def _as_it_came(value: Any) -> Any:
    """A value of an inferred column, whose decimals have one scale for all: 3 and 0.5 for 3.0 and 0.5."""
    if isinstance(value, dict):
        return {name: _as_it_came(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_it_came(item) for item in value]
    if not isinstance(value, Decimal):
        return value
    whole, double = int(value), float(value)
    return whole if whole == value else double if Decimal(repr(double)) == value else value


def json_text(value: Any) -> str:
    """A value as JSON, a text with quotes. Errors: DataError for one that is nested too deeply.

    Measured, an object of three members: 1.0 us, and 11 by Python's own writer.
    """
    try:
        raw = orjson.dumps(value, option=_PLAIN_ALONE)
    except (orjson.JSONEncodeError, RecursionError):  # beyond 64 bits, lone surrogates, deep nests, no data of JSON
        return _dumped(_plain_data(value))
    # NaN is null to orjson, and it writes exponents in its own way, of other numbers
    digits = raw.translate(_ALL_DIGITS_ZERO)
    may_differ = b"null" in raw or b"0.0000" in raw or b"0e" in digits or _SEVENTEEN in digits
    if may_differ and not is_plain(value):
        return _dumped(_plain_data(value))
    return raw.decode()


_PLAIN_ALONE = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
_ALL_DIGITS_ZERO = bytes.maketrans(b"123456789", b"000000000")  # by pattern: 2.8 us of 100 bytes, not 0.3
_SEVENTEEN = b"0" * 17 + b"."


def _plain_data(value: Any) -> Any:
    try:
        return plain(value, is_data=True)
    except RecursionError:
        raise DataError("A value is nested too deeply to be written as JSON") from None  # a trace of a thousand lines


_dumped = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_REFUSALS = (ValueError, TypeError, OverflowError, NotImplementedError)  # ArrowException's classes are among these


def _fit_struct(column: pa.StructArray, kind: pa.StructType, rules: FitRules, path: str) -> pa.StructArray:
    import pyarrow as pa

    names = [field.name for field in column.type]
    wanted = [field.name for field in kind]
    if rules.is_strict and (more := [name for name in names if name not in wanted]):
        message = "is a field that the first records did not have"
        raise NotFittingError(_below(path, more[0]), column.type, kind, says=message)
    parts = dict(zip(names, column.flatten(), strict=True))
    children = [
        fit(parts[field.name], field.type, rules, _below(path, field.name))
        if field.name in parts
        else pa.nulls(len(column), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def _build_struct(values: Sequence[Any], kind: pa.StructType, rules: FitRules, path: str) -> pa.StructArray:
    import pyarrow as pa

    rows = [as_mapping(value) if isinstance(value, Struct) else value for value in values]
    for row, value in enumerate(rows):
        if value is not None and type(value) is not dict and not isinstance(value, Mapping):
            raise NotFittingError(path, None, kind, _shown(value), row, f"is {_shown(value)} and has no fields")
    children = [
        build(
            [None if row is None else row.get(field.name) for row in rows], field.type, rules, _below(path, field.name)
        )
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array([row is None for row in rows]))


def _flat(values: Sequence[Any], wanted: Any, kind: pa.DataType, path: str) -> tuple[list[Any], pa.Array]:
    """The elements of all, and Arrow's offsets of each, null for what is null. Errors: NotFittingError."""
    import pyarrow as pa

    flat: list[Any] = []
    starts: list[int | None] = []
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, wanted):
            raise NotFittingError(path, None, kind, _shown(value), row)
        starts.append(None if value is None else len(flat))
        flat.extend(value or ())
    return flat, pa.array([*starts, len(flat)], pa.int32())


def _build_leaf(values: Sequence[Any], kind: pa.DataType, rules: FitRules, path: str) -> pa.Array:
    """By the type that the values have by themselves; one after the other where they have several."""
    import pyarrow as pa

    if pa.types.is_string(kind) and rules.reads:
        return pa.array(
            [value if value is None or isinstance(value, str) else as_text(value) for value in values], kind
        )
    if len({type(value) for value in values} - {type(None)}) > 1:
        return pa.concat_arrays([_one(value, kind, rules, path, row) for row, value in enumerate(values)])
    try:
        natural = pa.array([_in_utc(value) for value in values])
    except _REFUSALS:
        natural = None
    if natural is None or pa.types.is_nested(natural.type):
        row, value = next((row, value) for row, value in enumerate(values) if value is not None)
        raise NotFittingError(path, None, kind, _shown(value), row)
    return fit(natural, kind, rules, path)


def _one(value: Any, kind: pa.DataType, rules: FitRules, path: str, row: int) -> pa.Array:
    try:
        return build([value], kind, rules, path)
    except NotFittingError as error:
        raise NotFittingError(path, error.given, kind, _shown(value), row) from error


def _in_utc(value: Any) -> Any:
    """A time without a zone is one of UTC, as all of Connect's."""
    is_naive = isinstance(value, datetime.datetime) and value.tzinfo is None
    return value.replace(tzinfo=datetime.UTC) if is_naive else value


def _misfit(column: pa.Array, kind: pa.DataType, rules: FitRules, path: str) -> NotFittingError:
    """The error for a column that does not fit, with the first value that is why."""
    import pyarrow as pa

    is_leaf = not (pa.types.is_nested(column.type) or pa.types.is_nested(kind))
    if is_leaf and may_be(column.type, kind, reads=rules.reads):
        for row in range(len(column)):
            one = column.slice(row, 1)
            if leaf(one, kind, reads=rules.reads) is None:
                return NotFittingError(path, column.type, kind, _shown(one[0].as_py()), row)
    return NotFittingError(path, column.type, kind)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}.."


_MOST_SHOWN = 60  # characters of a value in a message


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _offsets_of(column: Any) -> pa.Array:
    """Where each list begins in the flattened values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def _mask_of(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
