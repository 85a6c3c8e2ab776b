"""Declared types out of what others call a schema: Avro's, JSON Schema, and the columns of a table in Arrow. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigError, DataError, Schema
from kconnect.builtin.types.column_type import MOST_DIGITS, Column, ColumnType, schema_of

if TYPE_CHECKING:
    import pyarrow as pa


def parse_json(text: str) -> ColumnType:
    """The type that Avro's schema or a JSON Schema describes. Errors: ConfigError with the place."""
    try:
        node = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"It is neither DDL nor JSON: {error}") from error
    if isinstance(node, Mapping) and (node.get("type") == "record" or "fields" in node):
        return _of_avro(node, "", {})
    if isinstance(node, Mapping) and not _JSON_SCHEMA_WORDS.isdisjoint(node):
        return _of_json_schema(node, "", node)[0]
    raise ConfigError(
        'It is JSON, but neither a schema of Avro ("type": "record") nor a JSON Schema ("type": "object", "properties")'
    )


_JSON_SCHEMA_WORDS: Final = {"$schema", "properties", "$ref", "$defs", "definitions", "items", "anyOf", "oneOf", "type"}


# --- Avro ---


def _of_avro(node: Any, place: str, named: dict[str, ColumnType], space: str = "") -> ColumnType:
    """Errors: ConfigError."""
    if isinstance(node, list):
        return _avro_union(node, place, named, space)[0]
    if isinstance(node, str):
        if node in _AVRO:
            return ColumnType(_AVRO[node])
        found = named.get(node) or named.get(f"{space}.{node}")
        if found is None:
            raise ConfigError(f"Unknown type of Avro{_at(place)}: {node}")
        return found
    if not isinstance(node, Mapping) or "type" not in node:
        raise ConfigError(f"No type of Avro{_at(place)}: {node}")
    if (logical := node.get("logicalType")) in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical](node)
    if (connect := node.get("connect.name")) in CONNECT_NAMES:
        return CONNECT_NAMES[connect]
    kind = node["type"]
    space = node.get("namespace", space)
    if kind == "record":
        columns = []
        for field in node.get("fields", ()):
            below = f"{place}.{field['name']}" if place else field["name"]
            made, is_nullable = _avro_field(field["type"], below, named, space)
            columns.append(Column(field["name"], made, not is_nullable and "default" not in field, field.get("doc")))
        return _remember(node, space, named, ColumnType("struct", columns=tuple(columns)))
    if kind == "array":
        item, holds_null = _avro_field(node.get("items"), f"{place}[]", named, space)
        return ColumnType("array", item=item, holds_null=holds_null)
    if kind == "map":
        item, holds_null = _avro_field(node.get("values"), f"{place}[]", named, space)
        return ColumnType("map", key=ColumnType("string"), item=item, holds_null=holds_null)
    if kind in ("enum", "fixed"):
        return _remember(node, space, named, ColumnType("string" if kind == "enum" else "binary"))
    if kind in ("int", "long") and (connect := node.get("connect.type")) in _CONNECT_INTS:
        return ColumnType(_CONNECT_INTS[connect])
    return _of_avro(kind, place, named, space)


def _avro_field(node: Any, place: str, named: dict[str, ColumnType], space: str) -> tuple[ColumnType, bool]:
    return (
        _avro_union(node, place, named, space)
        if isinstance(node, list)
        else (_of_avro(node, place, named, space), False)
    )


def _avro_union(node: list[Any], place: str, named: dict[str, ColumnType], space: str) -> tuple[ColumnType, bool]:
    others = [part for part in node if part != "null"]
    if len(others) != 1:
        raise ConfigError(f"A column cannot be a union of {len(others)} types{_at(place)}")
    return _of_avro(others[0], place, named, space), len(others) < len(node)


def _remember(node: Mapping[str, Any], space: str, named: dict[str, ColumnType], made: ColumnType) -> ColumnType:
    name = node.get("name", "")
    named[name] = named[f"{space}.{name}"] = made
    return made


