"""A JVM that answers what Java's classes make of a case, and schemas and values as both sides write them down.

A value is null or [kind, what it is]: numbers with schema by their bits, structs by the order of their fields.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import struct
import subprocess
from decimal import Decimal as PyDecimal
from typing import Any, Self

from kconnect.api import Date, Schema, Struct, Time, Timestamp, Type
from kconnect.api.values_text import single_precision
from kconnect.java.compat.to_string import double_text
from kconnect.java.devbroker import JarSet, find_java
from kit.pace import ended
from kit.places import KIT

__all__ = ["JavaAnswers", "without_order", "written_schema", "written_value"]

PROGRAM = KIT / "java_programs/RandomCases.java"


class JavaAnswers:
    """One JVM for many questions, each a line of JSON. Used as a context manager, from one thread."""

    def __enter__(self) -> Self:
        java = find_java("Java's answers")
        jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
        command = [str(java.executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars]
        self._process = subprocess.Popen(
            [*command, "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            ended(self._process, 10)

    def ask(self, questions: list[dict[str, Any]]) -> list[Any]:
        """One answer for each. The JVM works on them while the next are written: a pipe holds 64 kB."""
        answers = []
        for ahead, question in enumerate(questions):
            self._send(question)
            if ahead >= 2:
                answers.append(self._receive())
        while len(answers) < len(questions):
            answers.append(self._receive())
        return answers

    def _send(self, question: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the JVM ended"
        return json.loads(line)


def written_schema(schema: Schema | None) -> dict[str, Any] | None:
    """A schema as RandomCases.java reads and writes it."""
    if schema is None:
        return None
    made: dict[str, Any] = {
        "type": schema.type.name,
        "optional": schema.is_optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": None if schema.parameters is None else dict(schema.parameters),
        "default": written_value(schema, schema.default),
    }
    if schema.type is Type.ARRAY:
        made["items"] = written_schema(schema.value_schema)
    if schema.type is Type.MAP:
        made |= {"keys": written_schema(schema.key_schema), "values": written_schema(schema.value_schema)}
    if schema.type is Type.STRUCT:
        made["fields"] = [[field.name, written_schema(field.schema)] for field in schema.fields]
    return made


def written_value(schema: Schema | None, value: Any) -> list[Any] | None:
    """A value as RandomCases.java reads and writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return ["int", value]
    if isinstance(value, float):
        return ["text", double_text(value)] if schema is None else ["float", _bits(schema, value)]
    if isinstance(value, str):
        return ["string", value]
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, PyDecimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return ["decimal", [str(number), -int(exponent)]]
    if isinstance(value, datetime.date | datetime.time):
        return ["date", _millis(value)]
    return _written_container(schema, value)


def _written_container(schema: Schema | None, value: Any) -> list[Any]:
    if isinstance(value, list):
        items = None if schema is None else schema.value_schema
        return ["list", [written_value(items, item) for item in value]]
    if isinstance(value, dict):
        keys, items = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        return ["map", [[written_value(keys, key), written_value(items, item)] for key, item in value.items()]]
    assert isinstance(value, Struct), value
    fields = value.schema.fields
    return ["struct", [written_value(field.schema, value.get_without_default(field)) for field in fields]]


def without_order(answer: Any) -> Any:
    """The same without the order of maps, which is that of Java's hash map, and numbers with the fewest digits.

    JDK 17 writes some floats and doubles with one digit more than they need (JDK-4511638, fixed in 19). Without a
    schema one cannot tell them apart: what has few digits is compared as a float.
    """
    if isinstance(answer, dict):
        return {key: without_order(item) for key, item in answer.items()}
    if isinstance(answer, list):
        if len(answer) == 2 and answer[0] == "map" and isinstance(answer[1], list):
            return ["map", sorted((without_order(pair) for pair in answer[1]), key=json.dumps)]
        if len(answer) == 2 and answer[0] == "text" and isinstance(answer[1], str):
            number = float(answer[1])
            is_short = sum(sign.isdecimal() for sign in answer[1].partition("E")[0]) <= 9
            return ["text", repr(single_precision(number) if is_short else number)]
        return [without_order(item) for item in answer]
    return answer


def _bits(schema: Schema, value: float) -> str:
    if value != value:
        return "2143289344" if schema.type is Type.FLOAT32 else "9221120237041090560"  # Java's one NaN
    number = struct.unpack("i", struct.pack("f", value)) if schema.type is Type.FLOAT32 else _double_bits(value)
    return str(number[0])


def _double_bits(value: float) -> tuple[Any, ...]:
    return struct.unpack("q", struct.pack("d", value))


def _millis(value: datetime.date | datetime.time) -> int:
    if isinstance(value, datetime.datetime):
        return Timestamp.from_logical(Timestamp.SCHEMA, value)
    if isinstance(value, datetime.date):
        return Date.from_logical(Date.SCHEMA, value) * 86_400_000
    return Time.from_logical(Time.SCHEMA, value)
