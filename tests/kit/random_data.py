"""Random schemas, values and settings, drawn from a seed, with an eye for the edges."""

from __future__ import annotations

import datetime
import struct
from decimal import Context
from decimal import Decimal as PyDecimal
from random import Random
from typing import Any

from kconnect.api import Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp, Type
from kconnect.java.compat.simple_date_format import DatePattern, format_instant

__all__ = [
    "FIELDS",
    "PATTERNS",
    "random_gaps",
    "random_millis",
    "random_plain",
    "random_schema",
    "random_struct_schema",
    "random_text",
    "random_value",
]

FIELDS = ("a", "b", "c", "d", "a.b", "ts", "\u00fc", "n")
PATTERNS = (
    *("yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd", "yyyyMMdd", "dd/MM/yy", "EEE, d MMM yyyy"),
    *("HH:mm", "hh:mm a", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "D yyyy", "MMMM d, y G", "yyyyMMddHHmmssSSS", "k K h H", "L"),
    *("EEEE u", "z Z X", "ss.SSS", "yyyy-MM-dd''z", "y", "MMM yyyy EEE", "yyMMdd HHmm", "d.M.yyyy H:m:s", "a K:mm"),
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_PRIMITIVES = tuple(kind for kind in Type if kind.is_primitive)
_TEXTS = ("", "a", "42", "-7", "+5", "0", "1.5", "true", "TRUE", "no", "300", "1e3", " 12 ", "NaN", "2017-01-03")
_TEXTS += (
    "2017-01-03T06:30:01.864Z",
    '"',
    "\\",
    "\x00\x1f\x7f",
    "\u2028",
    "\u00e9\u4e2d",
    "\U0001f600",
    "null",
    "[1]",
    "\ud83dx",
    "\udc00",
)


def random_schema(random: Random, depth: int = 2) -> Schema:
    """Any schema; structs, lists and maps down to that depth."""
    draw = random.random()
    if depth and draw < 0.3:
        return random_struct_schema(random, depth - 1)
    if depth and draw < 0.4:
        return _finished(random, SchemaBuilder.array(random_schema(random, depth - 1)))
    if depth and draw < 0.5:
        keys = Schema.STRING_SCHEMA if random.random() < 0.6 else random_schema(random, 0)
        return _finished(random, SchemaBuilder.map(keys, random_schema(random, depth - 1)))
    if draw < 0.7:
        scale = random.choice((0, 2, -1, 5))
        builders = (Date.builder, Time.builder, Timestamp.builder, lambda: Decimal.builder(scale))
        return _finished(random, random.choice(builders)(), named=True)
    return _finished(random, SchemaBuilder(random.choice(_PRIMITIVES)))


def random_struct_schema(random: Random, depth: int = 2) -> Schema:
    """A struct of up to five fields."""
    builder = SchemaBuilder.struct()
    for name in random.sample(FIELDS, random.randint(0 if random.random() < 0.05 else 1, 5)):
        builder.field(name, random_schema(random, depth))
    return _finished(random, builder)


def _finished(random: Random, builder: SchemaBuilder, named: bool = False) -> Schema:
    if random.random() < 0.5:
        builder.optional()
    if not named and random.random() < 0.1:
        builder.name(random.choice(("N", "com.example.Thing")))
        if random.random() < 0.5:
            builder.version(random.randint(0, 3))
    if random.random() < 0.08:
        builder.doc(random.choice(("what it is", 'a "doc"')))
    if random.random() < 0.06:
        builder.parameter("k", random.choice(("v", "")))
    schema = builder.build()
    if schema.type.is_primitive and random.random() < 0.15:
        builder.default(random_value(random, schema, complete=True))
    return builder.build()


def random_value(random: Random, schema: Schema, *, complete: bool = False) -> Any:
    """A value of the schema; None where it may be."""
    if schema.is_optional and not complete and random.random() < 0.2:
        return None
    if schema.name == Decimal.LOGICAL_NAME:
        number = random.choice((0, 1, -1, 128, -129, random.randint(-(10**20), 10**20)))
        return PyDecimal(number).scaleb(-Decimal.scale(schema), Context(prec=100))
    if schema.name == Date.LOGICAL_NAME:
        return (_EPOCH + datetime.timedelta(days=random.choice((0, -1, random.randint(-100_000, 100_000))))).date()
    if schema.name == Time.LOGICAL_NAME:
        return (_EPOCH + datetime.timedelta(milliseconds=random.choice((0, random.randint(0, 86_399_999))))).time()
    if schema.name == Timestamp.LOGICAL_NAME:
        return _EPOCH + datetime.timedelta(milliseconds=random_millis(random))
    if schema.type is Type.STRUCT:
        values = [random_value(random, field.schema, complete=complete) for field in schema.fields]
        return Struct.from_values(schema, values)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [random_value(random, schema.value_schema, complete=complete) for _ in range(random.randint(0, 3))]
    if schema.type is Type.MAP:
        return _random_map(random, schema, complete)
    return _random_primitive(random, schema.type)


def random_gaps(random: Random, value: Any) -> Any:
    """A struct without a value of one field, required or not: Java's structs may lack one until they are validated."""
    if isinstance(value, Struct) and value.schema.fields:
        value._values[random.randrange(len(value._values))] = None
    return value


def random_millis(random: Random) -> int:
    """An instant of the years that Python knows; some before 1582, when Java's calendar is another."""
    if random.random() < 0.1:
        return random.randint(-50_000_000_000_000, -10_000_000_000_000)
    return random.choice((0, -1, 1483425001864, random.randint(-(10**12), 4 * 10**12)))


def _random_map(random: Random, schema: Schema, complete: bool) -> dict[Any, Any]:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    made = {}
    for _ in range(random.randint(0, 3)):
        key = random_value(random, schema.key_schema, complete=True)
        if key != key and any(other != other for other in made):
            continue  # a map of Java has NaN once
        try:
            made[key] = random_value(random, schema.value_schema, complete=complete)
        except TypeError:
            return {}  # a key that Python cannot hash
    return made


def _random_primitive(random: Random, kind: Type) -> Any:
    if kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        return random.choice((0, 1, -1, half - 1, -half, random.randint(-half, half - 1)))
    if kind is Type.FLOAT32:
        single: float = struct.unpack("f", struct.pack("f", random_float(random)))[0]
        return single
    if kind is Type.FLOAT64:
        return random_float(random)
    if kind is Type.BOOLEAN:
        return random.random() < 0.5
    if kind is Type.STRING:
        return random_text(random)
    return random.randbytes(random.choice((0, 1, 3, 8)))


def random_float(random: Random) -> float:
    """Numbers of few digits: JDK 17 writes some longer than they need be (JDK-4511638, fixed in 19)."""
    if random.random() < 0.15:
        return random.choice((0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e10, -1e-5, 3e38, 1e19, -1e19))
    return round(random.uniform(-1000, 1000), random.randint(0, 3))


def random_text(random: Random) -> str:
    """Numbers, dates, signs that JSON escapes, and letters."""
    return random.choice(_TEXTS) if random.random() < 0.7 else _date_text(random)


def _date_text(random: Random) -> str:
    """An instant by one of the patterns, now and then with a character too many or too few, or another one."""
    text = format_instant(DatePattern(random.choice(PATTERNS)), random_millis(random))
    if random.random() < 0.3 and text:
        at = random.randrange(len(text))
        text = text[:at] + random.choice(("", "0", "9", "-", " ", "x")) + text[at + random.randint(0, 1) :]
    return text


def random_plain(random: Random, depth: int = 2) -> Any:
    """A value without schema, as JSON without schemas gives it; bytes too."""
    draw = random.random()
    if depth and draw < 0.25:
        return {name: random_plain(random, depth - 1) for name in random.sample(FIELDS, random.randint(0, 4))}
    if depth and draw < 0.35:
        return [random_plain(random, depth - 1) for _ in range(random.randint(0, 3))]
    kinds = (Type.INT64, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.STRING, Type.BYTES)
    return None if draw > 0.9 else _random_primitive(random, random.choice(kinds))
