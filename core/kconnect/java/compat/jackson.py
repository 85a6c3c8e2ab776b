r"""JSON text as Jackson writes and reads it, with the settings that Java's JsonConverter uses.

Writing: characters beyond the BMP and lone surrogates as \uXXXX in upper case, short escapes for \b \t \n \f \r, floats
in Java's spelling, NaN and the infinities as strings. Reading: anything after the first value is ignored, save right
behind a number, true, false or null; numbers may start with zeros, UTF-16 and UTF-32 are recognised, fractions keep all
digits.
Source: JsonSerializer, JsonDeserializer (Kafka 4.3), Jackson 2.19.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import orjson

from kconnect.java.compat.to_string import double_text, float_text

# Characters to escape: quote, backslash, controls, and those that UTF-16 writes with surrogates.
_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quote(text: str) -> str:
    """A JSON string."""
    return f'"{_ESCAPED.sub(_escape, text)}"' if _ESCAPED.search(text) else f'"{text}"'


def jackson_text(value: Any) -> str:  # any JSON-able value
    """Compact JSON of plain Python values; bytes as base64. Source: ObjectMapper#writeValueAsBytes."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case int():
            return str(value)
        case float():
            return write_double(value)
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return f'"{base64.b64encode(value).decode()}"'
        case Mapping():
            return "{" + ",".join(f"{jackson_text(key)}:{jackson_text(item)}" for key, item in value.items()) + "}"
        case _:
            return "[" + ",".join(jackson_text(item) for item in value) + "]"


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    short = _SHORT.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"
    return f"\\u{code:04X}"


def read_base64(text: str) -> bytes:
    """Bytes of base64 as Jackson reads it: padding and white space may also stand between two groups of four.

    Errors: ValueError. Source: TextNode.getBinaryValue, Base64Variant.decode (MIME without line feeds).
    """
    if len(text) % 4 == 0 and _BASE64.fullmatch(text):
        return binascii.a2b_base64(text)
    left = text.strip(_WHITE_SPACE)
    groups, end = [], 0
    while end < len(left):
        group = _BASE64_GROUP.match(left, end)
        if group is None:
            raise ValueError(f"Illegal or missing character in base64 content behind position {end}")
        groups.append(binascii.a2b_base64(group[1]))
        end = group.end()
    return b"".join(groups)


# What String.trim takes away
_WHITE_SPACE = "".join(map(chr, range(0x21)))
_BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")
_BASE64_GROUP = re.compile("[\0- ]*([A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==))")


def write_double(value: float) -> str:
    return _number_or_string(double_text(value))


def write_float(value: float) -> str:
    return _number_or_string(float_text(value))


def _number_or_string(text: str) -> str:
    return f'"{text}"' if text[-1] in "Ny" else text  # NaN, Infinity


