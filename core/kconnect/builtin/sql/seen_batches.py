"""A batch without schema as columns for a query, and what it makes as a column without schema again.

`grouped` does it for single records: those whose values a query sees alike are a group, which one statement
evaluates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import ConnectRecord, RecordBatch, Schema
from kconnect.api.columns import column_of
from kconnect.api.plain_columns import NULL_IS_MISSING, WHOLE_IS_INT
from kconnect.builtin.sql.rows import BatchRows, RecordRows, named
from kconnect.builtin.types.seen_schemas import as_data, schema_of_value

if TYPE_CHECKING:
    from kconnect.builtin.sql.plan import Field, Plans, SelectPlan
    from kconnect.builtin.sql.spark_expressions import Path


class ByListsError(Exception):
    """What the query makes of each record cannot be said in a column."""


@dataclass(frozen=True, slots=True)
class Part:
    """A column of the batch, and what its field says of it."""

    column: pa.Array
    is_whole_int: bool
    may_lack: bool

    def schema(self, code: int) -> Schema | None:
        """Gives the schema of rows whose `codes` say this."""
        if code == _NULL:
            return None
        return Schema.OPTIONAL_INT64_SCHEMA if code == _WHOLE else _SCHEMAS[self.column.type]

    def codes(self) -> pa.Array | None:
        """What each row has there; None where all have a value of one type. Errors: ByListsError for what has parts."""
        if pa.types.is_null(self.column.type):
            return pa.repeat(pa.scalar(_NULL, pa.int64()), len(self.column))
        if self.column.type not in _SCHEMAS:
            raise ByListsError
        if not self.column.null_count and not self.is_whole_int:
            return None
        code = pa.repeat(pa.scalar(_VALUE, pa.int64()), len(self.column))
        if self.is_whole_int:
            code = pc.if_else(pc.equal(pc.floor(self.column), self.column), _WHOLE, code)
        return pc.if_else(self.column.is_valid(), pc.fill_null(code, _NULL), _NULL)


_NULL, _VALUE, _WHOLE = 0, 1, 2
_SCHEMAS: Final[Mapping[pa.DataType, Schema]] = {
    pa.bool_(): Schema.OPTIONAL_BOOLEAN_SCHEMA,
    pa.int64(): Schema.OPTIONAL_INT64_SCHEMA,
    pa.float64(): Schema.OPTIONAL_FLOAT64_SCHEMA,
    pa.string(): Schema.OPTIONAL_STRING_SCHEMA,
}
# Columns of the record that are the same as values
_OF_THE_RECORD: Final = ("_topic", "_offset")
# Each is a statement; with more groups, lists are as fast
_MOST_GROUPS: Final = 16


class SeenBatch:
    """The fields of a batch's values, by path. Errors of all methods: ByListsError."""

    def __init__(self, batch: RecordBatch) -> None:
        self.length = len(batch)
        value = batch.value
        if value is None or value.null_count or not pa.types.is_struct(value.type):
            raise ByListsError
        self._value: pa.StructArray = value
        self._record = BatchRows(batch)

    def names(self) -> list[str]:
        return [field.name for field in self._value.type]

    def part(self, path: Path) -> Part | None:
        """Gives the column of a field; None where no record has it."""
        column, found = self._value, None
        for depth, step in enumerate(path):
            if pa.types.is_null(column.type):
                return None
            if not pa.types.is_struct(column.type):
                raise ByListsError
            names = [field.name for field in column.type]
            if len({name.lower() for name in names}) < len(names):
                raise ByListsError  # which of them is meant, each record says
            name = named(step, names)
            if name is None:
                return self._of_the_record(path) if not depth else None
            place = column.type.get_field_index(name)
            found, column = column.type.field(place), column.flatten()[place]
        assert found is not None
        marks = found.metadata or {}
        return Part(column, marks.items() >= WHOLE_IS_INT.items(), marks.items() >= NULL_IS_MISSING.items())

    def _of_the_record(self, path: Path) -> Part | None:
        if len(path) > 1 or path[0].lower() not in _OF_THE_RECORD:
            if path[0].startswith("_"):
                raise ByListsError
            return None
        schema = self._record.schema(path)
        assert schema is not None
        return Part(self._record.column(path, schema), False, False)


