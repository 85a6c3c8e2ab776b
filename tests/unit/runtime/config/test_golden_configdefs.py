"""Our tables against those of Java Connect 4.3.0 (tests/golden/configdefs)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kconnect.api.configdef import ConfigDef
from kconnect.runtime.config.connector_keys import CONNECTOR_CONFIG, SINK_CONFIG, SOURCE_CONFIG, topic_creation_table
from kconnect.runtime.config.key_table import define_rows
from kconnect.runtime.config.worker_config import DISTRIBUTED_CONFIG, KCONNECT_CONFIG, STANDALONE_CONFIG
from kconnect.runtime.config.worker_keys import REST
from kit.places import GOLDEN

RECORDED = GOLDEN / "configdefs"
TABLES: dict[str, ConfigDef] = {
    "ConnectorConfig": CONNECTOR_CONFIG,
    "SinkConnectorConfig": SINK_CONFIG,
    "SourceConnectorConfig": SOURCE_CONFIG,
    "TopicCreationConfig": topic_creation_table("default"),
    "DistributedConfig": DISTRIBUTED_CONFIG,
    "StandaloneConfig": STANDALONE_CONFIG,
    "RestServerConfig": define_rows(None, REST),
}


def as_golden(table: ConfigDef) -> list[dict[str, Any]]:
    """Our rows in the shape the recorder wrote Java's in, without recommender (a Java class name there)."""
    rows = []
    for key in table.config_keys.values():
        row: dict[str, Any] = {"name": key.name, "type": key.type.name, "required": not key.has_default}
        if key.has_default:
            row |= {"default": key.default, "default_string": key.default_string}
        rows.append(
            row
            | {
                "importance": key.importance.name,
                "group": key.group,
                "order_in_group": key.order,
                "width": key.width.name,
                "display_name": key.display_name,
                "dependents": list(key.dependents),
                "validator": None if key.validator is None else str(key.validator),
                "internal": key.internal,
            }
        )
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_table_has_javas_rows_in_javas_order(name: str) -> None:
    golden = json.loads((RECORDED / f"{name}.json").read_text())
    java = [{field: value for field, value in row.items() if field != "recommender"} for row in golden["keys"]]
    for row in java:
        if (row["validator"] or "").startswith("<"):  # a Java object without a text of its own
            row["validator"] = "a version or range of versions"

    assert as_golden(TABLES[name]) == java
    assert list(TABLES[name].groups) == golden["groups"]


@pytest.mark.parametrize("name", TABLES)
def test_every_setting_says_what_it_does(name: str) -> None:
    for key in [*TABLES[name].config_keys.values(), *KCONNECT_CONFIG.config_keys.values()]:
        assert len(key.doc.split()) >= 3, key.name
        assert key.doc.endswith("."), key.name