_AVRO: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_AVRO_LOGICAL: Final[dict[Any, Callable[[Mapping[str, Any]], ColumnType]]] = {
    "decimal": lambda node: ColumnType(
        "decimal", digits=min(MOST_DIGITS, node.get("precision", MOST_DIGITS)), scale=node.get("scale", 0)
    ),
    "uuid": lambda node: ColumnType("uuid"),
    "date": lambda node: ColumnType("date"),
    "time-millis": lambda node: ColumnType("time", digits=3, unit="ms"),
    "time-micros": lambda node: ColumnType("time", unit="us"),
    "timestamp-millis": lambda node: ColumnType("timestamp", digits=3, unit="ms"),
    "timestamp-micros": lambda node: ColumnType("timestamp", unit="us"),
    "timestamp-nanos": lambda node: ColumnType("timestamp", unit="ns"),
    "local-timestamp-millis": lambda node: ColumnType("timestamp_ntz", digits=3, unit="ms"),
    "local-timestamp-micros": lambda node: ColumnType("timestamp_ntz", unit="us"),
    "local-timestamp-nanos": lambda node: ColumnType("timestamp_ntz", unit="ns"),
}
CONNECT_NAMES: Final = {
    "org.apache.kafka.connect.data.Date": ColumnType("date"),
    "org.apache.kafka.connect.data.Time": ColumnType("time", digits=3),
    "org.apache.kafka.connect.data.Timestamp": ColumnType("timestamp", digits=3),
    "io.debezium.time.Date": ColumnType("date"),
    "io.debezium.time.Time": ColumnType("time", digits=3),
    "io.debezium.time.MicroTime": ColumnType("time", unit="us"),
    "io.debezium.time.NanoTime": ColumnType("time", unit="ns"),
    "io.debezium.time.Timestamp": ColumnType("timestamp_ntz", digits=3),
    "io.debezium.time.MicroTimestamp": ColumnType("timestamp_ntz", unit="us"),
    "io.debezium.time.NanoTimestamp": ColumnType("timestamp_ntz", unit="ns"),
    "io.debezium.time.ZonedTimestamp": ColumnType("timestamp"),
    "io.debezium.time.ZonedTime": ColumnType("time"),
    "io.debezium.time.IsoDate": ColumnType("date"),
    "io.debezium.time.IsoTime": ColumnType("time"),
    "io.debezium.time.IsoTimestamp": ColumnType("timestamp_ntz"),
    "io.debezium.data.Uuid": ColumnType("uuid"),
    "io.debezium.data.Json": ColumnType("json"),
}
"""What schemas of these names mean. Source: io.debezium.time and io.debezium.data (Debezium 3)."""
_CONNECT_INTS: Final = {"int8": "tinyint", "int16": "smallint"}


# --- JSON Schema ---


def _of_json_schema(
    node: Any, place: str, root: Mapping[str, Any], within: tuple[str, ...] = ()
) -> tuple[ColumnType, bool]:
    """The type, and whether a null is one of its values. `within`: the $refs that led here. Errors: ConfigError."""
    if not isinstance(node, Mapping):
        raise ConfigError(f"No JSON Schema{_at(place)}: {node}")
    if "$ref" in node:
        ref = str(node["$ref"])
        if ref in within:
            raise ConfigError(f"$ref leads back to where it stands{_at(place)}: {ref}", hint=_ENDLESS)
        return _of_json_schema(_referred(ref, place, root), place, root, (*within, ref))
    for word in ("anyOf", "oneOf"):
        if word in node:
            others = [part for part in node[word] if part.get("type") != "null"]
            if len(others) != 1:
                raise ConfigError(f"A column cannot be {word} of {len(others)} types{_at(place)}")
            found, is_nullable = _of_json_schema(others[0], place, root, within)
            return found, is_nullable or len(others) < len(node[word])
    kinds = node.get("type", "object" if "properties" in node else "string" if "enum" in node else None)
    is_nullable = isinstance(kinds, list) and "null" in kinds
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        kinds = "number" if set(others) == {"integer", "number"} else others[0] if len(others) == 1 else others
    if (connect := node.get("title")) in CONNECT_NAMES:
        return CONNECT_NAMES[connect], is_nullable
    if connect == "org.apache.kafka.connect.data.Decimal":
        said = node.get("connect.parameters", {})
        digits = min(MOST_DIGITS, int(said.get("connect.decimal.precision", MOST_DIGITS)))
        return ColumnType("decimal", digits=digits, scale=int(said.get("scale", 0))), is_nullable
    if kinds == "object":
        return _json_object(node, place, root, within), is_nullable
    if kinds == "array":
        item, holds_null = _of_json_schema(node.get("items", {"type": "string"}), f"{place}[]", root, within)
        return ColumnType("array", item=item, holds_null=holds_null), is_nullable
    if kinds == "string":
        is_bytes = node.get("contentEncoding") == "base64"
        return ColumnType("binary" if is_bytes else _FORMATS.get(str(node.get("format")), "string")), is_nullable
    if kinds in ("integer", "number", "boolean"):
        said = node.get("connect.type")
        return ColumnType(_CONNECT_NUMBERS.get(str(said)) or _JSON[kinds]), is_nullable
    raise ConfigError(f"A column cannot be of this type{_at(place)}: {kinds or json.dumps(node)}")


_ENDLESS: Final = 'Write {"type": "object"} there: what is nested in itself is JSON text then.'


def _json_object(node: Mapping[str, Any], place: str, root: Mapping[str, Any], within: tuple[str, ...]) -> ColumnType:
    more = node.get("additionalProperties")
    if not node.get("properties"):
        if isinstance(more, Mapping) and more:
            item, holds_null = _of_json_schema(more, f"{place}[]", root, within)
            return ColumnType("map", key=ColumnType("string"), item=item, holds_null=holds_null)
        return ColumnType("json")
    required = node.get("required", ())
    columns = []
    for name, part in node["properties"].items():
        made, is_nullable = _of_json_schema(part, f"{place}.{name}" if place else name, root, within)
        columns.append(Column(name, made, name in required and not is_nullable, part.get("description")))
    return ColumnType("struct", columns=tuple(columns))


