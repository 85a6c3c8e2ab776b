"""`kconnect.api.values` against what Java's Values and SimpleHeaderConverter did."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import struct
from typing import Any

import pytest

from kconnect.api import (
    DataError,
    Date,
    Decimal,
    Field,
    Schema,
    SchemaAndValue,
    Struct,
    Time,
    Timestamp,
    Type,
    values,
)
from kit.differences import hold_alike, numbered
from kit.places import GOLDEN

RECORDED = GOLDEN / "converters"
HEADERS = json.loads((RECORDED / "headers.json").read_text("utf-8"))
CONVERSIONS = json.loads((RECORDED / "values-convert.json").read_text("utf-8"))
PARSED = [case for case in HEADERS if "parseString" in case]
# Java objects that have no Python twin: a float32 without schema, a ByteBuffer that is read from where it stands, a
# struct apart from its schema, and java.util.Dates that are no date or no time of day. The docstrings say Differs.
NO_PYTHON_VALUE = {
    "99:99:99.999Z",
    "date_with_time",
    "null_schema_bytebuffer",
    "null_schema_float",
    "null_schema_struct",
    "prim_47_BYTES",
    "struct_schema_mismatch",
    "time_negative",
    "time_out_of_range",
}
WRITTEN = [
    case
    for case in HEADERS
    if case["op"].endswith("fromConnectHeader") and "schema_in" in case and case["id"] not in NO_PYTHON_VALUE
]
BEYOND_YEAR_9999 = [("convertToDate", 3_000_000_000)]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def schema_of(golden: dict[str, Any] | None) -> Schema | None:
    if golden is None:
        return None
    bare = schema_parts(golden)
    default = golden.get("default")
    return bare if default is None else schema_parts(golden, value_of(default, bare))


def schema_parts(golden: dict[str, Any], default: Any = None) -> Schema:
    fields = [Field(f["name"], i, schema_of(f["schema"])) for i, f in enumerate(golden.get("fields", ()))]
    return Schema(
        Type[golden["type"]],
        golden.get("optional", False),
        default,
        golden.get("name"),
        golden.get("version"),
        golden.get("doc"),
        golden.get("parameters"),
        fields,
        schema_of(golden.get("keys")),
        schema_of(golden.get("items") or golden.get("values")),
    )


def value_of(golden: dict[str, Any], schema: Schema | None) -> Any:
    kind, raw = golden["t"], golden.get("v")
    if kind == "null":
        return None
    if kind in ("float32", "float64"):
        return struct.unpack(
            ">f" if kind == "float32" else ">d", bytes.fromhex(golden["bits"].zfill(8 if kind == "float32" else 16))
        )[0]
    if kind == "bytes" or kind == "bytebuffer":
        return base64.b64decode(golden["b64"])
    if kind == "decimal":
        return decimal.Decimal(int(golden["unscaled"])).scaleb(-golden["scale"], decimal.Context(prec=500))
    if kind == "date":
        return moment_of(golden["millis"], schema)
    if kind == "list":
        inner = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
        return [value_of(item, inner) for item in raw]
    if kind == "map":
        is_map = schema is not None and schema.type is Type.MAP
        keys, items = (schema.key_schema, schema.value_schema) if is_map else (None, None)
        return {value_of(key, keys): value_of(item, items) for key, item in raw}
    if kind == "struct":
        fields = schema.fields
        given = {name: item for name, item in raw} if isinstance(raw, list) else raw
        return Struct.from_values(
            schema, [value_of(given[f.name], f.schema) if f.name in given else None for f in fields]
        )
    assert kind in ("boolean", "int8", "int16", "int32", "int64", "string"), golden
    return raw


def moment_of(millis: int, schema: Schema | None) -> Any:
    name = schema.name if schema is not None else Timestamp.LOGICAL_NAME
    if name == Date.LOGICAL_NAME:
        return Date.to_logical(Date.SCHEMA, millis // 86_400_000)
    if name == Time.LOGICAL_NAME:
        return Time.to_logical(Time.SCHEMA, millis)
    return EPOCH + datetime.timedelta(milliseconds=millis)


def test_text_is_parsed_to_the_schema_and_value_that_java_finds() -> None:
    cases = [case for case in PARSED if case["input"] not in NO_PYTHON_VALUE]
    assert hold_alike(numbered(cases, lambda case: repr(case["input"])), compare_parsed) == 79


def compare_parsed(case: dict[str, Any]) -> None:
    expected = case["parseString"]
    found = values.parse_string(case["input"])
    if expected.get("returned_null"):
        assert found is None
        return
    schema = schema_of(expected["schema"])
    assert found == SchemaAndValue(schema, value_of(expected["value"], schema))
    assert values.convert_to_string(found.schema, found.value) == case["back"]


def test_values_are_written_as_the_text_that_java_writes() -> None:
    assert hold_alike(numbered(WRITTEN, lambda case: case["id"]), compare_written) == 177


def compare_written(case: dict[str, Any]) -> None:
    if case["value_in"]["t"] == "object":
        with pytest.raises(DataError, match="Failed to serialize unexpected value type"):
            values.convert_to_string(None, object())
        return
    schema = schema_of(case["schema_in"])
    value = value_of(case["value_in"], schema)
    text = values.convert_to_string(schema, value)
    assert text == (case["result"] or {}).get("text")


METHODS = {
    "convertToBoolean": values.convert_to_boolean,
    "convertToByte": values.convert_to_byte,
    "convertToShort": values.convert_to_short,
    "convertToInteger": values.convert_to_integer,
    "convertToLong": values.convert_to_long,
    "convertToFloat": values.convert_to_float,
    "convertToDouble": values.convert_to_double,
    "convertToString": values.convert_to_string,
    "convertToList": values.convert_to_list,
    "convertToMap": values.convert_to_map,
    "convertToDate": values.convert_to_date,
    "convertToTime": values.convert_to_time,
    "convertToTimestamp": values.convert_to_timestamp,
    "convertToDecimal2": lambda schema, value: values.convert_to_decimal(schema, value, 2),
}
RESULT_SCHEMAS = {
    "convertToDate": Date.SCHEMA,
    "convertToTime": Time.SCHEMA,
    "convertToTimestamp": Timestamp.SCHEMA,
    "convertToDecimal2": Decimal.schema(2),
}


def test_conversions_give_what_java_gives() -> None:
    cases = [(case, method) for case in CONVERSIONS for method in case["results"]]
    reported = numbered(cases, lambda pair: f"{pair[1]} of {json.dumps(pair[0]['value'])}")
    assert hold_alike(reported, compare_conversion) == 224


def compare_conversion(pair: tuple[dict[str, Any], str]) -> None:
    case, method = pair
    schema = schema_of(case["inferredSchema"])
    value, expected = value_of(case["value"], schema), case["results"][method]
    if "exception" in expected or (method, value) in BEYOND_YEAR_9999:
        with pytest.raises(DataError):
            METHODS[method](schema, value)
        return
    assert METHODS[method](schema, value) == value_of(expected["value"], RESULT_SCHEMAS.get(method))