class GroupOfRows:
    """Rows of a batch in which a query sees the same names and types. Implements Rows."""

    are_seen = True

    def __init__(
        self, batch: SeenBatch, parts: Mapping[Path, Part | None], codes: Mapping[Path, int], rows: pa.Array | None
    ) -> None:
        """`codes`: of what is evaluated. `rows`: their numbers; None for all."""
        self._batch, self._parts, self._codes = batch, parts, codes
        self.rows = rows
        self.length = batch.length if rows is None else len(rows)

    def names(self, path: Path = ()) -> Sequence[str]:
        if path:
            raise ByListsError
        return self._batch.names()

    def schema(self, path: Path) -> Schema | None:
        part = self._parts[path] if path in self._parts else self._batch.part(path)
        if part is None:
            return None
        code = self._codes.get(path)
        # What is carried has some schema: it counts in a result with a schema alone
        return Schema.OPTIONAL_STRING_SCHEMA if code is None else part.schema(code)

    def column(self, path: Path, schema: Schema) -> pa.Array:
        part = self._parts[path]
        assert part is not None
        column = part.column if self.rows is None else part.column.take(self.rows)
        return column.cast(pa.int64()) if self._codes[path] == _WHOLE else column


def groups_of(batch: SeenBatch, evaluated: Sequence[Path], carried: Sequence[Path]) -> Iterable[GroupOfRows]:
    """The rows of the batch by what the query sees in them. Errors: ByListsError."""
    parts = {path: batch.part(path) for path in (*evaluated, *carried)}
    known = {path: part.codes() for path in evaluated if (part := parts[path]) is not None}
    code = None
    for column in known.values():
        if column is not None:
            code = column if code is None else pc.add(pc.multiply(code, _WHOLE + 1), column)
    codes = {path: _VALUE for path, column in known.items() if column is None}
    codes |= {path: _NULL for path in evaluated if parts[path] is None}
    if code is None:
        return [GroupOfRows(batch, parts, codes, None)]
    found = pc.unique(code)
    if len(found) > _MOST_GROUPS:
        raise ByListsError
    made = []
    for one in found:
        rows = pc.indices_nonzero(pc.equal(code, one)).cast(pa.int64())
        first = rows[0].as_py()
        own = {path: column[first].as_py() for path, column in known.items() if column is not None}
        made.append(GroupOfRows(batch, parts, codes | own, rows if len(found) > 1 else None))
    return made


def selected_batch(
    batch: RecordBatch, seen: SeenBatch, groups: Iterable[GroupOfRows], plans: Plans[SelectPlan]
) -> RecordBatch | None:
    """The batch with what the query makes of its rows; None when it keeps none.

    Errors: ByListsError; DataError, of no known row.
    """
    kept: list[pa.Array] = []
    made: list[dict[str, pa.Array | None]] = []
    fields: Sequence[Field] = ()
    for rows in groups:
        plan = plans.of(rows)
        if plan.seen_schema is not None:
            raise ByListsError
        selected = plan.select(rows)
        fields = plan.fields
        chosen = pa.arange(0, rows.length) if selected.kept is None else selected.kept
        kept.append((chosen if rows.rows is None else rows.rows.take(chosen)).cast(pa.int64()))
        made.append({field.name: selected.made.get(field.name) for field in fields if field.path is None})
    places = pa.concat_arrays(kept)
    if not len(places):
        return None
    order = pc.array_sort_indices(places)
    places = places.take(order)
    children, parts = [], []
    for field in fields:
        if field.path is not None:
            column, marks = _carried(seen, field)
            children.append(column.take(places))
        else:
            column, marks = _joined([found[field.name] for found in made], list(map(len, kept)))
            children.append(column.take(order))
        parts.append(pa.field(field.name, column.type, metadata=marks))
    value = pa.StructArray.from_arrays(children, fields=parts)
    return batch.with_(value=None).take(places).with_(value=value)


def _carried(seen: SeenBatch, field: Field) -> tuple[pa.Array, dict[bytes, bytes]]:
    """A column that is taken over, and what its field says of it: named alone, it is null where it is missing."""
    assert field.path is not None
    part = seen.part(field.path)
    if part is None:
        return pa.nulls(seen.length), {}
    marks = NULL_IS_MISSING if part.may_lack and field.is_of_all else {}
    return part.column, {**marks, **(WHOLE_IS_INT if part.is_whole_int else {})}


