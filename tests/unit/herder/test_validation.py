"""Validation of connector configs against what Java Connect 4.3.0 answered (tests/golden/rest/transcript.json)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigValue, ConnectorClientConfigOverridePolicy, ConnectorClientConfigRequest
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.errors import BadRequestError, ConfigError
from kconnect.herder.validation.connector_checks import ConnectorValidator, InvalidConnectorError
from kconnect.herder.validation.override_policies import load_policy
from kconnect.labels import LABELS
from kconnect.logs import current_context
from kconnect.plugins import PluginRegistry

TRANSCRIPT = json.loads((Path(__file__).parents[2] / "golden" / "rest" / "transcript.json").read_text())
WORKER = TRANSCRIPT["worker_properties"]
INVALID = "Connector configuration is invalid"

# Known to ExtractField alone in Java.
NESTED_FIELDS = ".field.syntax.version"


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


@pytest.mark.parametrize("entry", refused_creates(), ids=lambda entry: entry["request_body"][:60])
def test_a_refused_create_says_what_java_says(entry: dict[str, Any], validator: ConnectorValidator) -> None:
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
    ("given", "key", "told"),
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
    given: dict[str, str], key: str | None, told: str
) -> None:
    worker = {**WORKER, "group.id": "connect-workers", "offset.storage.topic": "offsets"}
    validator = ConnectorValidator(PluginRegistry.load(), worker)
    config = {"name": "workers", "connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/f", **given}
    found = {
        info.value.name: info.value.error_messages
        for info in validator.validate(config).configs
        if info.value and info.value.error_messages
    }
    assert found == ({} if key is None else {key: [f"{told} connect-workers"]})
    if key is not None:
        with pytest.raises(InvalidConnectorError, match=told):
            validator.raise_if_invalid(config)


@pytest.mark.parametrize("entry", validations(), ids=lambda entry: entry["request_body"][100:200])
def test_a_validation_report_is_javas(entry: dict[str, Any], validator: ConnectorValidator) -> None:
    config = {key: None if value is None else str(value) for key, value in body(entry).items()}
    ours_alone = ("io.confluent.", "io.apicurio.", "kconnect.")  # Java has the first two where they are installed
    classes = (plugin.class_name for plugin in validator.plugins.describe())
    offered = {"4.3.0", *(name for name in classes if not name.startswith(ours_alone))}

    java = comparable(json.loads(entry["response_body"]), offered)
    ours = comparable(validator.validate(config).to_json(), offered)

    without_ours(ours, {setting["value"]["name"] for setting in java["configs"]}, java)
    assert ours == java


def without_ours(ours: dict[str, Any], known_to_java: set[str], java: dict[str, Any]) -> None:
    """Takes the setting that more of our transformations have out of a report, and the places it moved others to."""
    more = [
        setting
        for setting in ours["configs"]
        if setting["value"]["name"].endswith(NESTED_FIELDS) and setting["value"]["name"] not in known_to_java
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
    ("kind", "key"),
    [
        ("FileStreamSource", "producer.override.bootstrap.servers"),
        ("FileStreamSource", "admin.override.bootstrap.servers"),
        ("FileStreamSink", "consumer.override.bootstrap.servers"),
    ],
)
def test_brokers_of_an_override_that_are_malformed_are_refused_in_java_s_words(kind: str, key: str) -> None:
    validator = ConnectorValidator(PluginRegistry.load(), WORKER)
    topics = {"topic": "t", "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    config = {"connector.class": kind, "name": "v", "file": "f", key: "localhost:abc"}

    with pytest.raises(InvalidConnectorError) as refused:
        validator.raise_if_invalid(config | ({"topics": "t"} if kind.endswith("Sink") else topics))

    assert f"Invalid url in {key}: localhost:abc" in str(refused.value)


def test_an_override_that_the_policy_forbids_is_an_error() -> None:
    worker = {**WORKER, "connector.client.config.override.policy": "None"}
    validator = ConnectorValidator(PluginRegistry.load(), worker)
    config = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", "producer.override.acks": "1"}

    with pytest.raises(InvalidConnectorError) as refused:
        validator.raise_if_invalid(config)

    forbidden = "The 'None' policy does not allow 'acks' to be overridden in the connector configuration."
    assert forbidden in str(refused.value)


@pytest.mark.parametrize(
    ("policy", "forbidden"),
    [
        ("All", set()),
        ("Principal", {"acks", "bootstrap.servers"}),
        ("Allowlist", {"bootstrap.servers", "sasl.mechanism"}),
        ("None", {"acks", "bootstrap.servers", "sasl.mechanism"}),
        ("org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy", {"acks"}),
    ],
)
def test_each_policy_forbids_what_javas_does(policy: str, forbidden: set[str]) -> None:
    worker = {
        **WORKER,
        "connector.client.config.override.policy": policy,
        "connector.client.config.override.allowlist": "acks,linger.ms",
    }
    given = {"acks": "1", "bootstrap.servers": "b:2", "sasl.mechanism": "PLAIN"}
    config = {f"producer.override.{key}": value for key, value in given.items()}
    infos = ConnectorValidator(PluginRegistry.load(), worker).validate(
        {"connector.class": "FileStreamSource", "name": "v", "topic": "t", **config}
    )
    refused = {info.value.name for info in infos.configs if info.value and info.value.error_messages}
    assert refused & config.keys() >= {f"producer.override.{key}" for key in forbidden}
    assert len(refused) == infos.error_count
    if "." not in policy:
        assert refused == {f"producer.override.{key}" for key in forbidden}


class NoTuning(ConnectorClientConfigOverridePolicy):
    """Wants `acks`, and allows what the setting `tuning.allowed` names."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._allowed = configs["tuning.allowed"]

    def validate(self, request: ConnectorClientConfigRequest) -> list[ConfigValue]:
        if "fail" in request.client_props:
            raise RuntimeError("on purpose")
        whose = f"{request.connector_type} {request.connector_name} {request.connector_class.__name__}"
        missing = {} if "acks" in request.client_props else {"acks": None}
        return [
            ConfigValue(
                name,
                text,
                error_messages=[]
                if text and name == self._allowed
                else [f"{request.client_type} of {whose}: no {name}"],
            )
            for name, text in {**request.client_props, **missing}.items()
        ]


