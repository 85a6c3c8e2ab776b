"""Values of Python code become what Connect has; what is that already is left as it is."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import numbers
import types
import uuid
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import attrs
import pydantic
import pytest

from kconnect.api import DataError, SchemaBuilder, Struct
from kconnect.api.natural_values import natural
from kconnect.java.compat.json_writer import JsonWriter
from kconnect.java.compat.to_string import java_text

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Place(NamedTuple):
    name: str
    level: Level


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    place: Place
    at: datetime.datetime


@attrs.frozen
class Order:
    id: int
    color: Color


class Customer(pydantic.BaseModel):
    id: uuid.UUID
    since: datetime.date
    limit: decimal.Decimal


class Whole:
    """A number as NumPy's are: of its own class, and known to `numbers`."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value


numbers.Integral.register(Whole)


class Raw(bytes): ...


class Text(str): ...


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (Place("north", Level.HIGH), {"name": "north", "level": 3}),
        (Reading(Place("north", Level.HIGH), NOON), {"place": {"name": "north", "level": 3}, "at": NOON}),
        (Order(1, Color.RED), {"id": 1, "color": "red"}),
        (
            Customer(id=uuid.UUID(int=5), since=NOON.date(), limit=decimal.Decimal("1.10")),
            {"id": "00000000-0000-0000-0000-000000000005", "since": NOON.date(), "limit": decimal.Decimal("1.10")},
        ),
        (types.SimpleNamespace(a=[Color.RED]), {"a": ["red"]}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (types.MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        ({Color.RED: 1, (1, 2): 2}, {"red": 1, (1, 2): 2}),
        ([{1}, frozenset(), collections.deque("ab"), range(2), ()], [[1], [], ["a", "b"], [0, 1], []]),
        ([PurePosixPath("/x"), ipaddress.ip_address("10.0.0.1")], ["/x", "10.0.0.1"]),
        ([Whole(7), Level.HIGH, True], [7, 3, True]),
        ([Raw(b"x"), Text("y")], [b"x", "y"]),
    ],
)
def test_what_python_code_has_is_what_connect_has(value: Any, made: Any) -> None:
    found = natural(value)
    assert found == made
    assert repr(found) == repr(made), "the types, too"
    assert natural(found) == found


def test_what_connect_has_and_what_nothing_is_known_of_stay() -> None:
    schema = SchemaBuilder.struct().field("a", SchemaBuilder.int32()).build()
    for value in (NOON, decimal.Decimal("1.10"), b"\xff", 2**70, None, Struct(schema), Fraction(1, 3), 1j, Color):
        assert natural(value) is value
        assert natural([value, {"a": value}]) == [value, {"a": value}]
    plain = {"a": [1, None], "b": {"c": 1.5}}
    assert natural(plain["a"]) is plain["a"]
    assert natural(plain["b"]) is plain["b"]


def test_a_value_in_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["me"] = [circle]
    with pytest.raises(DataError, match="A value contains itself"):
        natural(circle)


def test_a_value_from_any_plugin_is_written_as_the_map_and_the_list_that_it_is() -> None:
    """In Java each Map is a map: that of a connector of one's own is one, too."""
    value = collections.OrderedDict(a=(1, Color.RED), b=collections.defaultdict(int, x=1))
    writer = JsonWriter(numeric_decimals=False, replace_null_with_default=True, cache_size=1)
    assert writer.value(None, value) == '{"a":[1,"red"],"b":{"x":1}}'
    assert java_text(value) == "{a=[1, red], b={x=1}}"
    assert java_text(Color.RED) == "red"


@pytest.mark.parametrize("value", [datetime.timedelta(1), 1j, object(), iter([])])
def test_what_has_no_form_is_refused_by_its_type(value: Any) -> None:
    writer = JsonWriter(numeric_decimals=False, replace_null_with_default=True, cache_size=1)
    with pytest.raises(DataError, match=rf"{type(value).__name__} has no form in JSON"):
        writer.value(None, {"a": value})
