"""Records as rows of a fixed Arrow schema: the value's fields, and columns about each record."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from typing import Any, Final, Protocol

import pyarrow as pa

from kconnect.api import RecordBatch, SinkRecord, Struct
from kconnect.api.columns import column_of, values_of
from kconnect.builtin.types.contracts import EVOLVES, Contracts, DiscardedRowError
from kconnect.builtin.types.evolution import Evolution, SchemaRules, merged, schema_for
from kconnect.builtin.types.fitting import DECLARED, WIDENED, NotFittingError, as_mapping, build, fit
from kconnect.builtin.types.meaning import meant_column, meant_value, meant_values
from kconnect.builtin.types.seen import is_untyped, joined_schemas, turns_to_text, with_members
from kconnect.builtin.types.seen_columns import NO_FIELD, require_fields, seen_column, seen_table
from kconnect.builtin.types.settling import Settling, settled, with_texts
from kconnect.errors import ConnectError, DataError

ABOUT: Final[dict[str, pa.DataType]] = {
    "_key": pa.string(),
    "_topic": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", tz="UTC"),
    "_deleted": pa.bool_(),
}
"""Columns about a record. `_key`: as text, JSON for more than one value; `_deleted`: it has no value."""
VALUE: Final = "value"
"""The one column of values that have no fields."""

Report = Callable[[SinkRecord, Exception], None]


class Discard(Protocol):
    """Hears of a record that a contract leaves out, or of `count` values of a column of it."""

    def __call__(self, record: SinkRecord, error: DataError, column: str = "", count: int = 0) -> None: ...


class SchemaGrownError(ConnectError):
    """Records have fields that the schema, which was found in earlier ones, has not, or not so wide.

    `fields` is part of the text.
    """

    MARK: Final = "Fields that the schema does not have yet: "

    def __init__(self, fields: pa.Schema, where: str) -> None:
        encoded = fields.serialize().to_pybytes().hex()
        super().__init__(f"{self.MARK}{', '.join(fields.names)} ({where}) [{encoded}]")

    @classmethod
    def fields_in(cls, text: str) -> pa.Schema | None:
        """The fields in a trace that has such an error; None for another trace."""
        _, found, rest = text.partition(cls.MARK)
        if not found:
            return None
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(rest.partition("[")[2].partition("]")[0])))


class RowsOfBatch:
    """Makes rows of converted records. Threads: one."""

    def __init__(
        self,
        schema: pa.Schema,
        about: Sequence[str],
        *,
        is_inferred: bool,
        keeps_tombstones: bool,
        merge_keys: Sequence[str] = (),
        contracts: Contracts = EVOLVES,
        discard: Discard = lambda record, error, column="", count=0: None,
        infers: bool = True,
        widens: bool = False,
        where: str = "",
    ) -> None:
        """`schema`: the value's fields, then the columns in `about`. `merge_keys`: those that tombstones need.

        `contracts`, of an inferred schema: what becomes of other fields and types; `discard` hears of what is left out.
        `infers`: values without schema are rows as well. `widens`: columns of later rows may be wider than those of
        earlier ones, of the table that errors call `where`.
        """
        self._schema = schema
        self._about = tuple(about)
        self._fields = [field for field in schema if field.name not in self._about]
        self._known: dict[str, pa.DataType] = {field.name: field.type for field in self._fields}
        self._struct = pa.struct(self._fields)
        self._table = pa.schema(self._fields)
        self._is_inferred = is_inferred
        # A declared type says how to read; of what was seen nothing is read as something else
        self._rules = WIDENED if is_inferred else DECLARED
        self._contracts, self._discard = contracts, discard
        self._evolution = SchemaRules(
            where,
            Evolution.WIDEN,
            lambda kind: kind,
            # Whether a file that is there has a number that no double is, nobody knows
            lambda column, old, new: widens and not (pa.types.is_int64(old) and pa.types.is_floating(new)),
            contracts,
        )
        self._refuses_plain = is_inferred and not infers
        self._keeps_tombstones = keeps_tombstones
        self._keys = [field for field in self._fields if field.name in merge_keys]

    def of(self, payload: RecordBatch | list[SinkRecord], report: Report) -> pa.RecordBatch:
        """The rows; records that do not fit go to `report`. Errors: SchemaGrownError, and what `report` raises."""
        if isinstance(payload, RecordBatch):
            made = self._of_columns(payload)
            if made is not None:
                return made
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        return self._of_records(list(payload), report)  # type: ignore[arg-type]  # as above

    def _of_columns(self, batch: RecordBatch) -> pa.RecordBatch | None:
        """Returns None where single records must be looked at: something does not fit, or there are values without
        fields.
        """
        try:
            value = meant_column(batch.value_schema, batch.value)
        except DataError:
            return None
        if value is None or not pa.types.is_struct(value.type) or (self._refuses_plain and batch.value_schema is None):
            return None
        if self._is_inferred:
            if self._refusal({field.name for field in value.type}) or turns_to_text(value.type, self._struct):
                return None
            more = with_members(self._struct, value.type)
            if more != self._struct and (not self._contracts.is_open or refused_members(more)):
                return None
            self._check_grown(pa.schema(list(more)), f"topic {batch.topic}")
        if value.null_count:
            return None
        present = {field.name: value.field(index) for index, field in enumerate(value.type)}
        try:
            if self._is_inferred and batch.value_schema is None:
                require_fields(list(present.values()), lambda: values_of(None, batch.value, len(batch)))
            columns = [
                fit(present[field.name], field.type, self._rules, field.name)
                if field.name in present
                else pa.nulls(len(batch), field.type)
                for field in self._fields
            ]
        except DataError:  # NotFittingError is one
            return None
        return pa.RecordBatch.from_arrays([*columns, *self._about_columns(batch)], schema=self._schema)

    def _of_records(self, records: list[SinkRecord], report: Report) -> pa.RecordBatch:
        kept: list[SinkRecord] = []
        rows: list[dict[str, Any]] = []
        for record in records:
            try:
                value = meant_value(record.value_schema, record.value)
            except DataError as error:
                report(record, error)
                continue
            row = as_mapping(value) if isinstance(value, Struct) else value
            if row is None and not self._keeps_tombstones:
                continue
            if self._refuses_plain and row is not None and record.value_schema is None:
                report(record, DataError("Its value has no schema, and schema.infer is false"))
                continue
            if row is None and self._keys:
                try:
                    row = key_row(record.key, self._keys)
                except DataError as error:
                    report(record, error)
                    continue
            if self._is_inferred and record.value_schema is None and record.value == {}:
                report(record, DataError(NO_FIELD))
                continue
            if self._is_inferred and isinstance(row, dict) and (refusal := self._refusal(row.keys())):
                report(record, DataError(refusal, hint="ReplaceField renames fields."))
                continue
            kept.append(record)
            rows.append(row if isinstance(row, dict) else {VALUE: row} if row is not None else {})
        column = self._column(rows)
        if column is None and self._is_inferred:
            kept, rows = self._settled(kept, rows, report)
            column = self._column(rows)
            assert column is not None
        elif column is None:
            kept, rows = self._fitting(kept, rows, report)
            column = build(rows, self._struct)
        columns = [column.field(index) for index in range(len(self._fields))]
        about = [pa.array([_about(name, record) for record in kept], ABOUT[name]) for name in self._about]
        return pa.RecordBatch.from_arrays([*columns, *about], schema=self._schema)

    def _refusal(self, names: Set[str]) -> str:
        """Works as `refused_names`, which costs only records with new names."""
        return "" if names <= self._known.keys() else refused_names(names, self._known)

    def _column(self, rows: list[dict[str, Any]]) -> pa.Array | None:
        """The rows as one column; None where each must be looked at alone."""
        try:
            if not self._is_inferred:
                return build(rows, self._struct)
            seen = seen_column(rows)
            if with_members(self._struct, seen.type) != self._struct:
                return None
            if rows and turns_to_text(seen.type, self._struct):
                seen = with_texts(seen, self._struct, rows)
            return fit(seen, self._struct, self._rules)
        except (NotFittingError, DataError):
            return None

    def _settled(
        self, records: list[SinkRecord], rows: list[dict[str, Any]], report: Report
    ) -> tuple[list[SinkRecord], list[dict[str, Any]]]:
        """Each row by the contract, with what its columns cannot hold beside them. Errors: SchemaGrownError."""
        kept: list[SinkRecord] = []
        made: list[dict[str, Any]] = []
        grown, first = self._table, None
        for record, row in zip(records, rows, strict=True):
            discarded: list[tuple[str, int, DataError]] = []
            try:
                found, schema = self._by_contract(record, row, discarded)
            except DiscardedRowError as error:
                self._discard(record, error)
                continue
            except DataError as error:
                report(record, error)
                continue
            for column, count, reported in discarded:
                self._discard(record, reported, column, count)
            if schema is not self._table:
                grown, first = joined_schemas([grown, schema]), first or record
            kept.append(record)
            made += found.to_pylist()
        if first is not None:
            self._check_grown(possible_fields(grown), f"{first.topic}-{first.kafka_partition}@{first.kafka_offset}")
        return kept, made

    def _by_contract(
        self, record: SinkRecord, row: dict[str, Any], discarded: list[tuple[str, int, DataError]]
    ) -> tuple[pa.RecordBatch, pa.Schema]:
        """A row as it may be, and the columns that it needs. Errors: DiscardedRowError, DataError."""
        rules = self._evolution
        found = _typed_row(record) if record.value_schema is not None else seen_table([row])
        if refusal := refused_members(with_members(self._struct, pa.struct(list(found.schema)))):
            raise DataError(refusal, hint="ReplaceField renames fields.")
        try:
            return found, schema_for(self._table, found, rules)
        except DataError:
            how = Settling(
                self._contracts,
                lambda old, column, path: merged(old, column, path, rules),
                moves=record.value_schema is None and self._contracts.fixed is None,
                fixed=[field.name for field in self._keys],
                discarded=lambda *one: discarded.append(one),
            )
            found = settled(found, self._table, how, None if record.value_schema is not None else [row])
            return found, schema_for(self._table, found, rules)

    def _fitting(
        self, records: list[SinkRecord], rows: list[dict[str, Any]], report: Report
    ) -> tuple[list[SinkRecord], list[dict[str, Any]]]:
        good: list[int] = []
        for index, row in enumerate(rows):
            try:
                build([row], self._struct)
            except NotFittingError as error:
                message = f"Field {error.path} does not fit its column of type {error.kind}: it {error.says}"
                report(records[index], DataError(message))
            else:
                good.append(index)
        return [records[index] for index in good], [rows[index] for index in good]

    def _check_grown(self, schema: pa.Schema, where: str) -> None:
        """Errors: SchemaGrownError where the columns are others than ours."""
        if more := [field for field in schema if field.type != self._known.get(field.name)]:
            raise SchemaGrownError(pa.schema(more), where)

    def _about_columns(self, batch: RecordBatch) -> list[pa.Array]:
        return [_about_column(name, batch) for name in self._about]


def key_row(key: Any, columns: Sequence[pa.Field]) -> dict[str, Any]:
    """The columns that name a row, out of a record's key: its fields, or itself where there is one column.

    A text or number is cast to what the column has. Errors: DataError.
    """
    given = as_mapping(key)
    if not isinstance(given, dict):
        if len(columns) > 1:
            raise DataError(f"It has no value, and its key is one value, but merge.keys names {len(columns)} columns")
        given = {columns[0].name: given}
    row: dict[str, Any] = {}
    for column in columns:
        value = given.get(column.name)
        if value is None:
            raise DataError(f"It has no value, and no {column.name} in its key: it names no row to remove")
        try:
            row[column.name] = build([value], column.type)[0].as_py()
        except NotFittingError as error:
            raise DataError(f"Its key does not fit the column {column.name} of type {column.type}: {error}") from error
    return row


def fields_of(rows: Sequence[dict[str, Any]], is_named: Callable[[str], bool] = lambda name: False) -> pa.Schema:
    """The fields of rows, each with a type that all its values fit.

    Without rows that no columns can hold: each is an error of its record, when that is taken. Without fields that are
    only known to be null, which wait for their first value: but those that a query names, by `is_named`, are text, and
    all are where none has a type.
    """
    try:
        found = seen_table(rows).schema
    except DataError:
        found = seen_table([row for row in rows if _has_columns(row)]).schema
    if not any(_is_kept(field, is_named) for field in found):
        return possible_fields(pa.field(field.name, pa.string()) for field in found)
    return possible_fields(pa.field(part.name, storable(part.type, is_named)) for part in _kept(found, is_named))


def possible_fields(fields: Iterable[pa.Field]) -> pa.Schema:
    """The fields that a frame of Spark can have beside each other: of those that it cannot, the first."""
    kept: dict[str, pa.Field] = {}
    for field in fields:
        if field.name not in ABOUT:
            kept.setdefault(field.name.lower(), field)
    return pa.schema([pa.field(field.name, _without_twins(field.type), field.nullable) for field in kept.values()])


def _without_twins(kind: pa.DataType) -> pa.DataType:
    """Without members of structs that Spark takes for those before them."""
    if pa.types.is_struct(kind):
        members: dict[str, pa.Field] = {}
        for part in kind:
            members.setdefault(part.name.lower(), pa.field(part.name, _without_twins(part.type), part.nullable))
        return pa.struct(list(members.values()))
    if pa.types.is_list(kind):
        return pa.list_(_without_twins(kind.value_type))
    return pa.map_(kind.key_type, _without_twins(kind.item_type)) if pa.types.is_map(kind) else kind


def refused_members(kind: pa.DataType, place: str = "") -> str:
    """Why structs in a row cannot have these members; empty if they can. Names of columns: `refused_names`."""
    if pa.types.is_list(kind):
        return refused_members(kind.value_type, f"{place}[]")
    if pa.types.is_map(kind):
        return refused_members(kind.item_type, f"{place}[]")
    seen: dict[str, str] = {}
    for part in kind if pa.types.is_struct(kind) else ():
        below = f"{place}.{part.name}" if place else part.name
        if (twin := seen.setdefault(below.lower(), below)) != below:
            return _twins(below, twin)
        if reported := refused_members(part.type, below):
            return reported
    return ""


def refused_names(names: Iterable[str], columns: Collection[str]) -> str:
    """Why a record with these fields cannot be a row beside these columns; empty if it can.

    Spark does not tell upper and lower case apart.
    """
    seen = {column.lower(): column for column in columns}
    for name in names:
        if name in ABOUT:
            return f"It has a field {name}, which is the name of a column about records"
        if (twin := seen.setdefault(name.lower(), name)) != name:
            return _twins(name, twin)
    return ""


def _twins(name: str, other: str) -> str:
    return f"Its field {name} differs from {other} in case alone, and both are one to Spark"


def _typed_row(record: SinkRecord) -> pa.RecordBatch:
    """A record's value with the types of its schema, not those that its values have by themselves."""
    schema, values = meant_values(record.value_schema, [record.value])
    assert schema is not None
    column = column_of(schema, values)
    if pa.types.is_struct(column.type):
        return pa.RecordBatch.from_struct_array(column)
    return pa.RecordBatch.from_arrays([column], names=[VALUE])