class _Missing:
    """What Jackson reads if there is no value at all."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()

# Longer runs of digits may exceed a float or 64 bits, so they are read exactly.
_LONG_NUMBER = re.compile(rb"[0-9.]{17}")
_LEADING_ZERO = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![\w.+-])(-?)0+(?=\d)', re.DOTALL)


def parse(raw: bytes) -> Any:
    """The JSON value of the bytes; fractions are floats if those hold all digits, else Decimals.

    Errors: ValueError. Differs: a fraction with an exponent below -9,999,999,999, which Java refuses, is 0.
    Measured, an envelope of 178 bytes: 3 us here, 11 us in parse_exact.
    """
    if not _LONG_NUMBER.search(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass  # Jackson accepts more than orjson
    return parse_exact(raw)


def parse_exact(raw: bytes) -> Any:
    """The JSON value of the bytes; every fraction is a Decimal. MISSING for white space. Errors: ValueError."""
    return next(_values(raw), MISSING)


def parse_all(raw: bytes, fractions: Callable[[Any], Any]) -> list[Any]:
    """Each JSON value of the bytes: white space or a comma may stand between two.

    `fractions` makes of values in which each fraction is a Decimal what those are to be; it is called where a double
    may not hold all digits, and for text that Jackson alone reads.
    Errors: ValueError, for what is no value behind the first one as well, and for one nested too deeply.
    """
    if not _LONG_NUMBER.search(raw):
        try:
            return [orjson.loads(raw)]
        except orjson.JSONDecodeError:
            pass  # several, or what Jackson accepts beyond orjson
    try:
        return [fractions(value) for value in _values(raw)]
    except RecursionError:
        raise ValueError("It is nested too deeply") from None


def _values(raw: bytes) -> Iterator[Any]:
    text = _decode(raw).lstrip(_JSON_SPACE)
    if _LEADING_ZERO.search(text):
        text = _LEADING_ZERO.sub(lambda match: match.group(1) or match.group(2), text)
    decoder = _DECODER_OF_SURROGATES if _SURROGATE_ESCAPE.search(text) else _DECODER
    at = 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        _check_end(value, text[at : at + 1], is_utf8=b"\0" not in raw[:4])
        yield value
        if between := _BETWEEN.match(text, at):
            at = between.end()


_JSON_SPACE = " \t\r\n"
_BETWEEN = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")


def _check_end(value: Any, follows: str, *, is_utf8: bool) -> None:
    """Refuses what Jackson does not let stand right behind a number, true, false or null; all else it ignores.

    Source: ParserBase._verifyRootSpace, UTF8StreamJsonParser._checkMatchEnd, which reads the first byte of the next
    character twice: any of several bytes is an error.
    """
    if not follows or isinstance(value, str | list | dict):
        return
    if isinstance(value, bool) or value is None:
        if is_utf8 and not follows.isascii():
            raise ValueError(f"Invalid UTF-8 behind true, false or null: {follows!r}")
        if follows >= "0" and (f"a{follows}".isidentifier() or unicodedata.category(follows) in _JAVA_IDENTIFIER_PARTS):
            raise ValueError(f"Unrecognized token: {follows!r} right behind true, false or null")
    elif follows not in " \t\r\n":
        raise ValueError(f"Expected a space behind the number, not {follows!r}")


# What Java takes in names and Python does not: currency signs, format and control characters
_JAVA_IDENTIFIER_PARTS = frozenset(("Sc", "Cf", "Cc"))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"Non-standard token '{name}'")


def _whole(text: str) -> int:
    _check_length(text)
    return int(text)


def _fraction(text: str) -> Decimal:
    """A number with point or exponent. Errors: ValueError where Java's BigDecimal, or Jackson, gives up."""
    _check_length(text)
    is_read = len(text.lower().partition("e")[2].lstrip("+-0")) <= 10
    number = Decimal(text if is_read else 0)
    if not is_read or abs(int(number.as_tuple().exponent)) > _LONGEST_SCALE:
        raise ValueError(f"Malformed numeric value: the exponent of {text[:50]} is out of range")
    return number


def _check_length(text: str) -> None:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"Number value length ({len(text)}) exceeds the maximum allowed ({_LONGEST_NUMBER})")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are texts: Jackson keeps names as UTF-8, which has no half of a surrogate pair."""
    for name, _ in members:
        if _LONE_SURROGATE.search(name):
            raise ValueError("Invalid surrogate in a name")
    return dict(members)


# Source: StreamReadConstraints.DEFAULT_MAX_NUM_LEN; a BigDecimal's scale is an int
_LONGEST_NUMBER = 1000
_LONGEST_SCALE = (1 << 31) - 1

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_DECODER = json.JSONDecoder(parse_float=_fraction, parse_int=_whole, parse_constant=_refuse_constant)
_DECODER_OF_SURROGATES = json.JSONDecoder(
    parse_float=_fraction, parse_int=_whole, parse_constant=_refuse_constant, object_pairs_hook=_object
)


def _decode(raw: bytes) -> str:
    """Text of JSON bytes in UTF-8, UTF-16 or UTF-32, detected by their mark or the positions of zeros (RFC 4627, 3)."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark) and (len(raw) >= 4 or encoding == "utf-8"):  # Jackson checks four bytes or none
            return raw[len(mark) :].decode(encoding)
    zeros = tuple(byte == 0 for byte in raw[:4])
    if len(zeros) == 4:
        if zeros[:3] == (True, True, True):
            return raw.decode("utf-32-be")
        if zeros[1:] == (True, True, True):
            return raw.decode("utf-32-le")
    if zeros[:2] == (True, False):
        return raw.decode("utf-16-be")
    if zeros[:2] == (False, True):
        return raw.decode("utf-16-le")
    return raw.decode("utf-8")


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def node_type(value: Any) -> str:
    """Jackson's name for the kind of a parsed value."""
    for kind, name in _NODE_TYPES:
        if isinstance(value, kind):
            return name
    return "MISSING"


_NODE_TYPES: tuple[tuple[Any, str], ...] = (
    (type(None), "NULL"),
    (bool, "BOOLEAN"),
    ((int, float, Decimal), "NUMBER"),
    (str, "STRING"),
    (list, "ARRAY"),
    (dict, "OBJECT"),
)