def _referred(ref: str, place: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    if not ref.startswith("#"):
        raise ConfigError(f"$ref to another document is not read{_at(place)}: {ref}")
    for step in ref.lstrip("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if name and (not isinstance(found, Mapping) or name not in found):
            raise ConfigError(f"$ref leads nowhere{_at(place)}: {ref}")
        found = found[name] if name else found
    return found


_JSON: Final = {"integer": "bigint", "number": "double", "boolean": "boolean"}
_FORMATS: Final = {"date-time": "timestamp", "date": "date", "time": "time", "uuid": "uuid"}
_CONNECT_NUMBERS: Final = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
}


# --- Arrow ---


def schema_of_arrow(kind: pa.DataType, place: str = "", *, is_required: bool = False, is_fine: bool = False) -> Schema:
    """Connect's schema of an Arrow type, optional all the way down but for keys of maps. `is_fine`: as of `schema_of`.

    Errors: DataError for a type that no record can have, at `place`.
    """
    try:
        return schema_of(of_arrow(kind, place, is_loose=True), is_required=is_required, is_fine=is_fine)
    except ConfigError as error:
        raise DataError(f"{error}", hint=CAST) from error


CAST: Final = "Cast the column, for example to string."


def no_record_type(kind: str, place: str) -> str:
    """The sentence for a type of Arrow's or Spark's that no record can have."""
    return f"A record cannot hold a value of type {kind}{_at(place)}"


def of_arrow(kind: pa.DataType, place: str = "", *, is_loose: bool = False) -> ColumnType:
    """The declared type of an Arrow type. `is_loose`: with null everywhere, whatever the type says.

    Errors: ConfigError for one that no record can have.
    """
    import pyarrow as pa

    is_ = pa.types
    for matches, name in _ARROW:
        if getattr(is_, matches)(kind):
            return ColumnType(name)
    if is_.is_decimal(kind):
        if kind.scale > _MOST_SCALE and kind.precision > MOST_DIGITS:
            return ColumnType("string")
        return ColumnType("decimal", digits=min(MOST_DIGITS, kind.precision), scale=kind.scale)
    if is_.is_time(kind):
        return ColumnType("time", digits=_DIGITS[kind.unit])
    if is_.is_timestamp(kind):
        return ColumnType("timestamp" if kind.tz else "timestamp_ntz", digits=_DIGITS[kind.unit])
    if is_.is_duration(kind) and not is_loose:  # the number that it is in a file of Parquet
        return ColumnType("bigint")
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return of_arrow(kind.value_type, place, is_loose=is_loose)
    if isinstance(kind, pa.BaseExtensionType):
        own = _ARROW_EXTENSIONS.get(kind.extension_name)
        return ColumnType(own) if own else of_arrow(kind.storage_type, place, is_loose=is_loose)
    if any(getattr(is_, matches)(kind) for matches in _ARROW_LISTS):
        item = of_arrow(kind.value_type, f"{place}[]", is_loose=is_loose)
        return ColumnType("array", item=item, holds_null=is_loose or kind.value_field.nullable)
    if is_.is_map(kind):
        key = of_arrow(kind.key_type, f"{place} (key)", is_loose=is_loose)
        item = of_arrow(kind.item_type, f"{place}[]", is_loose=is_loose)
        return ColumnType("map", key=key, item=item, holds_null=is_loose or kind.item_field.nullable)
    if is_.is_struct(kind):
        return ColumnType("struct", columns=tuple(_arrow_column(field, place, is_loose) for field in kind))
    raise ConfigError(no_record_type(f"{kind}", place))


def _arrow_column(field: pa.Field, place: str, is_loose: bool) -> Column:
    below = f"{place}.{field.name}" if place else field.name
    made = of_arrow(field.type, below, is_loose=is_loose)
    return Column(field.name, made, not (is_loose or field.nullable))


# Of a decimal that has more digits than a column: with more, as BigQuery's BIGNUMERIC(76, 38), few numbers before the
# point would have a place
_MOST_SCALE: Final = 18
_DIGITS: Final = {"s": 0, "ms": 3, "us": None, "ns": None}
# The first that matches counts. What is unsigned takes the next wider type; a column of nothing is one of texts.
_ARROW: Final = (
    ("is_boolean", "boolean"),
    ("is_int8", "tinyint"),
    ("is_int16", "smallint"),
    ("is_uint8", "smallint"),
    ("is_int32", "int"),
    ("is_uint16", "int"),
    ("is_integer", "bigint"),
    ("is_float16", "float"),
    ("is_float32", "float"),
    ("is_floating", "double"),
    ("is_string", "string"),
    ("is_large_string", "string"),
    ("is_string_view", "string"),
    ("is_null", "string"),
    ("is_binary", "binary"),
    ("is_large_binary", "binary"),
    ("is_fixed_size_binary", "binary"),
    ("is_binary_view", "binary"),
    ("is_date", "date"),
)

_ARROW_LISTS: Final = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
_ARROW_EXTENSIONS: Final = {"arrow.uuid": "uuid", "arrow.json": "json", "arrow.bool8": "boolean"}


def _at(place: str) -> str:
    return f" at {place}" if place else ""
