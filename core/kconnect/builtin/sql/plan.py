"""A query made ready for rows of certain schemas: what is taken over as it is, and what DuckDB evaluates.

`single_row` takes one record at a time: its fields are parameters of a statement, in place of an Arrow table of one
row.

Measured, CPU time a record on a busy machine: a predicate of two conditions 1.8 ms as a table of one row (to register,
bind and fetch it), 0.5 ms so; a query with upper() and a condition 3.9 and 1.2 ms, most of it for planning what upper()
is in Spark. It is used where every field is of a plain type, so that its values mean the same to DuckDB as those of a
column do; whatever it refuses is evaluated as a table of one row, which gives the error.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from kconnect.api import DataError, Schema, SchemaBuilder, Timestamp, Type
from kconnect.api.columns import arrow_type, values_of
from kconnect.builtin.sql.engine import TABLE, Engine
from kconnect.builtin.sql.generators import Generator, generated
from kconnect.builtin.sql.rows import RecordRows, Rows
from kconnect.builtin.sql.spark_casts import NULL_TYPE, Term, shown, spark_type
from kconnect.builtin.sql.spark_expressions import Path, Translation, path_of
from kconnect.builtin.sql.spark_query import AllFields, Output, SparkQuery
from kconnect.builtin.transforms.record_part import SchemaMemory, struct_like
from kconnect.builtin.types.foreign_schemas import schema_of_arrow

P = TypeVar("P")
_ROW: Final = "row_number_"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the result: taken from `path`, or made by DuckDB."""

    name: str
    schema: Schema | None  # None for a field that a schemaless value lacks, and what is made of such alone
    path: Path | None = None
    is_of_all: bool = False
    """Whether it is one of the fields of `*`, which a record without schema may lack."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What a query gives for rows: which of them (None for all, several times where rows were made of one), and
    DuckDB's columns, by the field's name.
    """

    kept: pa.Array | None
    made: dict[str, pa.Array]


class Plans(Generic[P]):
    """Plans by the schemas of the columns that they read. As many are kept as transformations keep schemas."""

    SIZE: Final = 16

    def __init__(self, make: Callable[[Rows], P], paths: Sequence[Path], stars: Sequence[Path] = ()) -> None:
        """`stars`: the structs of which all fields are read, `()` for the value."""
        self._make = make
        self._paths = paths
        self._stars = stars
        self._plans: dict[Hashable, P] = {}

    def of(self, rows: Rows) -> P:
        """The plan for these rows. Errors: DataError for a field that there is none of, or of a wrong type."""
        key: Hashable = tuple(rows.schema(path) for path in self._paths)
        for star in self._stars:
            key = (key, tuple((name, rows.schema((*star, name))) for name in rows.names(star)))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make(rows)
            if len(self._plans) >= self.SIZE:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        return plan


