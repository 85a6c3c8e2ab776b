"""Validation of connector configs against what Java Connect 4.3.0 answered (tests/golden/rest/transcript.json)."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from kconnect.api import ConfigDef
from kconnect.api.config_key import MayPass
from kconnect.api.config_parse import ConfigType as Type
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.errors import BadRequestError
from kconnect.logs.log_context import current_context
from kconnect.runtime.config.labels import LABELS
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator, InvalidConnectorError
from kconnect.runtime.plugins import PluginRegistry
from kit.differences import hold_alike, numbered
from kit.places import GOLDEN

TRANSCRIPT = json.loads((GOLDEN / "rest/transcript.json").read_text())
WORKER = TRANSCRIPT["worker_properties"]
INVALID = "Connector configuration is invalid"
# Known to ExtractField alone in Java; not known there
OURS_MORE = (".field.syntax.version", ".schemas.infer.enable")


def body(entry: dict[str, Any]) -> Any:
    return json.loads(entry["request_body"])


def refused_creates() -> list[dict[str, Any]]:
    """Every create that Java refused with a list of errors."""
    return [
        entry
        for entry in TRANSCRIPT["entries"]
        if entry.get("method") == "POST"
        and entry["path"] == "/connectors"
        and INVALID in (entry.get("response_body") or "")
    ]


def validations() -> list[dict[str, Any]]:
    """Every validate request that Java answered with a report."""
    return [
        entry
        for entry in TRANSCRIPT["entries"]
        if entry.get("method") == "PUT" and entry["path"].endswith("/config/validate") and entry["status"] == 200
    ]


@pytest.fixture(scope="module")
def validator() -> ConnectorValidator:
    return ConnectorValidator(PluginRegistry.load(), WORKER)


def test_each_refused_create_says_what_java_says(validator: ConnectorValidator) -> None:
    cases = numbered(refused_creates(), lambda entry: entry["request_body"])
    assert hold_alike(cases, lambda entry: compare_refusal(entry, validator)) == 23


def compare_refusal(entry: dict[str, Any], validator: ConnectorValidator) -> None:
    request = body(entry)
    name = request.get("name")
    config = {**request["config"], "name": name.strip() if name else ""}

    with pytest.raises(InvalidConnectorError) as refused:
        validator.raise_if_invalid(config)

    assert str(refused.value) == json.loads(entry["response_body"])["message"]
    assert refused.value.problems


def comparable(report: dict[str, Any], offered: set[str]) -> dict[str, Any]:
    """A report without documentation (ours is in our own words), and with only those classes on offer that we ship;
    what Java keeps in hash order is sorted.
    """
    report["groups"].sort()
    for config in report["configs"]:
        if config["definition"] is not None:
            del config["definition"]["documentation"]
        value = config["value"]
        value["recommended_values"] = [item for item in value["recommended_values"] if item in offered]
    report["configs"].sort(key=lambda config: config["value"]["name"])
    return report


@pytest.mark.parametrize(
    ("given", "key", "reported"),
    [
        ({}, "name", "Consumer group for sink connector named workers conflicts with Connect worker group"),
        (
            {"name": "other", "consumer.override.group.id": "connect-workers"},
            "consumer.override.group.id",
            "Consumer group connect-workers conflicts with Connect worker group",
        ),
        ({"name": "other"}, None, ""),
        ({"consumer.override.group.id": "other"}, None, ""),
        ({"connector.class": "FileStreamSource", "topic": "t"}, None, ""),
    ],
    ids=["name", "override", "other name", "other group", "source"],
)
def test_a_sink_in_the_group_of_the_workers_is_refused_and_the_report_tells_it(
    given: dict[str, str], key: str | None, reported: str
) -> None:
    worker = {**WORKER, "group.id": "connect-workers", "offset.storage.topic": "offsets"}
    validator = ConnectorValidator(PluginRegistry.load(), worker)
    config = {"name": "workers", "connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/f", **given}
    found = {
        info.value.name: info.value.error_messages
        for info in validator.validate(config).configs
        if info.value and info.value.error_messages
    }
    assert found == ({} if key is None else {key: [f"{reported} connect-workers"]})
    if key is not None:
        with pytest.raises(InvalidConnectorError, match=reported):
            validator.raise_if_invalid(config)


def test_each_validation_report_is_javas(validator: ConnectorValidator) -> None:
    cases = numbered(validations(), lambda entry: entry["request_body"][100:200])
    assert hold_alike(cases, lambda entry: compare_report(entry, validator)) == 18


def compare_report(entry: dict[str, Any], validator: ConnectorValidator) -> None:
    config = {key: None if value is None else str(value) for key, value in body(entry).items()}
    ours_alone = ("io.confluent.", "io.apicurio.", "kconnect.")  # Java has the first two where they are installed
    classes = (plugin.class_name for plugin in validator.plugins.describe())
    offered = {"4.3.0", *(name for name in classes if not name.startswith(ours_alone))}

    java = comparable(json.loads(entry["response_body"]), offered)
    ours = comparable(validator.validate(config).to_json(), offered)

    without_ours(ours, {setting["value"]["name"] for setting in java["configs"]}, java)
    assert ours == java


def without_ours(ours: dict[str, Any], known_to_java: set[str], java: dict[str, Any]) -> None:
    """Takes the settings that more of our plugins have out of a report, and the places they moved others to."""
    more = [
        setting
        for setting in ours["configs"]
        if setting["value"]["name"].endswith(OURS_MORE) and setting["value"]["name"] not in known_to_java
    ]
    ours["configs"] = [setting for setting in ours["configs"] if setting not in more]
    groups = {setting["definition"]["group"] for setting in more}
    for setting in [*ours["configs"], *java["configs"]]:
        if setting["definition"] is not None and setting["definition"]["group"] in groups:
            del setting["definition"]["order_in_group"]


def test_settings_stand_in_javas_order(validator: ConnectorValidator) -> None:
    entry = validations()[0]
    java = json.loads(entry["response_body"])

    ours = validator.validate(body(entry)).to_json()

    assert [config["value"]["name"] for config in ours["configs"]] == [
        config["value"]["name"] for config in java["configs"]
    ]


def test_a_config_without_class_is_refused_without_telling_secrets(validator: ConnectorValidator) -> None:
    with pytest.raises(BadRequestError) as refused:
        validator.validate({"name": "v", "db.password": "hunter2"})

    assert str(refused.value) == "Connector config {name=v, db.password=[hidden]} contains no connector type"


def test_an_unknown_class_is_a_bad_request_in_javas_words(validator: ConnectorValidator) -> None:
    with pytest.raises(BadRequestError, match=r"^Failed to find any class that implements Connector and which name"):
        validator.validate({"name": "v", "connector.class": "no.Such"})


@pytest.mark.parametrize(
    ("key", "name", "meant"),
    [
        ("key.converter", "JsonConvertr", "JsonConverter"),
        ("value.converter", "org.apache.kafka.connect.storage.StringConvertor", "StringConverter"),
        ("header.converter", "SimpleHeaderConvertor", "SimpleHeaderConverter"),
        ("transforms.a.type", "RegexRoutr", "RegexRouter"),
        ("transforms.a.type", "org.apache.kafka.connect.transforms.HoistFeild$Value", "HoistField$Value"),
        ("transforms.a.type", "HoistField", "HoistField$Key or HoistField$Value"),
        ("predicates.p.type", "TopicNameMatch", "TopicNameMatches"),
    ],
)
def test_an_unknown_class_is_reported_with_its_setting_and_the_nearest_there_is(
    validator: ConnectorValidator, key: str, name: str, meant: str
) -> None:
    config = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", "transforms": "a", "predicates": "p"}
    others = {"transforms.a.type": "Filter", "predicates.p.type": "RecordIsTombstone"}

    with pytest.raises(InvalidConnectorError) as refused:
        validator.raise_if_invalid({**config, **others, key: name})

    message = f"Invalid value {name} for configuration {key}: Class {name} could not be found. Did you mean {meant}?"
    assert message in str(refused.value).splitlines()
    assert [problem.key for problem in refused.value.problems] == [key]


def test_an_unknown_connector_is_reported_with_the_nearest_there_is(validator: ConnectorValidator) -> None:
    with pytest.raises(InvalidConnectorError) as refused:
        validator.validate({"connector.class": "FileStreamSorce", "name": "v", "topic": "t"})

    assert str(refused.value).endswith("} Did you mean FileStreamSource?")
    (problem,) = refused.value.problems
    assert (problem.key, problem.value) == ("connector.class", "FileStreamSorce")


def test_a_transformation_that_is_not_shipped_is_not_taken_for_another(validator: ConnectorValidator) -> None:
    name = "org.apache.kafka.connect.transforms.Explode$Value"
    config = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", "transforms": "a"}

    infos = validator.validate({**config, "transforms.a.type": name})

    assert infos.errors == [
        f"Invalid value {name} for configuration transforms.a.type: Class {name} could not be found."
    ]


def test_settings_that_nobody_knows_are_warned_of_once(
    validator: ConnectorValidator, caplog: pytest.LogCaptureFixture
) -> None:
    props = {
        "name": "typos",
        "connector.class": "FileStreamSource",
        "topic": "t",
        "flie": "/tmp/x",
        "errors.tolerence": "all",
        "producer.override.linger.ms": "1",
        "value.converter.schemas.enable": "false",
        "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.hoist.feld": "line",
    }

    validator.raise_if_invalid(props)
    validator.raise_if_invalid(props)

    reported = [text for text in caplog.messages if "Unknown setting" in text]
    assert reported == [
        f"Unknown setting of connector typos: {reported}"
        for reported in (
            "flie. Did you mean file?",
            "errors.tolerence. Did you mean errors.tolerance?",
            "transforms.hoist.feld. Did you mean transforms.hoist.field?",
        )
    ]


_ICEBERG = {"table.format": "iceberg", "table.catalog.type": "sql", "table.catalog.uri": "sqlite://"}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("TableSink", {"topics": "t", **_ICEBERG, "table.catalog.warehouse": "/w", "table.properties.x": "y"}),
        ("TableSink", {"topics": "t", "table.format": "delta", "table.path": "s3://b/t", "table.storage.region": "r"}),
        ("ObjectSource", {"topic": "t", "object.url": "/in", "object.options.anon": "true"}),
        ("PythonSource", {"topic": "t", "function": "json:dumps", "function.args.obj": "5"}),
        ("SqlSink", {"topics": "t", "connection.url": "sqlite:///x.db", "connection.arg.timeout": "5"}),
        ("HttpJsonSource", {"topic": "t", "url": "http://localhost", "header.Accept": "application/json"}),
        ("SparkSink", {"topics": "t", "spark.format": "parquet", "spark.options.path": "/t"}),
        ("SparkSource", {"topic": "t", "spark.format": "parquet", "spark.options.path": "/t", "cursor.column": "id"}),
    ],
)
def test_settings_whose_names_users_choose_are_no_unknown_ones(
    validator: ConnectorValidator, caplog: pytest.LogCaptureFixture, kind: str, settings: dict[str, str]
) -> None:
    validator.raise_if_invalid({"name": "n", "connector.class": kind, **settings})
    assert "Unknown setting" not in caplog.text


class WithoutTable(StringConverter):
    """Its settings cannot be reported, which is logged."""

    def config(self) -> Any:
        return None


class WithFailingCheck(StringConverter):
    """The check of its setting fails, instead of saying what is wrong."""

    class Fails:
        def ensure_valid(self, name: str, value: Any) -> None:
            if value:
                raise KeyError(value)

    def config(self) -> ConfigDef:
        return ConfigDef().define("pace", Type.STRING, "", self.Fails())


def test_a_check_of_a_converter_that_fails_is_an_error_of_the_converters_setting(validator: ConnectorValidator) -> None:
    props = {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}
    infos = validator.validate(props | {"value.converter": f"{__name__}:WithFailingCheck", "value.converter.pace": "x"})
    errors = {info.value.name: info.value.error_messages for info in infos.configs if info.value}
    assert errors["value.converter"] == ["Failed to perform config validation for value converter: 'x'"]


def test_lines_written_during_validation_say_so(validator: ConnectorValidator) -> None:
    seen = []

    class Contexts(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(current_context())

    handler = Contexts()
    logging.getLogger("kconnect.runtime.herder.validation.connector_checks").addHandler(handler)
    props = {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}
    validator.validate(props | {"value.converter": f"{__name__}:WithoutTable"})
    logging.getLogger("kconnect.runtime.herder.validation.connector_checks").removeHandler(handler)

    assert seen == ["[c|validate] "]
    assert current_context() == ""


def test_a_query_that_does_not_parse_is_refused_with_its_place(validator: ConnectorValidator) -> None:
    config = {
        "name": "sql",
        "connector.class": "FileStreamSource",
        "topic": "t",
        "transforms": "sql",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT upper(name AS name FROM records",
        "transforms.sql.predicate": "rich",
        "predicates": "rich",
        "predicates.rich.type": "SqlPredicate",
        "predicates.rich.condition": "amount >",
    }
    with pytest.raises(InvalidConnectorError) as caught:
        validator.raise_if_invalid(config)
    found = {problem.key: problem.message for problem in caught.value.problems}
    assert "It does not parse at line 1, column 27: expecting ) near 'FROM'" in found["transforms.sql.query"]
    assert "It does not parse at line 1, column 8: something is missing near '>'" in found["predicates.rich.condition"]


def test_labels_are_checked_and_leave_the_answer_as_java_gives_it(validator: ConnectorValidator) -> None:
    sink = {"name": "a", "connector.class": "FileStreamSink", "topics": "t", "file": "/out"}
    assert validator.validate({**sink, LABELS: "team=x,env=prod"}) == validator.validate(sink)
    with pytest.raises(
        InvalidConnectorError, match=r"Invalid value team for configuration kconnect\.labels: team is not"
    ):
        validator.raise_if_invalid({**sink, LABELS: "team"})


def test_slots_of_its_own_are_checked_and_leave_the_answer_as_java_gives_it(validator: ConnectorValidator) -> None:
    sink = {"name": "a", "connector.class": "FileStreamSink", "topics": "t", "file": "/out"}
    own = {"kconnect.slot": "own", "kconnect.slot.memory": "512m", "kconnect.slot.cores": "1"}
    assert validator.validate({**sink, **own}) == validator.validate(sink)
    with pytest.raises(
        InvalidConnectorError, match=r"kconnect\.slot\.memory bounds a slot of the connector's own: set "
    ):
        validator.raise_if_invalid({**sink, "kconnect.slot.memory": "512m"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("kconnect.slot", "own"), ("errors.restart.max", "3"), ("kconnect.labels", "team=x")],
)
def test_what_is_read_as_it_is_written_has_no_reference(
    validator: ConnectorValidator, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    monkeypatch.setenv("OF_THE_TEST", value)
    sink = {"name": "a", "connector.class": "FileStreamSink", "topics": "t", "file": "/out"}
    validator.raise_if_invalid({**sink, key: value})
    with pytest.raises(InvalidConnectorError, match=f"{re.escape(key)} is read as it is written"):
        validator.raise_if_invalid({**sink, key: "${env:OF_THE_TEST}"})


def test_a_database_that_is_away_is_reported_as_what_may_pass(validator: ConnectorValidator) -> None:
    props = {"name": "n", "connector.class": "SqlSink", "topics": "t", "connection.url": "postgresql://127.0.0.1:1/d"}
    with pytest.raises(InvalidConnectorError, match=r"The database cannot be reached: .*Connection refused") as caught:
        validator.raise_if_invalid(props)
    assert [(one.key, type(one.message)) for one in caught.value.problems] == [("connection.url", MayPass)]
    assert validator.validate({**props, "connection.check.timeout.ms": "0"}).errors == []


@pytest.mark.parametrize(
    ("connector", "key", "url"),
    [
        ("SqlSink", "connection.url", "jdbc:postgresql://h/d?user=u&password=s3cret&socketTimeout=soon"),
        ("SqlSource", "connection.url", "postgresql://u:s3cret@h/d"),
        ("HttpJsonSource", "url", "https://u:s3cret@h/items"),
    ],
)
def test_no_password_of_a_url_is_in_the_answer(
    validator: ConnectorValidator, connector: str, key: str, url: str
) -> None:
    found = validator.validate({"connector.class": connector, "name": "n", "topics": "t", "topic": "t", key: url})
    text = json.dumps(found.to_json())
    assert "s3cret" not in text
    assert "s3cret" not in "".join(found.errors)
    assert "[hidden]" in text


SOURCE = {"name": "x", "connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines"}
SINK = {"name": "x", "connector.class": "FileStreamSink", "file": "out.txt", "topics": "lines"}
ROUTER = {
    "transforms": "r",
    "transforms.r.type": "RegexRouter",
    "transforms.r.regex": "a",
    "transforms.r.replacement": "b",
}
DLQ = "errors.deadletterqueue.topic.name"


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({**SOURCE, "topic": "lines with space"}, "topic"),
        ({**SOURCE, DLQ: "a b", "errors.tolerance": "all"}, DLQ),
        ({**SINK, "topics": "lines,a b"}, "topics"),
        ({**SINK, DLQ: "caf\u00e9"}, DLQ),
        ({**SINK, **ROUTER, "topics": "a b"}, "topics"),
    ],
)
def test_a_name_that_no_topic_can_have_is_refused_with_the_setting(
    validator: ConnectorValidator, config: dict[str, str], key: str
) -> None:
    with pytest.raises(InvalidConnectorError, match=f"{key}: '.*' cannot be the name of a topic") as refused:
        validator.raise_if_invalid(config)
    assert [problem.key for problem in refused.value.problems] == [key]
    assert ("transforms.rename.type=RegexRouter" in str(refused.value)) == (key == "topic")


def test_a_name_that_a_transformation_may_change_is_taken(validator: ConnectorValidator) -> None:
    validator.raise_if_invalid({**SOURCE, **ROUTER, "topic": "lines with space"})


def test_a_declared_schema_that_does_not_parse_is_an_error_of_its_setting(validator: ConnectorValidator) -> None:
    with pytest.raises(InvalidConnectorError, match="decimal") as refused:
        validator.raise_if_invalid({**SINK, "value.schema": "id bigint, price decimal(99,2)"})
    assert [problem.key for problem in refused.value.problems] == ["value.schema"]
    validator.raise_if_invalid({**SINK, "value.schema": "id bigint, price decimal(12,2)"})
