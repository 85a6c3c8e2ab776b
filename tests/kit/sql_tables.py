"""Rows through a table of a database: SqlSink writes them, SqlSource reads them as what is declared."""

from __future__ import annotations

from typing import Final

from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.testing import SinkHarness, SourceHarness
from kit.random_types import Drawn

WITH_SCHEMA: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}


def through_database(connection: dict[str, str], name: str, drawn: Drawn) -> list[str]:
    """The values that came back from a new table of that name."""
    with SinkHarness("SqlSink", {"topics": name, "auto.create": "true", **connection}) as sink:
        sink.put(*drawn.values, schema=drawn.schema)
    config = {"mode": "bulk", "table.whitelist": name, "poll.interval.ms": "20", "topic.prefix": "",
              "value.schema": drawn.ddl, **WITH_SCHEMA, **connection}  # fmt: skip
    with SourceHarness("SqlSource", config) as source:
        return sent_by(source, drawn)


def sent_by(source: SourceHarness, drawn: Drawn) -> list[str]:
    """The drawn values as a source has sent them, with their schema."""
    source.poll(len(drawn.values))
    reader = JsonConverter()
    reader.configure({}, False)
    return drawn.of_values([reader.to_connect_data("t", text).value for text in source.log.values()])
