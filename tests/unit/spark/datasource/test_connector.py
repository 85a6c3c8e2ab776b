"""Options of format("kconnect") as the settings of a connector: spelt, checked, and refused with a sentence."""

from __future__ import annotations

import contextlib
import pickle
import re
import sqlite3

import pytest

from kconnect.api import SinkConnector, SourceConnector
from kconnect.errors import ConfigError, ConnectError
from kconnect.java.plugins import JavaSettings
from kconnect.logs import redaction
from kconnect.spark.datasource.connector import ConnectorOfFormat, process_plugins
from kconnect.spark.datasource.failures import text_of
from kconnect.spark.datasource.format import _inferred_schema
from kconnect.spark.datasource.options import OPTIONS
from kit.places import DOCS

_FILE = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
_PROVIDERS = "org.apache.kafka.common.config.provider"
_ENV = {"config.providers": "Env", "config.providers.env.class": f"{_PROVIDERS}.EnvVarConfigProvider"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"connector.class": ""}, 'Missing required configuration "connector.class"'),
        ({"connector.class": "Nothing"}, "Failed to find any class that implements Connector and which name matches"),
        ({"topc": "x"}, "Unknown setting: topc. Did you mean topic?"),
        ({"kconnect.colums": "value"}, "Unknown setting: kconnect.colums. Did you mean kconnect.columns?"),
        ({"path": "/orders.txt"}, "FileStreamSource has no setting path: /orders.txt"),
        ({"paths": '["/a"]'}, 'FileStreamSource has no setting path: ["/a"]'),
        ({"topic": ""}, "Invalid value  for configuration topic: String must be non-empty"),
        ({"batch.size": "many"}, "Invalid value many for configuration batch.size: Not a number of type INT"),
        ({"connector.class": "FileStreamSink"}, "FileStreamSinkConnector is not a source connector"),
        ({"transforms": "x"}, "transforms.x.type"),
        ({"value.converter": "Avrro"}, "Avrro"),
        ({"kconnect.max.rows": "none"}, "Invalid value none for configuration kconnect.max.rows"),
        ({"errors.deadletterqueue.topic.name": "x"}, "needs bootstrap.servers, the brokers that have the topic"),
        ({"config.providers": "env"}, "config.providers names env, but config.providers.env.class is missing"),
        ({**_ENV, "topic": "${Env:NO_SUCH_TOPIC}"}, "${Env:NO_SUCH_TOPIC} in topic of connector kconnect"),
        ({"kconnect.columns": "all"}, "String must be one of: auto, record, value"),
    ],
)
def test_wrong_options_are_refused_in_the_words_of_the_tables(change, said):
    with pytest.raises(ConfigError) as caught:
        ConnectorOfFormat({**_FILE, **change}, SourceConnector)
    text = text_of(caught.value)
    assert said in text
    assert "PluginDesc" not in text  # Java's list of all that there are


def test_what_only_a_worker_heeds_is_said_to_have_no_effect(caplog):
    given = {"kconnect.slot": "own", "errors.restart.max": "3", "kconnect.labels": "team=a"}
    ConnectorOfFormat({**_FILE, **given}, SourceConnector)
    why = "has no effect here: Spark runs the tasks, not a worker"
    assert [record.getMessage() for record in caplog.records] == [f"errors.restart.max {why}", f"kconnect.slot {why}"]


def test_names_with_capitals_come_back_from_where_they_are_known():
    lower = {
        **_FILE,
        "transforms": "Wrap,Other",
        "transforms.wrap.type": "HoistField$Value",
        "transforms.wrap.field": "Line",
        "transforms.wrap.predicate": "IsIt",
        "transforms.other.type": "InsertHeader",
        "transforms.other.header": "h",
        "transforms.other.value.literal": "x",
        "predicates": "IsIt",
        "predicates.isit.type": "TopicNameMatches",
        "predicates.isit.pattern": "t",
        "checkpointlocation": "of spark",
        "kconnect.max.rows": "7",
    }
    made = ConnectorOfFormat(lower, SourceConnector)
    assert made.options.max_rows == 7
    assert made.config == {
        **_FILE,
        "name": "kconnect",
        "transforms": "Wrap,Other",
        "transforms.Wrap.type": "HoistField$Value",
        "transforms.Wrap.field": "Line",
        "transforms.Wrap.predicate": "IsIt",
        "transforms.Other.type": "InsertHeader",
        "transforms.Other.header": "h",
        "transforms.Other.value.literal": "x",
        "predicates": "IsIt",
        "predicates.IsIt.type": "TopicNameMatches",
        "predicates.IsIt.pattern": "t",
    }
    assert [spec.transform.alias for spec in made.source_config().transforms] == ["Wrap", "Other"]


