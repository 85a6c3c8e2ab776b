"""Random schemas, values and texts through Java's JsonConverter (4.3) and ours: the same bytes, schemas and values.

KCONNECT_RANDOM_CASES=1000000 makes more of them (`make differential`), KCONNECT_RANDOM_SEED others.
"""

from __future__ import annotations

import base64
import collections
import json
import os
from random import Random
from typing import Any

import pytest

from kconnect.api import ConnectError, DataError, Schema
from kconnect.builtin.converters.json_converter import JsonConverter
from kit.java_answers import JavaAnswers, without_order, written_schema, written_value
from kit.random_data import random_gaps, random_plain, random_schema, random_value

pytestmark = pytest.mark.java

CASES = int(os.environ.get("KCONNECT_RANDOM_CASES", "20000"))
SEED = int(os.environ.get("KCONNECT_RANDOM_SEED", "1"))
VALUES, TEXTS = 4, 3
ROUND = 200

# What Java's own slips raise, where ours says what is wrong.
SLIPS = {"NullPointerException", "ClassCastException", "ArithmeticException", "NumberFormatException"}
_SIGNS = ('"', "{", "}", "[", "]", ",", ":", "null", "1", "\\", " ", "x", "e5", "-", ".", '"\\ud83d"', "\ud800", "true")


class Question:
    """One converter with its settings, a schema, values of it, and texts to read."""

    def __init__(self, random: Random) -> None:
        self.config = {"schemas.enable": random.choice(("true", "true", "false"))}
        if random.random() < 0.4:
            self.config["decimal.format"] = random.choice(("BASE64", "NUMERIC", "numeric"))
        if random.random() < 0.2:
            self.config["replace.null.with.default"] = "false"
        if random.random() < 0.1:
            self.config["schema.content"] = random.choice((_content(random), _content(random), ""))
        self.is_key = random.random() < 0.3
        self.schema = None if random.random() < 0.25 else random_schema(random)
        self.values = [_value(random, self.schema) for _ in range(VALUES)]
        self.texts = [self._text(random) for _ in range(TEXTS)]

    def _text(self, random: Random) -> bytes | None:
        """A text that the converter wrote, or a plain one, most often damaged."""
        if random.random() < 0.1:
            return random.choice((None, b"", b" ", b"null", b"{}", b'{"schema":null,"payload":null}'))
        if random.random() < 0.4:
            text = json.dumps(_jsonable(random_plain(random)), ensure_ascii=random.random() < 0.5)
        else:
            try:
                text = (_written(self.converter(), self.schema, self.values[0]) or b"").decode()
            except ConnectError:
                text = "{}"
        for _ in range(random.choice((0, 1, 1, 2))):
            at = random.randint(0, len(text))
            text = text[:at] + random.choice(("", *_SIGNS)) + text[at + random.randint(0, 2) :]
        return text.encode("utf-8", "replace")

    def converter(self) -> JsonConverter:
        made = JsonConverter()
        made.configure(self.config, self.is_key)
        return made

    def asked(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "isKey": self.is_key,
            "schema": written_schema(self.schema),
            "values": [written_value(self.schema, value) for value in self.values],
            "texts": [None if text is None else base64.b64encode(text).decode() for text in self.texts],
        }


def _content(random: Random) -> str:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, False)
    schema = random_schema(random, 1)
    written = _written(converter, schema, random_value(random, schema, complete=True)) or b"{}"
    content: str = json.dumps(json.loads(written).get("schema"))
    return content


def _value(random: Random, schema: Schema | None) -> Any:
    if schema is None:
        return random_plain(random)
    made = random_value(random, schema)
    return random_gaps(random, made) if random.random() < 0.02 else made


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _written(converter: JsonConverter, schema: Schema | None, value: Any) -> bytes | None:
    return converter.from_connect_data("topic", schema, value)


def read(converter: JsonConverter, text: bytes | None) -> Any:
    try:
        made = converter.to_connect_data("topic", text)
    except ConnectError as error:
        return error
    return [written_schema(made.schema), written_value(made.schema, made.value)]


def answers_of(question: Question) -> list[Any]:
    try:
        converter = question.converter()
    except ConnectError as error:
        return [error]
    made: list[Any] = []
    for value in question.values:
        try:
            written = _written(converter, question.schema, value)
        except ConnectError as error:
            made.append(error)
        else:
            made.append({"bytes": None if written is None else written.decode(), "back": read(converter, written)})
    return made + [read(converter, text) for text in question.texts]


def agrees(ours: Any, java: Any) -> bool:
    if isinstance(ours, ConnectError):
        if not isinstance(java, dict) or "error" not in java:
            return "outside the years" in str(ours)
        return java["error"] in SLIPS or (java["error"] != "DataException") or isinstance(ours, DataError)
    if isinstance(ours, dict) and isinstance(java, dict) and "bytes" in java:
        return ours["bytes"] == java["bytes"] and agrees(ours["back"], java["back"])
    return without_order(low_bits(ours)) == without_order(java)


def low_bits(value: Any) -> Any:
    """Whole numbers of values without schema as Java has them: the low 64 bits, where ours keep all of them."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "int":
        return ["int", (value[1] + 2**63) % 2**64 - 2**63]
    return [low_bits(item) for item in value] if isinstance(value, list) else value


def test_random_values_and_texts_are_converted_as_by_java() -> None:
    random, done = Random(SEED), 0
    counted = collections.Counter[str]()
    differing = []
    with JavaAnswers() as java:
        while done < CASES:
            questions = [Question(random) for _ in range(ROUND)]
            for question, theirs in zip(questions, java.ask([q.asked() for q in questions]), strict=True):
                ours = answers_of(question)
                counted["done"] += sum(not isinstance(each, ConnectError) for each in ours)
                for index, (mine, answer) in enumerate(zip(ours, theirs, strict=True)):
                    if not agrees(mine, answer):
                        given = (question.asked()["values"] + question.texts)[index] if len(ours) > 1 else None
                        differing.append((question.config, written_schema(question.schema), given, mine, answer))
                done += len(ours)
    assert not differing, (
        "\n\n".join("\n  ".join(map(str, case)) for case in differing[:5]) + f"\n{len(differing)} in all"
    )
    assert counted["done"] > CASES / 2, counted
