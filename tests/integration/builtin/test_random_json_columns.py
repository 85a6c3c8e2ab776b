"""JSON with schema that a sink reads: where the columnar form answers, it gives what each text gives alone."""

from __future__ import annotations

import collections
from random import Random

from kconnect.api import ConnectError, Schema, Type
from kconnect.api.columns import values_of
from kconnect.builtin.converters.json_columns import ByRecordsError
from kconnect.builtin.converters.json_converter import JsonConverter
from kit.java_answers import without_order, written_schema, written_value
from kit.random_data import random_gaps, random_struct_schema, random_value

BATCHES = 4_000
_SIGNS = (
    *('"', "{", "}", "[", "]", ",", ":", "null", "1", "\\", " ", "x", "e5", "-", ".", '"\\ud83d"', "\ud800", "true"),
    *('"a":1,', '},"payload":{', "}{", "\n", "}\n{", "0", '"x":', "1.25", "007", "NaN", ',"schema":null', "\x7f", "é"),
)


def damaged(random: Random, text: bytes) -> bytes:
    """The text, now and then with signs where they do not belong, most often in its last part."""
    if random.random() < 0.8:
        return text
    read = text.decode()
    for _ in range(random.choice((1, 1, 2))):
        at = len(read) - int(random.triangular(0, len(read), 0))
        read = read[:at] + random.choice(("", *_SIGNS)) + read[at + random.randint(0, 2) :]
    return read.encode("utf-8", "surrogatepass")


def simpler(random: Random, schema: Schema) -> bool:
    """Whether a batch with this schema is worth its while: most with maps and decimals are not."""
    text = str(written_schema(schema))
    return random.random() < 0.1 or ("'MAP'" not in text and "Decimal" not in text)


def test_random_texts_give_by_columns_what_they_give_by_records() -> None:
    random = Random(1)
    counted = collections.Counter[str]()
    while counted["batches"] < BATCHES:
        schema = random_struct_schema(random, random.choice((0, 1, 2)))
        if not simpler(random, schema):
            continue
        converter = JsonConverter()
        converter.configure({"replace.null.with.default": random.choice(("true", "false"))}, False)
        values = [random_value(random, schema, complete=random.random() < 0.5) for _ in range(random.randint(1, 5))]
        if random.random() < 0.05:
            values[0] = random_gaps(random, values[0])
        try:
            written = [converter.from_connect_data("topic", schema, value) for value in values]
        except ConnectError:
            continue
        texts = [damaged(random, text) for text in written if text is not None]
        counted["batches"] += 1
        counted[compared(converter, texts)] += 1

    assert counted["columns"] > BATCHES * 0.3, counted


def compared(converter: JsonConverter, texts: list[bytes]) -> str:
    """By what the texts were converted. Errors: AssertionError where the two differ."""
    import pyarrow as pa

    try:
        schema, column = converter.to_connect_batch("topic", pa.array(texts, pa.binary()))
    except ByRecordsError:
        return "records"
    assert schema is not None
    assert schema.type is Type.STRUCT
    each = [converter.to_connect_data("topic", text) for text in texts]
    for text, one, value in zip(texts, each, values_of(schema, column, len(texts)), strict=True):
        assert one.schema == schema, text
        ours, alone = (without_order(written_value(schema, each)) for each in (value, one.value))
        assert ours == alone, text
    return "columns"
