"""Random documents of JSON Schema as people write them, and values that are valid for them, drawn from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["random_document", "random_valid"]

_PLAIN = ("a", "b_c", "camelCase", "type", "value", "n")
_NAMES = (*_PLAIN, "b c", "d-e", "\u00fc")
_TEXTS = ("", "a", "\u00fc", "\U0001f600", "null", '"', "42", "2024-01-01T00:00:00Z")
_SYMBOLS = ("RED", "GREEN", "light blue", "x1")
_FEW = (0, 0, 1, 2, 3)
_FORMATS = ("date-time", "uuid", "email")


def random_document(random: Random, *, is_plain: bool, depth: int = 3) -> dict[str, Any]:
    """An object of up to five properties, with a title; `is_plain`: all has a place in Avro and Protobuf as well."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_Documents(random, is_plain).object(depth)}


def random_valid(random: Random, part: dict[str, Any]) -> Any:
    """A value that is valid for the document, or for a part of it."""
    if "oneOf" in part:
        return random_valid(random, random.choice(part["oneOf"]))
    if "enum" in part:
        return random.choice(part["enum"])
    if part["type"] == "array":
        return [random_valid(random, part["items"]) for _ in range(random.choice(_FEW))]
    if part["type"] == "object" and "properties" not in part:
        keys = random.sample(_TEXTS, random.choice(_FEW))
        return {key: random_valid(random, part["additionalProperties"]) for key in keys}
    if part["type"] == "object":
        needed = part.get("required", ())
        names = [name for name in part["properties"] if name in needed or random.random() < 0.7]
        return {name: random_valid(random, part["properties"][name]) for name in names}
    return {
        "null": lambda: None,
        "string": lambda: random.choice(_TEXTS),
        "integer": lambda: random.choice((0, 7, -(2**31), 2**53 + 1, -(2**63), 2**63 - 1)),
        "number": lambda: random.choice((0.5, 1.25e30, -7, 3, 1024.125)),
        "boolean": lambda: random.random() < 0.5,
    }[part["type"]]()


class _Documents:
    def __init__(self, random: Random, is_plain: bool) -> None:
        self._random = random
        self._is_plain = is_plain
        self._count = 0

    def object(self, depth: int) -> dict[str, Any]:
        self._count += 1
        title = f"com.example.Row{self._count}"
        names = self._random.sample(_PLAIN if self._is_plain else _NAMES, self._random.randint(1, 5))
        properties = {name: self._any(depth - 1) for name in names}
        needed = [name for name in names if self._random.random() < 0.5 or self._is_never_null(properties[name])]
        return {"type": "object", "title": title, "properties": properties, "required": needed}

    def _is_never_null(self, part: dict[str, Any]) -> bool:
        """A list or a map that is not there is an empty one in Protobuf."""
        return self._is_plain and bool({"items", "additionalProperties"} & part.keys())

    def _any(self, depth: int) -> dict[str, Any]:
        draw = self._random.random()
        if depth and draw < 0.15:
            return self.object(depth)
        if depth and draw < 0.3:
            inner = self._any(depth - 1)
            while self._is_plain and {"items", "oneOf", "additionalProperties"} & inner.keys():
                inner = self._any(depth - 1)
            return {"type": "array", "items": inner}
        if depth and draw < 0.37:
            inner = self._leaf() if self._is_plain else self._any(0)
            return {"type": "object", "additionalProperties": inner, "connect.type": "map"}
        if draw < 0.5:
            return {"oneOf": [{"type": "null"}, self._any(0)]}
        if depth and draw < 0.58 and not self._is_plain:
            row = self.object(1)
            row["required"] = list(row["properties"])  # an empty object could be either member
            kinds = [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, row]
            return {"oneOf": self._random.sample(kinds, self._random.randint(2, 3))}
        return self._leaf()

    def _leaf(self) -> dict[str, Any]:
        draw = self._random.random()
        if draw < 0.2:
            return {"type": "string", "enum": self._random.sample(_SYMBOLS, 3)}
        if draw < 0.3:
            return {"type": "string", "format": self._random.choice(_FORMATS)}
        if draw < 0.4:
            return {"type": "string", "description": "with words", "default": "d"}
        return {"type": self._random.choice(("string", "integer", "number", "boolean"))}
