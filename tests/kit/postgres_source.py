"""SqlSource from schemas of a PostgreSQL server, through the harness."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from kconnect.testing import SourceHarness

__all__ = ["BOTH", "fresh_schema", "nothing_more", "run", "source_of", "values_of"]

BOTH = {"mode": "timestamp+incrementing", "timestamp_column_name": "at", "incrementing_column_name": "id"}


def run(uri: str, *statements: Any, schema: str = "public") -> list[tuple[Any, ...]]:
    with psycopg.connect(uri, autocommit=True, options=f'-csearch_path="{schema}"') as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def source_of(uri: str, schema: str, **more: str) -> SourceHarness:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"connection.url": uri, "schema.pattern": schema, "poll.interval.ms": "20", **settings}
    return SourceHarness("SqlSource", config)


def values_of(record: Any) -> dict[str, Any]:
    return {field.name: record.value[field.name] for field in record.value_schema.fields}


def nothing_more(source: SourceHarness, polls: int = 12) -> bool:
    return not [record for _ in range(polls) for record in source.poll_once()]


def fresh_schema(uri: str, request: pytest.FixtureRequest) -> str:
    """A schema named after the test, in which unqualified names are."""
    name: str = request.node.name.partition("[")[0][5:45]
    run(uri, f'CREATE SCHEMA IF NOT EXISTS "{name}"')
    return name
