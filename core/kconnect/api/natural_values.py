"""Values of Python code as what Connect has: objects with fields as dicts, sequences and sets as lists. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import numbers
import types
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Final

from kconnect.api.schema import Struct
from kconnect.errors import DataError

_NUMBERS: Final = frozenset((int, float, bool, decimal.Decimal))
_TIMES: Final = frozenset((datetime.datetime, datetime.date, datetime.time))
_AS_IS: Final = frozenset((str, bytes, bytearray, memoryview, type(None), Struct)) | _NUMBERS | _TIMES


def natural(value: Any) -> Any:
    """The value, and all in it, of the types that Connect has; what has no such form, and what is so, as it is.

    Java takes any Map and any List; so dicts and lists of other kinds are what they hold. Dataclasses, named tuples,
    and objects of pydantic and attrs are dicts of their fields; an enum member is its value; a UUID, a path and an IP
    address are text; whole and floating numbers of other libraries are Python's.

    Errors: DataError for a value that contains itself.
    """
    try:
        return value if type(value) in _AS_IS else _made(value)
    except RecursionError:  # whose trace has a thousand lines
        raise DataError("A value contains itself, or is nested too deeply") from None


def _made(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is dict:
        if _are_as_is(value) and _are_as_is(value.values()):
            return value
        return {_key(name): item if type(item) in _AS_IS else _made(item) for name, item in value.items()}
    if kind is list:
        return value if _are_as_is(value) else [_made(item) for item in value]
    if isinstance(value, enum.Enum):
        return _made(value.value)
    fields = _fields(value)
    return _single(value) if fields is None else _made(fields)


def _are_as_is(values: Iterable[Any]) -> bool:
    return _AS_IS.issuperset(map(type, values))


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _key(name: Any) -> Any:
    """A key stays what it is unless it is an enum's, or text of another class: lists are no keys."""
    if type(name) in _AS_IS:
        return name
    made = _made(name)
    return made if type(made) in _AS_IS else name


def _fields(value: Any) -> dict[Any, Any] | None:
    """What an object holds by name; None for one without names."""
    if isinstance(value, type):
        return None
    if is_named_tuple(value):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in value.__attrs_attrs__}
    if isinstance(value, types.SimpleNamespace):
        return vars(value)
    if isinstance(value, Mapping):
        return dict(value)
    dumped: Callable[[], Any] | None = getattr(value, "model_dump", None)  # pydantic's
    return None if dumped is None else dict(dumped())


def _single(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, decimal.Decimal | datetime.date | datetime.time):
        return value  # of a class of its own: whoever writes it knows these
    if isinstance(value, uuid.UUID | PurePath) or type(value).__module__ == "ipaddress":
        return str(value)
    if isinstance(value, Sequence | Set | deque):
        return _made(list(value))
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, Fraction):
        return float(value)
    return value