def _joined(parts: Sequence[pa.Array | None], lengths: Sequence[int]) -> tuple[pa.Array, dict[bytes, bytes]]:
    """Columns of the groups as one, each value as it is in its own. Errors: ByListsError."""
    plain = [
        None if part is None else part.cast(pa.int64()) if pa.types.is_integer(part.type) else part for part in parts
    ]
    kinds = {part.type for part, length in zip(plain, lengths, strict=True) if part is not None and length}
    marks: dict[bytes, bytes] = {}
    kind = kinds.pop() if kinds else pa.null()
    if kinds:
        if {kind, *kinds} != {pa.int64(), pa.float64()}:
            raise ByListsError
        kind, marks = pa.float64(), WHOLE_IS_INT
        floats = [part for part in plain if part is not None and part.type == pa.float64()]
        if any(pc.any(pc.equal(pc.floor(part), part)).as_py() for part in floats):
            raise ByListsError  # 2.0 beside 2
    try:
        columns = [
            pa.nulls(length, kind) if part is None or not length else part.cast(kind)
            for part, length in zip(plain, lengths, strict=True)
        ]
    except pa.ArrowInvalid as error:  # a whole number that no double is
        raise ByListsError from error
    return pa.concat_arrays(columns), marks


class GroupRows:
    """Records without schema in which a query sees the same names and types. Implements Rows."""

    are_seen = True

    def __init__(self, records: Sequence[ConnectRecord]) -> None:
        self._rows = [RecordRows(record) for record in records]
        self._records = records
        self.length = len(records)

    def names(self, path: Path = ()) -> Sequence[str]:
        return self._rows[0].names(path)

    def schema(self, path: Path) -> Schema | None:
        return self._rows[0].schema(path)

    def column(self, path: Path, schema: Schema) -> pa.Array:
        values = self.values(path)
        return column_of(schema, values if schema in _PLAIN else [as_data(schema, value) for value in values])

    def values(self, path: Path) -> list[Any]:
        """The field's values as they are in the records."""
        if len(path) == 1 and path[0] in self._rows[0].names():
            name = path[0]
            return [record.value[name] for record in self._records]
        return [rows.value(path) for rows in self._rows]


_PLAIN: Final = (Schema.OPTIONAL_BOOLEAN_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA, Schema.OPTIONAL_FLOAT64_SCHEMA)


class Sight:
    """What a query sees of a record: equal where one plan, with columns of the same types, is that of each alone."""

    def __init__(self, evaluated: Sequence[Path], carried: Sequence[Path], stars: Sequence[Path]) -> None:
        """`carried`: paths that are taken over as they are, as all below `stars` are."""
        self._evaluated, self._carried, self._stars = evaluated, carried, stars

    def of(self, record: ConnectRecord, *, exactly: bool) -> Hashable:
        """`exactly`: with the shapes of what is carried, by which a result with a schema is made.

        Errors: as of Rows.
        """
        rows = RecordRows(record)
        seen: list[Hashable] = [record.value_schema]
        seen += [_seen(rows, record.value, path, exactly=True) for path in self._evaluated]
        seen += [_seen(rows, record.value, path, exactly=exactly) for path in self._carried]
        for star in self._stars:
            names = rows.names(star)
            seen.append(tuple(names))
            if exactly:
                seen.append(tuple([_shape(rows.value((*star, name))) for name in names]))
        return tuple(seen)


def _seen(rows: RecordRows, value: Any, path: Path, *, exactly: bool) -> Hashable:
    for step in path:
        if type(value) is not dict or step not in value:
            return rows.schema(path)
        value = value[step]
    return _shape(value) if exactly else (type(value),)


def _shape(value: Any) -> Hashable:
    """Equal only for values of the same schema. Measured, a mapping of four members: 1.5 us, its schema 60."""
    kind = type(value)
    if kind in _TELLING or (kind is int and _LEAST <= value < -_LEAST):
        return (kind,)
    if kind is dict:
        return tuple(value), tuple([_shape(item) for item in value.values()])
    if kind is list:
        items = {_shape(item) for item in value}
        if len(items) < 2:
            return kind, *items
    return schema_of_value(value)


_LEAST: Final = -(1 << 63)
# Types that tell the schema by themselves
_TELLING: Final = frozenset({bool, float, str, type(None)})


def grouped(
    records: Sequence[ConnectRecord], places: Sequence[int], sight: Sight, *, exactly: bool = False
) -> Iterable[list[int]]:
    """The places of records that a query sees alike. Errors: as of Rows."""
    groups: dict[Hashable, list[int]] = {}
    for place in places:
        groups.setdefault(sight.of(records[place], exactly=exactly), []).append(place)
    return groups.values()
