"""SqlTransform: a query in Spark's dialect makes the fields of each value, and says which records are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.api import ConfigDef, ConfigError, ConnectRecord, DataError, RecordBatch, Schema, Struct, Transformation
from kconnect.api.columns import values_of
from kconnect.builtin.sql.rows import BatchRows, RecordRows, Rows, have_schemas, named
from kconnect.builtin.sql.seen_batches import GroupRows, Sight, grouped
from kconnect.builtin.transforms.with_schema import WithSchema
from kconnect.builtin.types.declarations import declarations, with_value_schema
from kconnect.builtin.types.seen_schemas import as_data
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.builtin.sql.plan import Plans, Selected, SelectPlan

R = TypeVar("R", bound=ConnectRecord)

QUERY_CONFIG = "query"


def _check(_: str, value: Any) -> None:
    from kconnect.builtin.sql.spark_query import parse_query  # here: a list of plugins loads this module

    try:
        parse_query(value)
    except ConfigError as err:
        raise ConfigError.invalid(QUERY_CONFIG, value, str(err)) from err


CONFIG = with_value_schema(ConfigDef()).define(
    QUERY_CONFIG,
    ConfigDef.Type.STRING,
    ConfigDef.NO_DEFAULT,
    ConfigDef.LambdaValidator.with_(_check, "SELECT .. FROM records WHERE .. in Spark's dialect"),
    ConfigDef.Importance.HIGH,
    "SELECT .. FROM records WHERE .. in Spark's dialect: the fields of the value, and which records are kept. "
    "Beside the fields of the value there are _key, _value, _topic, _partition, _offset, _timestamp and _headers.",
)


class SqlTransform(Transformation):
    """Records without value pass as they are. Nothing like it is in Java.

    A field that is named alone keeps its schema; one that is calculated is optional. The struct keeps name, version,
    doc and parameters. A query of nothing but `after.*` makes a tombstone of a record whose `after` is null, as
    ExtractField does: a row of nulls would stand for what was deleted.
    """

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        from kconnect.builtin.sql.engine import Engine
        from kconnect.builtin.sql.generators import Generator
        from kconnect.builtin.sql.plan import Plans, SelectPlan, evaluated_in, paths_in
        from kconnect.builtin.sql.spark_query import AllFields, Output, parse_query

        query = parse_query(CONFIG.parse(configs)[QUERY_CONFIG])
        self._declares = _declared_step(configs)
        self._engine = Engine()
        self.makes_several = query.makes_several
        stars = [output.path for output in query.outputs if isinstance(output, AllFields)]
        self._structs = stars if len(stars) == len(query.outputs) and () not in stars else []
        expressions = [output.expression for output in query.outputs if isinstance(output, Output)]
        expressions += [output.argument for output in query.outputs if isinstance(output, Generator)]
        if query.condition is not None:
            expressions.append(query.condition)
        paths = paths_in(expressions)
        self._plans: Plans[SelectPlan] = Plans(lambda rows: SelectPlan(query, self._engine, rows), paths, stars)
        evaluated = paths_in(evaluated_in(query))
        self._evaluated, self._carried = evaluated, [path for path in paths if path not in evaluated]
        self._sight = Sight(evaluated, self._carried, stars)

    def apply(self, record: R) -> R | None:
        if record.value is None:
            return record
        if self.makes_several:
            several = self.expand(record)
            if len(several) > 1:
                raise DataError(
                    f"The query makes several records of one ({len(several)}), and only one can be taken here"
                )
            return several[0] if several else None
        record, rows, plan = self._planned(record)
        made = plan.select_one(rows)
        return None if made is None else self._changed(record, plan, rows, made)

    def expand(self, record: R) -> Sequence[R]:
        if record.value is None or not self.makes_several:
            return super().expand(record)
        record, rows, plan = self._planned(record)
        return [self._changed(record, plan, rows, made) for made in plan.select_several(rows)]

    def expand_list(self, records: Sequence[R]) -> Sequence[Sequence[R]]:
        """Records without schema, a table for each group that the query sees alike.

        Measured with values of four to six fields on a busy machine: 8 to 20 us a record, one by one 600 to 4,000.
        """
        made: list[Sequence[R]] = [(record,) for record in records]
        if self._declares is not None:
            records = [record if record.value is None else self._declares.apply(record) for record in records]
        places = [place for place, record in enumerate(records) if record.value is not None]
        for group in grouped(records, places, self._sight):
            if records[group[0]].value_schema is not None:
                for place in group:
                    made[place] = self.expand(records[place])
                continue
            plan = self._plans.of(GroupRows([records[group[0]]]))
            parts = [group] if plan.seen_schema is None else grouped(records, group, self._sight, exactly=True)
            for part in parts:
                for place, after in zip(part, self._expand_alike([records[place] for place in part]), strict=True):
                    made[place] = after
        return made

    def _expand_alike(self, records: Sequence[R]) -> Sequence[Sequence[R]]:
        """What becomes of each of records that the query sees alike."""
        rows = GroupRows(records)
        plan = self._plans.of(rows)
        selected = plan.select(rows)
        kept = range(len(records)) if selected.kept is None else selected.kept.to_pylist()
        schema, made = plan.seen_schema, dict[int, list[R]]()
        for place, found in zip(kept, _values_of_group(plan, rows, selected, kept), strict=True):
            record = records[place]
            if self._structs and self._is_gone(RecordRows(record)):
                after = record.new_record(value=None)
            elif schema is None:
                after = record.new_record(value=found)
            else:
                after = record.new_record(value_schema=schema, value=as_data(schema, found))
            made.setdefault(place, []).append(after)
        return [made.get(place, ()) for place in range(len(records))]

    def _planned(self, record: R) -> tuple[R, RecordRows, SelectPlan]:
        """The record, of the declared schema if there is one, and the plan for it."""
        if self._declares is not None:
            record = self._declares.apply(record)
        rows = RecordRows(record)
        return record, rows, self._plans.of(rows)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """By records go batches with null rows, which keep their old schema."""
        if self._declares is not None:
            batch = self._declares.apply_batch(batch)
            if batch is NotImplemented:
                return NotImplemented
        column, before = batch.value, batch.value_schema
        if column is None:
            return batch
        if before is None and not self.makes_several:
            return self._without_schema(batch)
        if before is None or column.null_count or not have_schemas(batch):
            return NotImplemented
        rows = BatchRows(batch)
        plan = self._plans.of(rows)
        selected = plan.select(rows)
        if self._structs and self._may_be_gone(rows, selected.kept):
            return NotImplemented
        schema = plan.schema(before)
        if selected.kept is not None:
            batch = batch.take(selected.kept)
            if not len(batch):
                return None
        return batch.with_(value_schema=schema, value=_struct_column(plan, rows, selected, schema))

    def _without_schema(self, batch: RecordBatch) -> RecordBatch | Any | None:  # Any: as apply_batch
        """Measured with five fields, of which one is at times missing: 1.4 us a record, by `expand_list` 10."""
        from kconnect.builtin.sql.seen_batches import ByListsError, SeenBatch, groups_of, selected_batch

        try:
            seen = SeenBatch(batch)
            groups = groups_of(seen, self._evaluated, self._carried)
            return selected_batch(batch, seen, groups, self._plans)
        except ByListsError:
            return NotImplemented

    def _changed(self, record: R, plan: SelectPlan, rows: RecordRows, made: Mapping[str, Any]) -> R:
        """The record with what a plan made of it as its value."""
        if self._structs and self._is_gone(rows):
            return record.new_record(value_schema=None, value=None)
        if record.value_schema is None:
            return _map_or_struct(record, plan, rows, made)
        schema = plan.schema(record.value_schema)
        struct = Struct(schema)
        for field in plan.fields:
            if field.path is not None:
                struct.put(field.name, rows.value(field.path))
            elif field.schema is not None:
                struct.put(field.name, made[field.name])
        return record.new_record(value_schema=schema, value=struct)

    def _is_gone(self, rows: RecordRows) -> bool:
        """Whether every struct of which the query takes all fields is null, and none is missing."""
        return all(
            rows.value(path) is None and named(path[-1], rows.names(path[:-1])) is not None for path in self._structs
        )

    def _may_be_gone(self, rows: BatchRows, kept: pa.Array | None) -> bool:
        """Whether every such struct is null somewhere in the rows that are kept."""
        columns = [rows.column(path, schema) for path in self._structs if (schema := rows.schema(path)) is not None]
        return all((column if kept is None else column.take(kept)).null_count for column in columns)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def close(self) -> None:
        self._engine.close()


def _declared_step(configs: Mapping[str, Any]) -> WithSchema | None:
    """What makes values be of the declared schema, before the query; None where none is declared."""
    said = declarations(configs, is_sink=False)
    if not said:
        return None
    made = WithSchema()
    made.configure({name.removeprefix("value."): text for name, text in said.items()})
    return made


def _map_or_struct(record: R, plan: SelectPlan, rows: RecordRows, made: Mapping[str, Any]) -> R:
    """A map, as the value before; a struct where a field is made that no value without schema can be, as a decimal."""
    schema, found = plan.seen_schema, {}
    for field in plan.fields:
        if field.path is not None:  # what is taken over stays as it is
            found[field.name] = rows.value(field.path)
        else:
            value = made.get(field.name)
            found[field.name] = value if schema is not None else _plain(value)
    if schema is None:
        return record.new_record(value=found)
    return record.new_record(value_schema=schema, value=as_data(schema, found))


def _values_of_group(
    plan: SelectPlan, rows: GroupRows, selected: Selected, kept: Sequence[int]
) -> Sequence[Mapping[str, Any]]:
    """Gives what _map_or_struct gives, of each row that is kept."""
    columns = []
    for field in plan.fields:
        if field.path is not None:
            values = rows.values(field.path)
            columns.append([values[place] for place in kept])
        elif field.schema is None:
            columns.append([None] * len(kept))
        else:
            values = values_of(field.schema, selected.made[field.name], len(kept))
            columns.append(values if plan.seen_schema is not None else list(map(_plain, values)))
    if not columns:  # all fields of a struct that is null, or has none
        return [{} for _ in kept]
    names = [field.name for field in plan.fields]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """Structs as maps, as a schemaless value has them."""
    if isinstance(value, Struct):
        return {field.name: _plain(value.get(field)) for field in value.schema.fields}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _struct_column(plan: SelectPlan, rows: Rows, selected: Selected, schema: Schema) -> pa.StructArray:
    import pyarrow as pa

    children = []
    for field in plan.fields:
        if field.path is None:
            children.append(selected.made[field.name])
        elif field.schema is not None:
            column = rows.column(field.path, field.schema)
            children.append(column if selected.kept is None else column.take(selected.kept))
    return pa.StructArray.from_arrays(children, names=[field.name for field in schema.fields])