def test_settings_come_from_config_providers_and_do_not_name_them(monkeypatch, tmp_path):
    monkeypatch.setenv("TEST_TOPIC", "of-the-environment")
    (tmp_path / "s.properties").write_text("file=of-the-file\n")
    given = {
        "config.providers": "Env,file",
        "config.providers.env.class": f"{_PROVIDERS}.EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "TEST_.*",
        "config.providers.file.class": f"{_PROVIDERS}.FileConfigProvider",
        "topic": "${Env:TEST_TOPIC}",
        "file": f"${{file:{tmp_path}/s.properties:file}}",
    }
    made = ConnectorOfFormat({**_FILE, **given}, SourceConnector)
    assert made.config == {**_FILE, "name": "kconnect", "topic": "of-the-environment", "file": "of-the-file"}
    without = ConnectorOfFormat({**_FILE, "topic": "${env:TEST_TOPIC}"}, SourceConnector)
    assert without.config["topic"] == "${env:TEST_TOPIC}", "as in a worker that names no provider"


def test_plugins_of_a_process_are_found_once_and_anew_when_their_folders_change(tmp_path):
    (tmp_path / "one").mkdir()
    first = process_plugins(str(tmp_path), JavaSettings())
    assert process_plugins(str(tmp_path), JavaSettings()) is first
    (tmp_path / "two").mkdir()
    assert process_plugins(str(tmp_path), JavaSettings()) is not first


def test_dead_letters_of_a_sink_need_brokers():
    sink = {"connector.class": "FileStreamSink", "topics": "t", "errors.deadletterqueue.topic.name": "x"}
    with pytest.raises(ConfigError, match=r"needs bootstrap\.servers"):
        ConnectorOfFormat(sink, SinkConnector)
    ConnectorOfFormat({**sink, "bootstrap.servers": "b:1"}, SinkConnector)


def test_secrets_are_hidden_in_each_process_that_gets_the_connector():
    options = {"connector.class": "HttpJsonSource", "url": "http://x/", "topic": "t", "auth.token": "hunter2-hunter2"}
    made = ConnectorOfFormat({**options, "auth.type": "bearer"}, SourceConnector)
    redaction.forget("format kconnect")
    again = pickle.loads(pickle.dumps(made))
    assert redaction.redact("said hunter2-hunter2") == "said [hidden]"
    assert "hunter2" not in repr(again)
    redaction.forget("format kconnect")


def test_a_sink_needs_no_topics_where_its_rows_name_them():
    made = ConnectorOfFormat({"connector.class": "FileStreamSink", "file": "f"}, SinkConnector)
    assert made.topic is None
    named = ConnectorOfFormat({"connector.class": "FileStreamSink", "file": "f", "topics": "t"}, SinkConnector)
    assert named.topic == "t"


def test_the_root_cause_comes_first_and_the_rest_says_where_it_was():
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise ConfigError("Cannot open the file", hint="Make room.") from error
    except ConfigError as error:
        lines = text_of(error, "reading task 0").splitlines()
    assert lines[:4] == [
        "OSError: [Errno 28] No space left on device",
        "  Cannot open the file",
        "  while reading task 0",
        "Make room.",
    ]
    assert "test_connector.py" in "".join(lines[4:])  # the line that raised, as it is no error of ours


def test_the_page_lists_the_options_of_the_format_with_their_defaults():
    page = (DOCS / "notebook.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z.]+)` \| ([^|]*)\|", page, re.MULTILINE)
    assert [name for name, _ in rows] == list(OPTIONS.config_keys)
    for name, reported in rows:
        default = OPTIONS.config_keys[name].default
        if default is not None:
            assert reported.strip().strip("`") == str(default), name


_WITHOUT_FREE = {
    "transforms": "less",
    "transforms.less.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.less.exclude": "free",
}


@pytest.mark.parametrize("change", [{}, _WITHOUT_FREE])
def test_an_empty_table_has_its_columns(tmp_path, change):
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, price DECIMAL(8,2), at TIMESTAMP, free)")
    table = {"connector.class": "SqlSource", "connection.url": f"sqlite:///{tmp_path}/shop.db", "mode": "bulk"}
    options = {**table, "topic.prefix": "x", "kconnect.columns": "value", "kconnect.idle.ms": "200", **change}
    found = _inferred_schema(ConnectorOfFormat(options, SourceConnector))
    wanted = {"id": "int64", "price": "decimal128(8, 2)", "at": "timestamp[us, tz=UTC]", "free": "string"}
    if change:
        del wanted["free"]
    assert {field.name: str(field.type) for field in found} == wanted
    empty = {"connector.class": "FileStreamSource", "file": str(tmp_path / "none"), "topic": "t"}
    with pytest.raises(ConnectError, match="No record came by which to see the columns"):
        _inferred_schema(ConnectorOfFormat({**empty, "kconnect.idle.ms": "50"}, SourceConnector))
