from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.worker_config import StandaloneConfig, default_standalone_properties


def parse(**settings: str) -> StandaloneConfig:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return StandaloneConfig.parse({**default_standalone_properties(Path("/home/me")), **given})


def test_without_a_file_the_settings_are_javas_sample_with_offsets_in_the_users_folder() -> None:
    config = parse()

    assert config.bootstrap_servers == ["localhost:9092"]
    assert config.key_converter == config.value_converter == "org.apache.kafka.connect.json.JsonConverter"
    assert config.offset_storage_file_filename == "/home/me/connect.offsets"
    assert config.listeners == ["http://:8083"]
    assert config.with_prefix("key.converter.") == {"schemas.enable": "true"}


def test_our_own_settings_have_defaults_and_are_parsed() -> None:
    assert parse().kconnect.slots is None
    assert parse(kconnect_slots="3").kconnect.slots == (3, 3)
    assert parse(kconnect_slots="2..8").kconnect.slots == (2, 8)
    assert parse(kconnect_slots=" 2 .. 2 ").kconnect.slots == (2, 2)
    assert parse().kconnect.request_timeout_ms == 90_000


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kconnect_slots", "0", "At least one slot is needed"),
        ("kconnect_slots", "0..2", "At least one slot is needed"),
        ("kconnect_slots", "8..2", "The lower bound comes first, as in 2..8"),
        ("kconnect_slots", "many", "Expected a number such as 4, or bounds such as 2..8"),
        ("kconnect_slots", "2..", "Expected a number such as 4, or bounds such as 2..8"),
        ("kconnect_slots", "2-8", "Expected a number such as 4, or bounds such as 2..8"),
        ("kconnect_slots", "-1", "Expected a number such as 4, or bounds such as 2..8"),
        (
            "kconnect_slot_heartbeat_timeout_ms",
            "1000",
            "Must be at least twice kconnect.slot.heartbeat.interval.ms",
        ),
    ],
)
def test_our_own_settings_are_checked(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(**{key: value})


def test_unknown_keys_are_reported_by_name_and_known_ones_are_not() -> None:
    config = parse(
        foo_bar="1",
        kconnect_slot="2",
        spark_master="local[2]",
        producer_acks="1",
        security_protocol="SSL",
        value_converter_x="y",
        kconnect_slots="1",
        metrics_context_a="b",
    )

    assert config.unknown_keys() == ["foo.bar", "kconnect.slot"]


@pytest.mark.parametrize(
    ("missing", "there"),
    [
        ("bootstrap.servers", "bootstrap.server"),
        ("bootstrap.servers", "bootstrapServers"),
        ("key.converter", "key.convertor"),
        ("offset.storage.file.filename", "offset.storage.filename"),
    ],
)
def test_a_misspelt_setting_is_named_where_the_right_one_is_missing(missing: str, there: str) -> None:
    settings = {**default_standalone_properties(Path("/home/me")), there: "x"}
    del settings[missing]
    with pytest.raises(ConfigError, match=f'Missing required configuration "{missing}"') as raised:
        StandaloneConfig.parse(settings)
    assert raised.value.hint == f"Unknown setting: {there}. Did you mean {missing}?"


@pytest.mark.parametrize("missing", ["bootstrap.servers", "key.converter"])
def test_a_missing_setting_that_nothing_is_like_is_reported_without_a_guess(missing: str) -> None:
    settings = default_standalone_properties(Path("/home/me"))
    del settings[missing]
    with pytest.raises(ConfigError) as raised:
        StandaloneConfig.parse(settings)
    assert raised.value.hint is None


def test_javas_keys_without_effect_are_reported() -> None:
    given = parse(plugin_discovery="service_load", ssl_provider="x", metrics_num_samples="3")
    assert given.keys_without_effect() == ["ssl.provider", "metrics.num.samples"]


def test_spark_settings_keep_their_full_names() -> None:
    assert parse(spark_master="local[2]", spark_ui_enabled="false").spark == {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
    }


def test_secrets_do_not_show_in_the_repr() -> None:
    assert "hunter2" not in repr(parse(ssl_keystore_password="hunter2"))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("bogus", "Invalid format of header config 'bogus'"),
        ("shout X: y", "Invalid header config action: 'shout'"),
        ("set X", "Invalid format of header name and header value pair 'X'"),
        ("set X Y: z", "Invalid header name 'X Y'"),
    ],
)
def test_rules_for_response_headers_are_checked(rules: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(response_http_headers_config=rules)


def test_rules_for_response_headers_may_hold_commas_in_quotes() -> None:
    rules = 'set X: y, "add Cache-Control: no-cache, no-store"'

    assert parse(response_http_headers_config=rules).response_http_headers_config == rules
