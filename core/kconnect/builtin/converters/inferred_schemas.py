"""Schemas for values of JSON that come without (KIP-301): of what was seen in a topic so far, wider as needed."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import DataError, Schema, SchemaAndValue, Struct, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.fitting import KEPT, NotFittingError, as_text, fit
from kconnect.builtin.types.seen import ANY_SCALE, NOTHING, Kind, Seen, see
from kconnect.builtin.types.seen_schemas import schema_of_seen

if TYPE_CHECKING:
    import pyarrow as pa


class InferredSchemas:
    """Gives each value the schema of its topic, which only widens. All is optional, at any depth. Threads: one.

    A field that was null in all values is left out until it has a type. By records and by columns the same comes out: a
    batch that would widen the schema goes by records.
    """

    def __init__(self) -> None:
        self._topics: dict[str, tuple[Seen, Schema | None]] = {}
        self._keep: Callable[[str, Seen], None] = lambda topic, seen: None

    def remember(self, known: Mapping[str, Seen], keep: Callable[[str, Seen], None]) -> None:
        """Begin with what was seen in topics before; `keep(topic, seen)` hears of each schema that widens."""
        self._topics = {topic: _with_schema(seen) for topic, seen in known.items()}
        self._keep = keep

    def read(self, topic: str, value: Any) -> SchemaAndValue:
        """Errors: DataError for more fields than a schema can have."""
        seen, schema = self._topics.get(topic, (NOTHING, None))
        if value is None:
            return SchemaAndValue(schema, None)
        try:
            if schema is not None:
                return SchemaAndValue(schema, _value(seen, schema, value))
        except _UnseenError:
            pass
        seen, schema = self._learn(topic, seen, value)
        return SchemaAndValue(schema, _value(seen, schema, value))

    def column(self, topic: str, column: pa.Array) -> tuple[Schema, pa.Array] | None:
        """The values with the schema of the topic; None where they may widen it, or become text."""
        seen, schema = self._topics.get(topic, (NOTHING, None))
        if schema is None or not _holds(seen, column):
            return None
        try:
            return schema, fit(column, arrow_type(schema), KEPT)
        except NotFittingError:
            return None

    def _learn(self, topic: str, known: Seen, value: Any) -> tuple[Seen, Schema]:
        seen = known.join(_coarse(see([value])))
        if _size(seen) > _MOST_FIELDS:
            raise DataError(
                f"The values of topic {topic} have more than {_MOST_FIELDS} fields together",
                hint="Names that are data cannot be fields: leave schemas.infer.enable out, or declare value.schema.",
            )
        made = self._topics[topic] = _with_schema(seen)
        self._keep(topic, seen)
        return made


def _with_schema(seen: Seen) -> tuple[Seen, Schema]:
    return seen, schema_of_seen(seen, keeps_untyped=False)


# Each new one makes a schema of them all
_MOST_FIELDS: Final = 2000
_EXACT: Final = 1 << 53
_LONG: Final = 1 << 63


class _UnseenError(Exception):
    """A value that widens the schema."""


def _coarse(seen: Seen) -> Seen:
    """What counts for the schema, and can be read from a column as well: not how many digits fractions have."""
    numbers = seen.numbers
    if numbers is not None:
        scale = ANY_SCALE if numbers.has_floats else numbers.scale
        return Seen(Kind.NUMBER, replace(numbers, whole=0 if numbers.is_long else numbers.whole, scale=scale))
    if seen.item is not None:
        return Seen(Kind.LIST, item=_coarse(seen.item))
    return Seen(seen.kind, members={name: _coarse(member) for name, member in seen.members.items()})


def _size(seen: Seen) -> int:
    inner = 0 if seen.item is None else _size(seen.item)
    return 1 + inner + sum(map(_size, seen.members.values()))


def _value(seen: Seen, schema: Schema, value: Any) -> Any:
    """The value as one of the schema. Errors: _UnseenError."""
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return _struct(seen, schema, value)
    if seen.item is not None:
        if not isinstance(value, list) or schema.value_schema is None:
            raise _UnseenError
        if seen.item.kind is Kind.NOTHING and any(item is not None for item in value):
            raise _UnseenError
        return [_value(seen.item, schema.value_schema, item) for item in value]
    if seen.kind is Kind.SEVERAL:
        return value if isinstance(value, str) else as_text(value)
    if seen.kind is Kind.TEXT or seen.kind is Kind.BOOL:
        if type(value) is not (str if seen.kind is Kind.TEXT else bool):
            raise _UnseenError
        return value
    return _number(seen, schema, value)


def _struct(seen: Seen, schema: Schema, value: Any) -> Struct:
    if not isinstance(value, dict) or not value.keys() <= seen.members.keys():
        raise _UnseenError
    if len(schema.fields) < len(seen.members):
        for name, member in seen.members.items():
            if member.kind is Kind.NOTHING and value.get(name) is not None:
                raise _UnseenError
    members = seen.members
    return Struct.from_values(
        schema, [_value(members[field.name], field.schema, value.get(field.name)) for field in schema.fields]
    )


def _number(seen: Seen, schema: Schema, value: Any) -> Any:
    numbers = seen.numbers
    if numbers is None or isinstance(value, bool) or not isinstance(value, int | float):
        raise _UnseenError
    if isinstance(value, float):
        if not numbers.has_floats:
            raise _UnseenError
    elif numbers.is_double and not -_EXACT <= value <= _EXACT and not _is_double(value):
        raise _UnseenError
    if schema.type is Type.FLOAT64:
        return float(value)
    if schema.type is Type.INT64:
        if not -_LONG <= value < _LONG:
            raise _UnseenError
        return value
    if schema.type is Type.STRING:
        return as_text(value)
    if len(str(abs(value))) > numbers.whole > 0 or isinstance(value, float):
        raise _UnseenError
    return decimal.Decimal(value)


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _holds(seen: Seen, column: pa.Array) -> bool:
    """Whether the values of a column, as PlainJsonColumns makes them, leave the schema as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return True
    if pa.types.is_struct(kind):
        return seen.kind is Kind.STRUCT and all(
            part.name in seen.members and _holds(seen.members[part.name], child)
            for part, child in zip(kind, column.flatten(), strict=True)
        )
    if pa.types.is_list(kind):
        return seen.item is not None and _holds(seen.item, column.flatten())
    if pa.types.is_string(kind):
        return seen.kind is Kind.TEXT
    if pa.types.is_boolean(kind):
        return seen.kind is Kind.BOOL
    if seen.numbers is None or str(seen.type) not in ("int64", "double"):
        return False
    if pa.types.is_integer(kind) and seen.numbers.is_double:
        ends = pc.min_max(column).as_py()
        return ends["min"] is None or (ends["min"] >= -_EXACT and ends["max"] <= _EXACT)
    if pa.types.is_floating(kind):
        return seen.numbers.has_floats
    return bool(pa.types.is_integer(kind))
