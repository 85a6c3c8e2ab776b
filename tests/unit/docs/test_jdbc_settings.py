"""docs/databases.md says of each setting of Confluent's JDBC connectors what the code does with it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kconnect.builtin.connectors.sql import sql_config, sql_source_config
from kconnect.builtin.connectors.sql.sql_sink import SqlSinkConnector
from kconnect.builtin.connectors.sql.sql_source import SqlSourceConnector
from kit.places import ROOT

CONNECTORS = {
    "JdbcSourceConnector": (sql_source_config.CONFIG, SqlSourceConnector, {"mode": "bulk", "topic.prefix": "t"}),
    "JdbcSinkConnector": (sql_config.CONFIG, SqlSinkConnector, {}),
}


def said_of(name: str) -> dict[str, str]:
    """Each setting in a connector's table, with what becomes of it."""
    page = (ROOT / "docs/databases.md").read_text()
    table = page.split(f"of `{name}`", 1)[1].split("|---|---|---|", 1)[1].split("\n\n", 1)[0]
    found: dict[str, str] = {}
    for line in table.strip().splitlines():
        settings, verdict, _ = (cell.strip() for cell in line.strip("|").split("|"))
        for setting in re.findall(r"`([^`]+)`", settings):
            assert setting not in found, setting
            found[setting] = verdict
    return found


@pytest.mark.parametrize("name", CONNECTORS)
def test_each_setting_is_in_the_table_and_does_what_it_says(name: str) -> None:
    config, connector, needed = CONNECTORS[name]
    said = said_of(name)
    assert {*said.values()} <= {"same", "differs", "no effect", "refused", "ours"}
    refused = {setting for setting, verdict in said.items() if verdict == "refused"}
    assert {*said} - refused - {"connection.NAME"} == {*config.config_keys}
    for setting, verdict in said.items():
        documentation = config.config_keys[setting].doc if setting in config.config_keys else ""
        assert (verdict == "no effect") == ("Accepted for Confluent's sake" in documentation), setting
    base = {"connection.url": "jdbc:sqlite::memory:", **needed}
    assert not errors(connector(), base)
    for setting in sorted(refused):
        assert any(setting in message for message in errors(connector(), {**base, setting: "x"})), setting


def errors(connector: Any, config: dict[str, str]) -> list[str]:
    return [message for value in connector.validate(config).config_values for message in value.error_messages]
