"""The rows over which SQL expressions are compared with Spark's, and one spelling for what either gives."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa

from kconnect.api import ConnectError, RetriableError
from kconnect.builtin.connectors.sql.sql_errors import Cause

_UTC = datetime.UTC

ROWS = pa.table(
    {
        "i": pa.array([1, 2, -3, 0, None], pa.int32()),
        "l": pa.array([10, -7, 9_223_372_036_854_775_807, 0, None], pa.int64()),
        "t": pa.array([100, -128, 7, 0, None], pa.int8()),
        "x": pa.array([1.5, -2.5, 1e300, math.nan, None], pa.float64()),
        "f": pa.array([0.5, -1.25, 3.4e38, 0.0, None], pa.float32()),
        "s": pa.array(["a,b,c", "Hello World", " 42 ", "Grüße", None], pa.string()),
        "j": pa.array(
            ['{"a":{"b":5},"c":[1,"x"],"n":null}', "{}", "no json", '{"a":1.50,"b":true}', None], pa.string()
        ),
        "b": pa.array([True, False, True, False, None], pa.bool_()),
        "by": pa.array([b"abc", b"", b"\x00\xff", b"Hi", None], pa.binary()),
        "d": pa.array(
            [
                datetime.date(2026, 11, 22),
                datetime.date(2024, 2, 29),
                datetime.date(1969, 12, 31),
                datetime.date(2023, 1, 31),
                None,
            ],
            pa.date32(),
        ),
        "ts": pa.array(
            [
                datetime.datetime(2026, 11, 22, 13, 14, 15, 678000, _UTC),
                datetime.datetime(2024, 2, 29, tzinfo=_UTC),
                datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, _UTC),
                datetime.datetime(2023, 1, 31, 0, 30, tzinfo=_UTC),
                None,
            ],
            pa.timestamp("ms", tz="UTC"),
        ),
        "dec": pa.array(
            [*(decimal.Decimal(text) for text in ("12.34", "-0.05", "2.50", "0.00")), None], pa.decimal128(38, 2)
        ),
        "arr": pa.array([[1, 2, 3], [], [None, 5], [7], None], pa.list_(pa.int64())),
        "st": pa.array(
            [{"f": 1, "g": "q"}, {"f": None, "g": "w"}, {"f": 3, "g": None}, {"f": 4, "g": ""}, None],
            pa.struct([("f", pa.int64()), ("g", pa.string())]),
        ),
        "m": pa.array(
            [[("k", "v")], [], [("k", None), ("z", "y")], [("q", "")], None], pa.map_(pa.string(), pa.string())
        ),
    }
)


def plain(value: Any) -> Any:
    """A value of Spark's or DuckDB's Python API as JSON has it; equal spellings mean equal values."""
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return f"decimal {value}"
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return f"bytes {bytes(value).hex()}"
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


def is_as_its_cause(cause: Cause, error: ConnectError | None, blamed: list[int], there: list[int]) -> bool:
    """Whether the error of the second of three rows was taken for what its cause is."""
    if cause.is_of_record:
        return (error, blamed, there) == (None, [1], [1, 3])
    is_passing = cause is not Cause.REFUSED
    return isinstance(error, RetriableError) is is_passing and (blamed, there) == ([], [])
