"""Numbers by the digits that their text has, and JSON that keeps them. Pure."""

from __future__ import annotations

import decimal
import json
import math
import re
from typing import Any, Final

from kconnect.builtin.types.column_type import ColumnType
from kconnect.builtin.types.fitting import misfit


def exact_json(raw: bytes | str) -> Any:
    """The value of a text of JSON, in which a fraction that no double holds is a Decimal. Errors: ValueError."""
    return json.loads(raw, parse_float=_fraction)


def doubles(value: Any) -> Any:
    """A value of JSON whose fractions are Decimals, with floats in place of those that a double holds."""
    if isinstance(value, decimal.Decimal):
        return _fraction(str(value))
    if isinstance(value, dict):
        return {name: doubles(part) for name, part in value.items()}
    return [doubles(part) for part in value] if isinstance(value, list) else value


def _fraction(text: str) -> float | decimal.Decimal:
    double, exact = float(text), decimal.Decimal(text)
    return double if math.isfinite(double) and decimal.Decimal(repr(double)) == exact else exact


def json_of(text: str, begins: str) -> Any:
    """What a text of JSON holds, as a column of CSV has lists; the text itself if it is none, or nested too deeply."""
    if not text.lstrip()[:1] or text.lstrip()[:1] not in begins:
        return text
    try:
        return exact_json(text)
    except (ValueError, RecursionError):
        return text


def number_of(value: Any, kind: ColumnType) -> decimal.Decimal:
    """The number as its digits say: a float by the fewest that tell it from others, as JSON had it."""
    if isinstance(value, decimal.Decimal):
        number = value
    elif isinstance(value, int) and not isinstance(value, bool):
        number = decimal.Decimal(value)
    elif isinstance(value, float):
        number = decimal.Decimal(repr(value))
    elif isinstance(value, str) and _NUMBER.fullmatch(value):
        number = decimal.Decimal(value.strip())
    else:
        raise misfit(value, kind)
    # A number such as 1e999999999 is short, and its digits fill the memory
    if not number.is_finite() or abs(number.adjusted()) > _MOST_ZEROS:
        raise misfit(value, kind)
    return number


_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_MOST_ZEROS: Final = 400
