"""Overrides of client settings in a connector's config: what policies, Java and librdkafka make of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kconnect.api import ConfigValue, ConnectorClientConfigOverridePolicy, ConnectorClientConfigRequest
from kconnect.errors import ConfigError
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator, InvalidConnectorError
from kconnect.runtime.herder.validation.override_policies import load_policy
from kconnect.runtime.plugins import PluginRegistry
from kit.places import GOLDEN

TRANSCRIPT = json.loads((GOLDEN / "rest/transcript.json").read_text())
WORKER = TRANSCRIPT["worker_properties"]
INVALID = "Connector configuration is invalid"
# Known to ExtractField alone in Java.
NESTED_FIELDS = ".field.syntax.version"


@pytest.fixture(scope="module")
def validator() -> ConnectorValidator:
    return ConnectorValidator(PluginRegistry.load(), WORKER)


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
            raise RuntimeError(request.client_props.get("ssl.keystore.password", "on purpose"))
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
    reported = {"producer.override.acks": ["producer of source v FileStreamSourceConnector: no acks"]}
    assert validated_by_policy({}) == reported


def test_a_policy_that_fails_allows_nothing() -> None:
    reported = ["The override policy failed: NoTuning.validate() raised RuntimeError: on purpose"]
    assert validated_by_policy({"producer.override.acks": "1", "producer.override.fail": "5"}) == {
        "producer.override.acks": reported,
        "producer.override.fail": reported,
    }


def test_a_policy_that_fails_shows_no_password() -> None:
    overrides = {"producer.override.ssl.keystore.password": "s3cr3t-of-keys", "producer.override.fail": "5"}
    reported = ["The override policy failed: NoTuning.validate() raised RuntimeError: [hidden]"]
    assert validated_by_policy(overrides)["producer.override.fail"] == reported


@pytest.mark.parametrize(
    ("policy", "reported"),
    [
        (
            "com.example.Mine",
            "Invalid value com.example.Mine for configuration connector.client.config.override.policy",
        ),
        (f"{__name__}:NoTuning", "NoTuning cannot be set up: KeyError"),
        ("kconnect.api:ConfigDef", "ConfigDef is not a ConnectorClientConfigOverridePolicy"),
    ],
)
def test_a_policy_that_cannot_run_here_is_refused(policy: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
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


def test_a_secret_override_is_not_shown(validator: ConnectorValidator) -> None:
    secret = {"producer.override.ssl.key.password": "hunter2"}
    config = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", **secret}

    report = validator.validate(config).to_json()

    assert report["configs"][-1]["value"]["value"] == "[hidden]"
    assert "hunter2" not in json.dumps(report)


SINK = {"connector.class": "FileStreamSink", "name": "v", "topics": "t", "file": "/f"}
SOURCE = {"connector.class": "FileStreamSource", "name": "v", "topic": "t", "file": "/f"}


@pytest.mark.parametrize(
    ("config", "worker", "key", "reported"),
    [
        (
            {**SOURCE, "producer.override.acks": "1", "producer.override.enable.idempotence": "true"},
            {},
            "producer.override.acks",
            "The producer cannot be built: Failed to create producer: `acks` must be set to `all` when "
            "`enable.idempotence` is true",
        ),
        (
            {**SOURCE, "producer.override.transactional.id": "x"},
            {},
            "producer.override.transactional.id",
            "The producer cannot be built: Failed to create producer: `transactional.id` requires "
            "`enable.idempotence=true`",
        ),
        (
            {**SOURCE, "producer.override.delivery.timeout.ms": "100"},
            {"producer.linger.ms": "1000"},
            "producer.override.delivery.timeout.ms",
            "The producer cannot be built: Failed to create producer: `delivery.timeout.ms` must be greater than "
            "`linger.ms`",
        ),
        (
            SOURCE,
            {"producer.compression.type": "brotli"},
            "producer.compression.type",
            'The producer cannot be built: Invalid value "brotli" for configuration property "compression.type"',
        ),
        (
            {**SINK, "consumer.override.group.protocol": "consumer", "consumer.override.heartbeat.interval.ms": "3000"},
            {},
            "consumer.override.heartbeat.interval.ms",
            "consumer.override.heartbeat.interval.ms cannot be set when group.protocol=CONSUMER",
        ),
        (
            {**SINK, "consumer.override.auto.offset.reset": "by_duration:1h"},
            {},
            "consumer.override.auto.offset.reset",
            "Invalid value by_duration:1h for configuration auto.offset.reset: Invalid value `by_duration:1h` for",
        ),
        (
            {**SINK, "errors.deadletterqueue.topic.name": "d", "producer.override.compression.type": "brotli"},
            {},
            "producer.override.compression.type",
            'The producer cannot be built: Invalid value "brotli" for configuration property "compression.type"',
        ),
    ],
)
def test_what_a_client_would_refuse_is_an_error_of_its_setting(
    config: dict[str, str], worker: dict[str, str], key: str, reported: str
) -> None:
    infos = ConnectorValidator(PluginRegistry.load(), {**WORKER, **worker}).validate(config)
    errors = {info.value.name: info.value.error_messages for info in infos.configs if info.value}
    found = {name: messages for name, messages in errors.items() if messages}
    assert found.keys() == {key}
    assert len(found[key]) == 1
    assert found[key][0].startswith(reported)
    assert infos.error_count == 1


@pytest.mark.parametrize(
    "overrides",
    [
        {"group.protocol": "consumer"},
        {"group.protocol": "consumer", "group.remote.assignor": "range"},
        {"auto.offset.reset": "by_duration:PT1H"},
        {"max.poll.interval.ms": "5000"},
        {"session.timeout.ms": "10000", "max.poll.interval.ms": "5000"},
        {"exclude.internal.topics": "false"},
    ],
)
def test_what_a_client_of_java_takes_is_taken(validator: ConnectorValidator, overrides: dict[str, str]) -> None:
    own = {f"consumer.override.{key}": value for key, value in overrides.items()}
    assert validator.validate({**SINK, **own}).errors == []
