"""Names of columns in Spark's SQL and expressions."""

from __future__ import annotations


def quoted(name: str) -> str:
    """The column of exactly this name: without back quotes Spark takes `a.b` for the field b of a struct a."""
    return "`" + name.replace("`", "``") + "`"