def validated_by_policy(overrides: dict[str, str]) -> dict[str, list[str]]:
    worker = {
        **WORKER,
        "connector.client.config.override.policy": f"{__name__}:NoTuning",
        "tuning.allowed": "acks",
    }
    plugins = PluginRegistry.load()
    infos = ConnectorValidator(plugins, worker, policy=load_policy(plugins, worker)).validate(
        {"connector.class": "FileStreamSource", "name": "v", "topic": "t", **overrides}
    )
    return {info.value.name: info.value.error_messages for info in infos.configs if info.value.error_messages}


def test_a_policy_in_python_decides_about_each_override() -> None:
    assert validated_by_policy({"producer.override.acks": "1", "producer.override.linger.ms": "5"}) == {
        "producer.override.linger.ms": ["producer of source v FileStreamSourceConnector: no linger.ms"]
    }


def test_a_policy_may_want_an_override() -> None:
    told = {"producer.override.acks": ["producer of source v FileStreamSourceConnector: no acks"]}
    assert validated_by_policy({}) == told


def test_a_policy_that_fails_allows_nothing() -> None:
    told = ["The override policy failed: NoTuning.validate() raised RuntimeError"]
    assert validated_by_policy({"producer.override.acks": "1", "producer.override.fail": "5"}) == {
        "producer.override.acks": told,
        "producer.override.fail": told,
    }


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "com.example.Mine",
            "Invalid value com.example.Mine for configuration connector.client.config.override.policy",
        ),
        (f"{__name__}:NoTuning", "NoTuning cannot be set up: KeyError"),
        ("kconnect.api:ConfigDef", "ConfigDef is not a ConnectorClientConfigOverridePolicy"),
    ],
)
def test_a_policy_that_cannot_run_here_is_refused(policy: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_policy(PluginRegistry.load(), {"connector.client.config.override.policy": policy})


def test_an_override_that_is_no_number_is_an_error_of_that_setting(validator: ConnectorValidator) -> None:
    config = {
        "connector.class": "FileStreamSink",
        "name": "v",
        "topics": "t",
        "consumer.override.max.poll.records": "x",
    }

    infos = validator.validate(config)

    assert infos.errors == ["Invalid value x for configuration max.poll.records: Not a number of type INT"]


SASL = "SASL_PLAINTEXT"
KERBEROS = [
    # connector, its client, what the connector says of the protocol, what the worker says
    ("FileStreamSource", "producer", {"producer.override.security.protocol": "SASL_SSL"}, {}),
    ("FileStreamSource", "producer", {}, {"producer.security.protocol": SASL}),
    ("FileStreamSource", "admin", {"topic.creation.default.partitions": "1"}, {"security.protocol": SASL}),
    ("FileStreamSink", "consumer", {}, {"consumer.security.protocol": SASL}),
]


def kerberos_errors(
    kind: str, client: str, given: dict[str, str], settings: dict[str, str], *, has_kerberos: bool | None = None
) -> dict[str, list[str]]:
    config = {
        "connector.class": kind,
        "name": "v",
        "topics" if kind.endswith("Sink") else "topic": "t",
        "file": "/tmp/f",
        f"{client}.override.sasl.mechanism": "GSSAPI",
        **given,
    }
    validator = ConnectorValidator(PluginRegistry.load(), {**WORKER, **settings})
    if has_kerberos is not None:
        validator = replace(validator, has_kerberos=lambda: has_kerberos)
    values = [info.value for info in validator.validate(config).configs if info.value]
    return {value.name: value.error_messages for value in values if value.error_messages}


@pytest.mark.parametrize(("kind", "client", "given", "settings"), KERBEROS)
def test_a_login_that_the_installed_library_does_not_have_is_an_error_of_that_setting(
    kind: str, client: str, given: dict[str, str], settings: dict[str, str]
) -> None:
    found = kerberos_errors(kind, client, given, settings)

    assert found.keys() == {f"{client}.override.sasl.mechanism"}
    (message,) = found[f"{client}.override.sasl.mechanism"]
    assert message.startswith("The installed librdkafka was built without Kerberos, sasl.mechanism=GSSAPI. Use PLAIN,")
    assert kerberos_errors(kind, client, given, settings, has_kerberos=True) == {}, "with libsasl2 it works"


@pytest.mark.parametrize("settings", [{}, {"security.protocol": SASL}, {"producer.security.protocol": "SSL"}])
def test_a_login_that_never_happens_is_not_refused(settings: dict[str, str]) -> None:
    assert kerberos_errors("FileStreamSource", "producer", {}, settings, has_kerberos=False) == {}


def test_overrides_are_described_as_settings_of_javas_clients(validator: ConnectorValidator) -> None:
    config = {
        "connector.class": "FileStreamSink",
        "name": "v",
        "topics": "t",
        "consumer.override.fetch.min.bytes": " 5 ",
        "consumer.override.no.such": "x",
        "consumer.override.sasl.jaas.config": "secret",
    }

    shown = {info["value"]["name"]: info for info in validator.validate(config).to_json()["configs"]}

    known = shown["consumer.override.fetch.min.bytes"]
    assert known["value"]["value"] == "5"
    assert known["definition"]["type"] == "INT"
    assert known["definition"]["default_value"] == "1"
    assert known["definition"]["documentation"].endswith("#consumerconfigs_fetch.min.bytes.")
    assert shown["consumer.override.no.such"]["definition"] is None
    assert shown["consumer.override.sasl.jaas.config"]["definition"]["type"] == "PASSWORD"
    assert shown["consumer.override.sasl.jaas.config"]["value"]["value"] == "[hidden]"


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
def test_an_unknown_class_is_told_with_its_setting_and_the_nearest_there_is(
    validator: ConnectorValidator, key: str, name: str, meant: str
) -> None:
    config = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", "transforms": "a", "predicates": "p"}
    others = {"transforms.a.type": "Filter", "predicates.p.type": "RecordIsTombstone"}

    with pytest.raises(InvalidConnectorError) as refused:
        validator.raise_if_invalid({**config, **others, key: name})

    told = f"Invalid value {name} for configuration {key}: Class {name} could not be found. Did you mean {meant}?"
    assert told in str(refused.value).splitlines()
    assert [problem.key for problem in refused.value.problems] == [key]


def test_an_unknown_connector_is_told_with_the_nearest_there_is(validator: ConnectorValidator) -> None:
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


def test_a_secret_override_is_not_shown(validator: ConnectorValidator) -> None:
    secret = {"producer.override.ssl.key.password": "hunter2"}
    config = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", **secret}

    report = validator.validate(config).to_json()

    assert report["configs"][-1]["value"]["value"] == "[hidden]"
    assert "hunter2" not in json.dumps(report)


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

    told = [text for text in caplog.messages if "Unknown setting" in text]
    assert told == [
        f"Unknown setting of connector typos: {told}"
        for told in (
            "flie. Did you mean file?",
            "errors.tolerence. Did you mean errors.tolerance?",
            "transforms.hoist.feld. Did you mean transforms.hoist.field?",
        )
    ]


class WithoutTable(StringConverter):
    """Its settings cannot be told, which is logged."""

    def config(self) -> Any:
        return None


def test_lines_written_during_validation_say_so(validator: ConnectorValidator) -> None:
    seen = []

    class Contexts(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(current_context())

    handler = Contexts()
    logging.getLogger("kconnect.herder.validation.connector_checks").addHandler(handler)
    props = {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}
    validator.validate(props | {"value.converter": f"{__name__}:WithoutTable"})
    logging.getLogger("kconnect.herder.validation.connector_checks").removeHandler(handler)

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