class SelectPlan:
    """The plan of a whole query."""

    def __init__(self, query: SparkQuery, engine: Engine, rows: Rows) -> None:
        self._table = _Table(engine, paths_in(evaluated_in(query)), rows)
        self._expands = query.makes_several
        self._parts_rows = self._expands or query.condition is not None
        self.fields: list[Field] = []
        selected = [_ROW] if self._parts_rows else []
        for output in query.outputs:
            is_of_all = isinstance(output, AllFields)
            for name, path, sql in self._outputs(output, rows):
                schema = rows.schema(path) if path else self._table.schema_of(sql, name)
                self.fields.append(Field(name, schema, path, is_of_all))
                if not path and self.fields[-1].schema is not None:
                    selected.append(f"{sql} AS r{len(self.fields) - 1}")
        _require_different_names(self.fields)
        self._schemas = SchemaMemory(self._result_schema)
        needs_schema = any(field.path is None and _has_logical(field.schema) for field in self.fields)
        self.seen_schema = self._seen_schema() if rows.are_seen and needs_schema else None
        """The schema of a result that needs one though the value has none: a decimal, date or time is made."""
        where = ""
        if query.condition is not None:
            where = f" WHERE {self._table.condition(query.condition)}"
        self._sql = f"SELECT {', '.join(selected)} FROM {TABLE}{where}" if selected else ""
        self._made = [field for field in self.fields if field.path is None and field.schema is not None]
        alone = [column for column in selected if column != _ROW] or ["1"]
        results = [field.schema for field in self._made if field.schema is not None]
        self._single = None if self._expands else self._table.single_row(", ".join(alone), where, results)

    def _outputs(self, output: Output | AllFields | Generator, rows: Rows) -> Iterator[tuple[str, Path | None, str]]:
        """Name, and path or expression, of each field that it stands for."""
        if isinstance(output, AllFields):
            for name in rows.names(output.path):
                if name.lower() not in output.left_out:
                    yield name, (*output.path, name), ""
        elif isinstance(output, Generator):
            for name, sql in generated(output, self._table.term(output.argument)):
                yield name, None, sql
        elif path := path_of(output.expression):
            yield output.name, path, ""
        else:
            yield output.name, None, self._table.translated(output.expression)

    def schema(self, before: Schema) -> Schema:
        """The schema of the result, the very same object for equal schemas of the value before."""
        return self._schemas.changed(before)

    def select(self, rows: Rows) -> Selected:
        """Errors: DataError, of no known row, when one of the rows cannot be evaluated."""
        if not self._sql:
            return Selected(None, {})
        found = self._table.evaluate(self._sql, rows, with_numbers=self._parts_rows)
        kept = found[_ROW].combine_chunks() if self._parts_rows else None
        made = {
            field.name: from_duckdb(found[f"r{index}"], field.schema)
            for index, field in enumerate(self.fields)
            if field.path is None and field.schema is not None
        }
        if kept is not None and len(kept) == rows.length and not self._expands:
            kept = None
        return Selected(kept, made)

    def select_several(self, rows: RecordRows) -> list[dict[str, Any]]:
        """Works as `select_one`, of a query that may give several rows for one."""
        selected = self.select(rows)
        count = 1 if selected.kept is None else len(selected.kept)
        columns = {
            field.name: values_of(field.schema, selected.made[field.name], count)
            for field in self._made
            if field.schema is not None
        }
        return [{name: column[row] for name, column in columns.items()} for row in range(count)]

    def select_one(self, rows: RecordRows) -> dict[str, Any] | None:
        """The values that DuckDB makes for one record, by the field's name; None when it is left out.

        The same as `select` gives for a batch of it, and faster. Errors: as `select`.
        """
        if not self._sql:
            return {}
        if self._single is not None:
            try:
                found = self._single.of(rows)
            except UnfitError:
                pass  # as a table, which also says what is wrong
            else:
                if found is None:
                    return None
                return {field.name: value for field, value in zip(self._made, found, strict=False)}
        selected = self.select(rows)
        if selected.kept is not None:
            return None
        return {field.name: values_of(field.schema, selected.made[field.name], 1)[0] for field in self._made}

    def _result_schema(self, before: Schema) -> Schema:
        builder = struct_like(before) if before.type is Type.STRUCT else SchemaBuilder.struct()
        for field in self.fields:
            if field.schema is None:
                raise DataError(f"{field.name} has no schema: the record has none of it")
            builder.field(field.name, field.schema)
        return builder.build()

    def _seen_schema(self) -> Schema:
        """Without the fields that the value lacks, or has as null: a null tells no type."""
        builder = SchemaBuilder.struct()
        for field in self.fields:
            if field.schema is not None:
                builder.field(field.name, field.schema)
        return builder.build()


class ConditionPlan:
    """The plan of a condition alone."""

    def __init__(self, condition: exp.Expression, engine: Engine, rows: Rows) -> None:
        self._table = _Table(engine, paths_in([condition]), rows)
        holds = f"coalesce({self._table.condition(condition)}, false) AS r"
        self._sql = f"SELECT {holds} FROM {TABLE}"
        self._single = self._table.single_row(holds, "", [])

    def holds(self, rows: Rows) -> pa.BooleanArray:
        """Whether it is true, for each row: neither false nor unknown. Errors: as `SelectPlan.select`."""
        return self._table.evaluate(self._sql, rows, with_numbers=False)["r"].combine_chunks()

    def holds_for(self, rows: RecordRows) -> bool:
        """The same for one record, faster."""
        if self._single is not None:
            try:
                found = self._single.of(rows)
            except UnfitError:
                pass  # as a table, which also says what is wrong
            else:
                return found is not None and bool(found[0])
        return bool(self.holds(rows)[0].as_py())


