"""Connect's values as data that JSON can hold. Pure."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Mapping
from typing import Any

from kconnect.api import Struct


def plain(value: Any) -> Any:
    """Data of JSON: bytes as {"base64": ..}, times as ISO 8601 in UTC, decimals and numbers that JSON lacks as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Struct):
        return {field.name: plain(value.get(field)) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _text(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _text(key: Any) -> str:
    import json

    return key if isinstance(key, str) else json.dumps(key)