def _has_columns(row: dict[str, Any]) -> bool:
    try:
        seen_table([row])
    except DataError:
        return False
    return True


def storable(kind: pa.DataType, is_named: Callable[[str], bool]) -> pa.DataType:
    """Without members that are only known to be null and that nobody names; text in place of the others."""
    if pa.types.is_struct(kind) and (parts := _kept(kind, is_named)):
        return pa.struct([pa.field(part.name, storable(part.type, is_named)) for part in parts])
    if pa.types.is_list(kind):
        return pa.list_(storable(kind.value_type, is_named))
    return pa.string() if is_untyped(kind) else kind


def _kept(fields: Iterable[pa.Field], is_named: Callable[[str], bool]) -> list[pa.Field]:
    return [field for field in fields if _is_kept(field, is_named)]


def _is_kept(field: pa.Field, is_named: Callable[[str], bool]) -> bool:
    if is_named(field.name) or not is_untyped(field.type):
        return True
    return pa.types.is_struct(field.type) and bool(_kept(field.type, is_named))


def _about(name: str, record: SinkRecord) -> Any:
    match name:
        case "_key":
            return _key_text(record.key)
        case "_topic":
            return record.topic
        case "_partition":
            return record.kafka_partition
        case "_offset":
            return record.kafka_offset
        case "_timestamp":
            return None if record.timestamp is None else record.timestamp * 1000
        case _:
            return record.value is None


def _about_column(name: str, batch: RecordBatch) -> pa.Array:
    length, kind = len(batch), ABOUT[name]
    match name:
        case "_key":
            return pa.array([_key_text(key) for key in values_of(batch.key_schema, batch.key, length)], kind)
        case "_topic":
            return pa.repeat(pa.scalar(batch.topic, kind), length)
        case "_partition":
            return pa.repeat(pa.scalar(batch.kafka_partition, kind), length)
        case "_offset":
            return batch.kafka_offsets
        case "_timestamp":
            times = batch.timestamp
            if times is None or isinstance(times, int):
                return pa.repeat(pa.scalar(None if times is None else times * 1000, kind), length)
            return times.cast(pa.timestamp("ms", tz="UTC")).cast(kind)
        case _:
            return pa.repeat(pa.scalar(False, kind), length)


def _key_text(key: Any) -> str | None:
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, bytes):
        return key.decode("utf-8", "replace")
    return json.dumps(as_mapping(key), default=str, separators=(",", ":"))