class _Table:
    """The columns that DuckDB gets, and the translation over them."""

    def __init__(self, engine: Engine, paths: Sequence[Path], rows: Rows) -> None:
        self._engine = engine
        self.are_seen = rows.are_seen
        self._schemas = {path: rows.schema(path) for path in paths}
        self._names = {path: f"c{index}" for index, path in enumerate(paths)}
        self._types: dict[str, str] = {}
        self._translation = Translation(self)
        engine.use(self._arrow(rows, with_numbers=True))

    def translated(self, expression: exp.Expression) -> str:
        """Errors: DataError, also for types that the expression is not made for."""
        term = self.term(expression)
        _ = term.type
        return term.sql

    def term(self, expression: exp.Expression) -> Term:
        return self._translation.term(expression)

    def condition(self, expression: exp.Expression) -> str:
        term = self.term(expression)
        if term.type not in ("BOOLEAN", NULL_TYPE):
            raise DataError(f"A condition is true or false; {shown(expression)} is {spark_type(term.type)}")
        return term.sql

    def schema_of(self, sql: str, name: str) -> Schema | None:
        """The schema of an expression's result in DuckDB; None if the value lacks its fields, which makes it null."""
        found = self._engine.evaluate(f"SELECT {sql} AS r FROM {TABLE} LIMIT 0").schema.field("r").type
        if self.are_seen and pa.types.is_null(found):
            return None
        if pa.types.is_null(found):
            raise DataError(f"{name} is null, which has no type: cast it")
        return schema_of_arrow(found, name)

    def evaluate(self, sql: str, rows: Rows, *, with_numbers: bool) -> pa.Table:
        self._engine.use(self._arrow(rows, with_numbers=with_numbers))
        return self._engine.evaluate(sql)

    def single_row(self, select: str, where: str, results: Sequence[Schema]) -> SingleRow | None:
        fields = {path: (self._names[path], schema) for path, schema in self._schemas.items()}
        return single_row(self._engine, fields, select, where, results)

    def sql(self, path: Path) -> str:
        return "NULL" if self._schemas[path] is None else self._names[path]

    def type_of(self, sql: str) -> str:
        """Each text is asked for once: a column is in most expressions."""
        if (kind := self._types.get(sql)) is None:
            kind = self._types[sql] = self._engine.type_of(sql)
        return kind

    def _arrow(self, rows: Rows, *, with_numbers: bool) -> pa.Table:
        columns = {
            self._names[path]: for_duckdb(rows.column(path, schema))
            for path, schema in self._schemas.items()
            if schema is not None
        }
        if with_numbers or not columns:
            columns[_ROW] = pa.arange(0, rows.length)
        return pa.table(columns)


def paths_in(expressions: Iterable[exp.Expression]) -> list[Path]:
    """Every field that they name, once each."""
    found: dict[Path, None] = {}

    def look(node: exp.Expression) -> None:
        path = path_of(node)
        if path is not None:
            found[path] = None
            return
        for child in node.iter_expressions():
            look(child)

    for expression in expressions:
        look(expression)
    return list(found)


def evaluated_in(query: SparkQuery) -> list[exp.Expression]:
    """What DuckDB evaluates: all that is no field taken over as it is."""
    made = [output.expression for output in query.outputs if isinstance(output, Output)]
    items = [output.argument for output in query.outputs if isinstance(output, Generator)]
    condition = [] if query.condition is None else [query.condition]
    return [expression for expression in made if path_of(expression) is None] + items + condition


def _require_different_names(fields: Sequence[Any]) -> None:
    names = [field.name for field in fields]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"Two fields of the result are named {twice}")


def _has_logical(schema: Schema | None) -> bool:
    """Whether values of the schema, or some in them, are of a logical type."""
    if schema is None:
        return False
    parts: list[Schema | None] = []
    if schema.type in (Type.ARRAY, Type.MAP):
        parts = [schema.value_schema] if schema.type is Type.ARRAY else [schema.key_schema, schema.value_schema]
    elif schema.type is Type.STRUCT:
        parts = [field.schema for field in schema.fields]
    return schema.name is not None or any(_has_logical(part) for part in parts)


def for_duckdb(column: pa.Array) -> pa.Array:
    """The column with times as DuckDB calculates with them: microseconds without a zone, which is UTC."""
    wanted = _naive(column.type)
    return column if wanted == column.type else column.cast(wanted)


