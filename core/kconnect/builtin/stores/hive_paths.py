"""Folders that are columns, as Hive, Spark, pyarrow and DuckDB name them: country=DE. Pure."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value of a column that has none, or an empty text."""

# What Spark escapes, and backslashes. Letters beyond ASCII stay: Spark would read each of their bytes as one
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")


def escaped(text: str) -> str:
    """A text as part of a folder's name, never another folder."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def folder_value(value: Any) -> str:
    """A column's value in the name of its folder."""
    if value is None:
        return HIVE_NULL
    return escaped(str(value).lower() if isinstance(value, bool) else str(value)) or HIVE_NULL


def folder_name(name: str, value: Any) -> str:
    """The folder of the rows that have this value."""
    return f"{escaped(name)}={folder_value(value)}"


def path_columns(path: str) -> dict[str, str | None]:
    """The columns that folders of a path name, such as country=DE: texts, as they were before they were escaped.

    The partition=3 of an object that a sink of Connect named, orders+3+.., is Kafka's partition, no field of its rows.
    """
    found: dict[str, str | None] = {}
    *folders, file = path.split("/")
    for part in folders:
        name, sign, value = part.partition("=")
        if sign and name and not (name == "partition" and f"+{value}+" in file):
            found[urllib.parse.unquote(name)] = None if value == HIVE_NULL else urllib.parse.unquote(value)
    return found
