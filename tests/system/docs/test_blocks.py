"""Every fenced block of every document is run, compared, parsed or checked; one that nothing covers fails here.

Pages are run by test_pages.
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import closing
from pathlib import Path

import pytest
import tomli
import yaml

from kconnect.java.compat.properties import parse_properties
from kconnect.runtime.config import DistributedConfig, StandaloneConfig
from kconnect.runtime.config.client_config import admin_config, consumer_config, producer_config
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry
from kconnect.worker.mirror import MirrorSettings
from kit.certificates import Authority
from kit.debezium import debezium_plugin_path, jdbc_plugin_path
from kit.documents import Block, file_name, is_for_make, screen_differs, steps_of
from kit.pages import BLOCKS, DOCUMENTS, RUN
from kit.places import ROOT

# Whole documents that another test compares with what they are made from.
_MADE = {
    "cli.md": "test_reference: its blocks are the usage lines of the commands",
    "configuration.md": "test_reference",
    "metrics.md": "tests/unit/runtime/metrics/test_catalogue.py",
}
# Blocks of other languages that another test looks at.
_LOOKED_AT = {
    ("clusters.md", "dockerfile"): "test_clusters.py",
    ("notebook.md", "pycon"): "tests/integration/spark/test_spark_format.py, where a Spark session runs",
}
_WORKER = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "connect.offsets",
}


def _how_covered(block: Block) -> str | None:
    """What looks at a block; None when nothing does."""
    if block.document in _MADE:
        return _MADE[block.document]
    if block.document in RUN and steps_of(block):
        return "run with its page"
    if is_for_make(block):
        return "test_readme: the targets are known, quickstart is run"
    if block.language in ("properties", "json", "toml", "yaml", "python"):
        return "parsed and checked here"
    return _LOOKED_AT.get((block.document, block.language))


def test_no_block_of_any_document_escapes() -> None:
    assert len(BLOCKS) > 20
    escaped = [str(block) for block in BLOCKS if _how_covered(block) is None]
    assert not escaped, f"nothing runs or checks these blocks: {escaped}"


def test_a_block_that_nothing_looks_at_and_a_screen_that_is_another_are_noticed() -> None:
    for language in ("bash", "console", "text", ""):
        assert _how_covered(Block("new.md", 1, language, "", "$ connect connectors list\n")) is None
    text = "$ connect connectors list\nNAME ..\n..\nlast\n"
    (step,) = steps_of(Block("quickstart.md", 1, "console", "", text))
    assert screen_differs(step, "NAME   TYPE\n\nlast\n") is None
    assert screen_differs(step, "NAME  a\nb\nlast\n") is None
    for other in ("", "NAME TYPE\n", "NAME TYPE\nlast\nmore\n", "first\nNAME TYPE\nlast\n"):
        assert screen_differs(step, other) is not None


def test_nothing_is_excused_that_is_not_there() -> None:
    names = {document.name for document in DOCUMENTS}
    assert {*RUN, *_MADE} <= names
    assert set(_LOOKED_AT) <= {(block.document, block.language) for block in BLOCKS}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "properties"], ids=str)
def test_settings_of_the_documents_are_known_and_valid(
    block: Block, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    Authority().file(tmp_path / "ca.pem")
    settings = parse_properties(block.text.replace("/etc/connect/", f"{tmp_path}/"), str(block))
    assert settings
    if settings.get("connector.class", "").startswith("io.debezium."):
        with closing(PluginRegistry.load(f"{debezium_plugin_path()},{jdbc_plugin_path()}")) as plugins:
            known = plugins.connector_class(settings["connector.class"])().config().names()
        # The connector's own validation would dial the database
        of_all = {"name", "connector.class", "topics", "connector.plugin.version"}
        assert {key for key in settings if not key.startswith("transforms")} <= known | of_all
        return
    if "connector.class" in settings:
        with closing(PluginRegistry.load(None)) as plugins:
            if "connection.url" in settings:  # nobody is asked: the database of a document is nowhere
                settings["connection.check.timeout.ms"] = "0"
            validator = ConnectorValidator(plugins, _WORKER, Variables())
            validator.raise_if_invalid(settings)
            assert "Unknown setting" not in caplog.text
            validator.raise_if_invalid({**settings, "tasks.maxx": "1"})
        assert "Unknown setting" in caplog.text, "it says so of others"
        return
    if "clusters" in settings:
        mirror = MirrorSettings(settings, settings)  # a reader's file has what is referred to
        assert mirror.flows()
        assert (mirror.strangers(), mirror.misspelt()) == ([], {})
        return
    kind = DistributedConfig if "group.id" in settings else StandaloneConfig
    assert kind.parse({**_WORKER, **settings}, None).unknown_keys() == []
    settings = {**_WORKER, **settings}
    for clients, warnings in (
        admin_config(settings, client_id="docs"),
        producer_config(settings, client_id="docs"),
        consumer_config(settings, {}, client_id="docs", group_id="docs"),
    ):
        assert clients["bootstrap.servers"] == settings["bootstrap.servers"]
        assert warnings == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in ("json", "toml", "yaml")], ids=str)
def test_data_of_the_documents_can_be_parsed(block: Block) -> None:
    parse = {"json": json.loads, "toml": tomli.loads, "yaml": yaml.safe_load}[block.language]
    assert parse(block.text)


def test_metrics_that_the_documents_name_are_in_the_catalogue() -> None:
    catalogue = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    named = {name for block in BLOCKS for name in re.findall(r"kafka_connect_\w+", block.text)}
    assert len(named) >= 5
    assert [name for name in sorted(named) if f"`{name}`" not in catalogue] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=str)
def test_python_of_the_documents_is_a_named_file_that_parses(block: Block) -> None:
    assert file_name(block), "its first line names its file, so that the page can run it"
    ast.parse(block.text)
