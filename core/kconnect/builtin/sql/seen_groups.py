"""Many records without schema as groups whose values a query sees alike, so that one statement evaluates each group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConnectRecord, Schema
from kconnect.api.columns import column_of
from kconnect.builtin.sql.rows import RecordRows
from kconnect.builtin.types.seen_schemas import as_data, schema_of_value

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.builtin.sql.spark_expressions import Path


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
