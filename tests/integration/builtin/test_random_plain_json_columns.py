"""JSON without schema that a sink reads: where the columnar form answers, it gives what each text gives alone."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from kconnect.api import DataError
from kconnect.api.columns import values_of
from kconnect.builtin.converters.columns_from_plain_json import PlainJsonColumns
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.converters.json_converter import JsonConverter

TOPICS = 1_500

_NAMES = ("a", "b", "id", "größe", "with space", "", "a.b", "$", "\u2028", "😀", 'quo"te', "back\\slash", "null", "0")
_STRINGS = (
    *("", "x", "é😀", "\u2028\x7f", 'a"b\\c/d', "\b\f\n\r\t", "\x00\x1f", "1", "null", "2024-01-02T03:04:05Z", "[1]"),
    *("2024-01-02", "true", "},{", "\ud800", "x" * 2000, "7" * 400),
)
_WHOLE = (0, 1, -1, 42, 10**15, 2**53 + 1, 2**63 - 1, -(2**63), 1 - 2**63, 2**63, 10**19, -(10**25), 10**400)
_FRACTIONS = (0.0, -0.0, 0.5, -1.25, 1e-7, 1e22, 5e-324, 1.7976931348623157e308, 0.1, 1e16, 123456.789e3)
_NUMBERS = (
    *(
        0,
        1,
        -7,
        10**15 - 1,
        0.5,
        -12.25,
        0.1,
        1e-7,
        0.30000000000000004,
        1234567.9,
        999999999.9999,
        0.00001,
        123456.000001,
    ),
    *(
        10**15,
        10**16,
        1e21,
        1.0,
        -0.0,
        0.0,
        99999.99999999999,
        12345678901.5,
        4503599627370497.5,
        1.5e300,
        123456.9999999,
    ),
    *("as is: 1.00000000000000000001", "as is: 0.99999999999999999999", "as is: 9007199254740991.9"),
    *("as is: 1.10", "as is: 1E-9", "as is: 5.0e-7", "as is: 10.0e-8", "as is: 99999.000000000000001"),
)
_SIGNS = (
    *('"', "{", "}", "[", "]", ",", ":", "null", "1", "\\", " ", "x", "e5", "-", ".", '"\\ud83d"', "\ud800", "true"),
    *('"a":1,', "}{", "\n", "}\n{", "0", '"x":', "1.25", "007", "NaN", "\x7f", "é", "\t", "1e999", "-0", "-0.0"),
    *(
        "\ufeff",
        "\\u0041",
        "/*x*/",
        "{}",
        "[]",
        "null,",
        "1E5",
        "Infinity",
        "\u0000",
        "\x1f",
        "9" * 500 + ".5",
        "0." + "3" * 1100,
    ),
)

Maker = Callable[[], Any]


def maker(random: Random, depth: int) -> Maker:
    """Makes values of one kind, most of the time."""
    kinds = (
        [strings, wholes, fractions, numbers, flags, nothing]
        if depth == 0
        else [strings, wholes, flags, objects, lists]
    )
    make = random.choice(kinds)(random, depth)
    nulls = random.choice((0, 0, 0.2))
    other = None if random.random() < 0.9 else random.choice((strings, wholes, fractions, flags))(random, 0)

    def value() -> Any:
        if random.random() < nulls:
            return None
        return make() if other is None or random.random() < 0.9 else other()

    return value


def strings(random: Random, depth: int) -> Maker:
    few = _STRINGS[: random.choice((3, 8, len(_STRINGS)))]
    return lambda: random.choice(few)


def wholes(random: Random, depth: int) -> Maker:
    few = _WHOLE[: random.choice((4, 7, len(_WHOLE)))]
    return lambda: random.choice((random.choice(few), random.randint(-(10**6), 10**6)))


def fractions(random: Random, depth: int) -> Maker:
    few = _FRACTIONS[: random.choice((5, len(_FRACTIONS)))]
    return lambda: random.choice((random.choice(few), random.uniform(-1e6, 1e6), random.uniform(-1, 1) * 1e-9))


def numbers(random: Random, depth: int) -> Maker:
    """As JavaScript writes them, most of the time."""
    few = _NUMBERS[: random.choice((8, len(_NUMBERS)))]
    return lambda: random.choice((random.choice(few), random.randint(-99, 99), round(random.uniform(-99, 99), 2)))


def flags(random: Random, depth: int) -> Maker:
    return lambda: random.random() < 0.5


def nothing(random: Random, depth: int) -> Maker:
    return lambda: None


def lists(random: Random, depth: int) -> Maker:
    item = maker(random, depth - 1)
    return lambda: [item() for _ in range(random.randint(0, 3))]


def objects(random: Random, depth: int) -> Maker:
    members = {name: maker(random, depth - 1) for name in random.sample(_NAMES, random.randint(0, 4))}
    missing, turned = random.choice((0, 0, 0.05, 0.4)), random.choice((0, 0, 0, 0.05))

    def value() -> dict[str, Any]:
        made = {name: make() for name, make in members.items() if random.random() >= missing}
        return dict(reversed(made.items())) if random.random() < turned else made

    return value


def written(random: Random, value: Any) -> bytes:
    text = json.dumps(
        value,
        ensure_ascii=random.random() < 0.3,
        separators=random.choice(((",", ":"), (",", ":"), (", ", ": "), (" ,\t", " :  "))),
        indent=1 if random.random() < 0.01 else None,
    )
    text = re.sub('"as is: ([^"]*)"', r"\1", text)
    if random.random() < 0.02:
        text = random.choice((f" {text}", f"{text} ", f"{text}\n", f"{text} rest", text * 2))
    return text.encode("utf-8", "surrogatepass")


def damaged(random: Random, text: bytes) -> bytes:
    read = text.decode("utf-8", "surrogatepass")
    for _ in range(random.choice((1, 1, 2))):
        at = random.randint(0, len(read))
        read = read[:at] + random.choice(("", *_SIGNS)) + read[at + random.randint(0, 2) :]
    raw = read.encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        at = random.randint(0, len(raw))
        raw = raw[:at] + bytes([random.randint(0x80, 0xFF)]) + raw[at:]
    return raw


def test_random_texts_give_by_columns_what_they_give_by_records() -> None:
    random = Random(1)
    counted = collections.Counter[str]()
    for _ in range(TOPICS):
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false"}, False)
        columns = PlainJsonColumns(lambda text, converter=converter: converter.to_connect_data("t", text).value, 10)
        make = maker(random, random.choice((0, 1, 1, 2, 2, 3)))
        for _ in range(4):
            texts: list[bytes | None] = [written(random, make()) for _ in range(random.randint(1, 6))]
            if random.random() < 0.3:
                at = random.randrange(len(texts))
                texts[at] = None if random.random() < 0.3 else damaged(random, texts[at] or b"")
            counted[compared(columns, converter, texts)] += 1

    assert counted["columns"] > 4 * TOPICS * 0.3, counted


def compared(columns: PlainJsonColumns, converter: JsonConverter, texts: list[bytes | None]) -> str:
    """By what the texts were converted. Errors: AssertionError where columns, lists and single texts differ."""
    assert listed(converter, texts) == [alone_of(converter, text) for text in texts]
    try:
        column = columns.column("t", pa.array(texts, pa.binary()))
    except (ByRecordsError, DataError):
        return "records"
    alone = [converter.to_connect_data("t", text).value for text in texts]
    # repr tells 1 from 1.0 and True, 0.0 from -0.0, and one order of members from another
    for text, ours, one in zip(texts, values_of(None, column, len(texts)), alone, strict=True):
        assert repr(ours) == repr(one), text
    return "columns"


def listed(converter: JsonConverter, texts: list[bytes | None]) -> list[str]:
    """What each text gives among all that can be read; one that cannot is asked for alone, as the pipeline does."""
    try:
        schema, values = converter.to_connect_list("t", pa.array(texts, pa.binary()))
    except DataError:
        return [listed(converter, [text])[0] for text in texts] if len(texts) > 1 else ["refused"]
    assert schema is None
    return list(map(repr, values))


def alone_of(converter: JsonConverter, text: bytes | None) -> str:
    try:
        return repr(converter.to_connect_data("t", text).value)
    except DataError:
        return "refused"


def test_lists_read_hard_texts_as_single_texts_are_read() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    hard = [
        *(
            b"-0",
            b"-0.0",
            b"[-0]",
            b'{"a":-0.0}',
            b'{"a":[1,-0e5]}',
            b"-1e-400",
            b'{"a": -1.5E-999}',
            b"1e400",
            b"-1e400",
        ),
        *(b"18446744073709551616", b"[9223372036854775808]", b"1234567890123456789.5", b"9007199254740991.9"),
        *(
            b"",
            b" ",
            b"null",
            b"01",
            b"1 2",
            b"nul",
            b"1,2",
            b"[1",
            b"2]",
            b"\xff",
            "\ufeff1".encode(),
            b"[" * 300 + b"]" * 300,
        ),
        *(b"[" * 700 + b"]" * 700, b'{"a]":' * 600 + b"1" + b"}" * 600, b"0." + b"3" * 1100, "1".encode("utf-16-be")),
    ]
    for texts in ([*hard], *([text] for text in hard)):
        assert listed(converter, texts) == [alone_of(converter, text) for text in texts]
