"""Which plugins a connector's config names."""

from __future__ import annotations

import pytest

from kconnect.api import ConfigDef
from kconnect.client.masks import named_plugins
from kconnect.errors import ConnectError
from kconnect.runtime.plugins.plugin_info import CONVERTERS, PasswordSettings


def test_the_plugins_of_a_config_come_with_the_prefix_of_their_settings():
    config = {
        "connector.class": " FileStreamSource ",
        "transforms": "wrap, mask,wrap",
        "transforms.wrap.type": "HoistField$Value",
        "transforms.mask.type": "MaskField$Value",
        "transforms.other.type": "Unused",
        "predicates": "old",
        "predicates.old.type": "RecordIsTombstone",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    assert list(named_plugins(config)) == [
        ("", "FileStreamSource"),
        ("transforms.wrap.", "HoistField$Value"),
        ("transforms.mask.", "MaskField$Value"),
        ("predicates.old.", "RecordIsTombstone"),
        ("value.converter.", "org.apache.kafka.connect.json.JsonConverter"),
    ]


@pytest.mark.parametrize(
    "config",
    [{}, {"connector.class": ""}, {"transforms": ","}, {"transforms": "a"}, {"transforms": 5, "connector.class": [1]}],
)
def test_a_config_that_names_none_has_none(config):
    assert list(named_plugins(config)) == []


def test_a_plugin_that_could_not_say_what_is_secret_is_asked_again() -> None:
    answers: list[ConnectError | ConfigDef] = [
        ConnectError("its JVM has just died"),
        ConfigDef().define("pin", ConfigDef.Type.PASSWORD),
    ]

    class Named:
        def config(self) -> ConfigDef:
            answer = answers.pop(0)
            if isinstance(answer, ConnectError):
                raise answer
            return answer

    settings = PasswordSettings({"": lambda name, version: Named, CONVERTERS: lambda name, version: Named})
    config = {"connector.class": "Vault"}
    assert [settings.of(config) for _ in range(3)] == [set(), {"pin"}, {"pin"}]
