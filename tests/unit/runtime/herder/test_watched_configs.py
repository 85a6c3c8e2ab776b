"""Config providers that tell changes themselves: who is asked to, and what becomes of what they tell."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kconnect.api import ConfigChangeCallback, ConfigData, ConfigProvider
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.connectors.reloads import WatchedConfigs


class Vault(ConfigProvider):
    """Tells each change of a value to its subscribers."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.subscribers: list[tuple[str, tuple[str, ...], ConfigChangeCallback]] = []

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        return ConfigData(dict.fromkeys(keys, "value"))

    def subscribe(self, path: str, keys: Collection[str], callback: ConfigChangeCallback) -> None:
        if self.problem is not None:
            raise self.problem
        self.subscribers.append((path, tuple(keys), callback))

    def unsubscribe(self, path: str, keys: Collection[str], callback: ConfigChangeCallback) -> None:
        self.subscribers.remove((path, tuple(keys), callback))

    def change(self, path: str) -> None:
        for subscribed, keys, callback in list(self.subscribers):
            if subscribed == path:
                callback(path, self.get(path, keys))

    @property
    def places(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(path, keys) for path, keys, _ in self.subscribers]


class Silent(ConfigProvider):
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        return ConfigData(dict.fromkeys(keys, "value"))


CONFIG = {"a": "${vault:db:user} ${vault:db:password}", "b": "${vault:db:user}", "c": "${silent:x:y} ${vault:top}"}


def test_each_reference_is_watched_once_and_its_connector_looked_at_again() -> None:
    vault, looked = Vault(), list[str]()
    watched = WatchedConfigs(Variables({"vault": vault, "silent": Silent()}), looked.append)
    watched.watch("orders", CONFIG)
    watched.watch("orders", dict(CONFIG))
    watched.watch("plain", {"a": "b"})
    assert vault.places == [("db", ("user",)), ("db", ("password",)), ("", ("top",))]
    vault.change("")
    assert looked == ["orders"]
    watched.watch("orders", {"a": "${vault:other:x}"})
    assert vault.places == [("other", ("x",))]
    watched.watch("orders", {})
    assert vault.places == []


def test_nothing_is_watched_after_the_end() -> None:
    vault = Vault()
    watched = WatchedConfigs(Variables({"vault": vault}), lambda name: None)
    watched.watch("a", CONFIG)
    watched.close()
    watched.watch("b", CONFIG)
    watched.close()
    assert vault.places == []


def test_a_provider_that_fails_to_subscribe_is_logged_and_not_unsubscribed(caplog: pytest.LogCaptureFixture) -> None:
    watched = WatchedConfigs(Variables({"vault": Vault(OSError("away"))}), lambda name: None)
    watched.watch("a", {"a": "${vault:db:user}"})
    watched.close()
    assert caplog.messages == ["Changes of user in connector a will not be reported: OSError: away"]


def test_a_provider_that_cannot_tell_says_so() -> None:
    for call in (Silent().subscribe, Silent().unsubscribe):
        with pytest.raises(NotImplementedError, match="Silent does not tell changes"):
            call("", [], lambda path, data: None)