def from_duckdb(column: pa.ChunkedArray, schema: Schema) -> pa.Array:
    """The column as one of the schema; parts of a millisecond are cut off."""
    whole = column.combine_chunks()
    if pa.types.is_timestamp(whole.type):
        whole = pc.floor_temporal(whole, unit="millisecond")
    wanted = arrow_type(schema)
    return whole if whole.type == wanted else whole.cast(wanted, safe=False)


def _naive(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if pa.types.is_list(kind):
        return pa.list_(_naive(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_naive(kind.key_type), _naive(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _naive(part.type)) for part in kind])
    return kind


_TYPES: Final[Mapping[Type, tuple[str, type]]] = {
    Type.INT8: ("TINYINT", int),
    Type.INT16: ("SMALLINT", int),
    Type.INT32: ("INTEGER", int),
    Type.INT64: ("BIGINT", int),
    Type.FLOAT32: ("FLOAT", float),
    Type.FLOAT64: ("DOUBLE", float),
    Type.BOOLEAN: ("BOOLEAN", bool),
    Type.STRING: ("VARCHAR", str),
    Type.BYTES: ("BLOB", bytes),
}


class UnfitError(Exception):
    """A record cannot be evaluated so: evaluate it as a table of one row."""


class SingleRow:
    """What a query makes of one record: `SELECT selected FROM (its fields) WHERE condition`."""

    def __init__(self, engine: Engine, fields: Mapping[Path, tuple[str, Schema]], select: str, where: str) -> None:
        """`fields`: the columns' names and schemas, by path. `where` is empty or begins with WHERE."""
        self._engine = engine
        self._readers = [(path, _reader_of(schema)) for path, (_, schema) in fields.items()]
        # As a list of values, into which the optimizer does not look: what it knows to be null it would not evaluate,
        # and so not fail either
        names = ", ".join(name for name, _ in fields.values()) or "none_"
        values = ", ".join(f"CAST(? AS {_kind_of(schema)})" for _, schema in fields.values()) or "1"
        self._query = f"SELECT {select} FROM (VALUES ({values})) AS {TABLE}({names}){where}"

    def of(self, rows: RecordRows) -> tuple[Any, ...] | None:
        """The selected values; None when the condition does not hold. Errors: UnfitError."""
        try:
            values = [read(rows.value(path)) for path, read in self._readers]
            return self._engine.row(self._query, values)
        except (DataError, UnicodeError, OverflowError) as err:
            raise UnfitError from err


def can_be_given(schema: Schema) -> bool:
    """Whether values of this schema can be parameters."""
    return schema.name == Timestamp.LOGICAL_NAME or is_plain(schema)


def is_plain(schema: Schema) -> bool:
    """Whether DuckDB's Python values are Connect's."""
    return schema.name is None and schema.type in _TYPES


def _kind_of(schema: Schema) -> str:
    return "TIMESTAMP" if schema.name == Timestamp.LOGICAL_NAME else _TYPES[schema.type][0]


def _reader_of(schema: Schema) -> Callable[[Any], Any]:
    """Checks a value as a column of it would be checked."""
    if schema.name == Timestamp.LOGICAL_NAME:
        return _instant
    wanted = _TYPES[schema.type][1]

    def read(value: Any) -> Any:
        if value is not None and type(value) is not wanted:
            raise UnfitError
        return value

    return read


def _instant(value: Any) -> Any:
    """Without a zone, which is UTC, and to the millisecond, as a column has it."""
    if value is None:
        return None
    if type(value) is not datetime.datetime or value.tzinfo is not datetime.UTC:
        raise UnfitError
    return value.replace(tzinfo=None, microsecond=value.microsecond // 1000 * 1000)


def single_row(
    engine: Engine,
    fields: Mapping[Path, tuple[str, Schema | None]],
    select: str,
    where: str,
    results: Sequence[Schema],
) -> SingleRow | None:
    """Returns None where a field or a result is of a type that parameters or rows do not have."""
    given = {path: (name, schema) for path, (name, schema) in fields.items() if schema is not None}
    if not all(can_be_given(schema) for _, schema in given.values()) or not all(map(is_plain, results)):
        return None
    return SingleRow(engine, given, select, where)
