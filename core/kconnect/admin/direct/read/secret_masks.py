"""SecretMasks: which settings and records of the config topic may be shown. Pure, given the PASSWORD settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.client.masks import masked_value
from kconnect.java.compat import jackson
from kconnect.java.compat.utf8 import decode_as_java
from kconnect.logs.redaction import HIDDEN
from kconnect.runtime.storage.config_topic import CONNECTOR, SESSION_KEY, TASK, read_key


class SecretMasks:
    """Hides secrets: settings whose names say so, those that the connector's own table types as PASSWORD, session keys.

    `passwords_of` gives the PASSWORD settings of a config, as far as the plugins it names are installed here. `reveal`:
    nothing is hidden, for who asked for secrets. `${file:..}` only says where a secret is, and is shown.
    Configs of tasks need not name the connector's class, so what is a password is remembered by connector, of all
    classes it ever had: of a connector whose class was changed, older records are shown as well.
    Threads: one.
    """

    def __init__(
        self, passwords_of: Callable[[Mapping[str, str]], Collection[str]] | None = None, *, reveal: bool = False
    ) -> None:
        self.reveal = reveal
        self._passwords_of = passwords_of
        self._passwords: dict[str, set[str]] = {}

    def learn(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Learn the password settings of connectors whose tasks may be shown before them."""
        if self._passwords_of is None:
            return
        for connector, config in configs.items():
            self._passwords.setdefault(connector, set()).update(self._passwords_of(config))

    def settings(self, connector: str, config: Mapping[str, str]) -> dict[str, str]:
        """A copy of a config, of the connector or a task of it, that may be shown."""
        if self.reveal:
            return dict(config)
        self.learn({connector: config})
        passwords = self._passwords.get(connector, ())
        return {key: _shown(key, value, key in passwords) for key, value in config.items()}

    def value(self, which: InternalTopic, key: bytes | None, value: bytes | None) -> bytes | None:
        """A record's value that may be shown: the same bytes when no secret is in it.

        Settings of connectors and tasks are masked one by one, the session key as such. Of such a record that is not
        what its kind holds nothing is shown, for it is not known where in it a secret would be.
        """
        if self.reveal or which is not InternalTopic.CONFIG or value is None:
            return value
        kind = read_key(decode_as_java(key or b""))
        if kind is None or kind[0] not in (CONNECTOR, TASK, SESSION_KEY):
            return value
        try:
            body = jackson.parse(value)
        except (ValueError, ArithmeticError, RecursionError):
            return HIDDEN.encode()
        if body is None:
            return value
        field = "key" if kind[0] == SESSION_KEY else "properties"
        found = body.get(field) if isinstance(body, dict) else None
        if field == "key" and isinstance(found, str):
            return _compact({**body, field: HIDDEN})
        if field == "properties" and isinstance(found, dict):
            masked = self.settings(connector_of(which, key) or "", found)
            return value if masked == found else _compact({**body, field: masked})
        return HIDDEN.encode()


def _compact(body: object) -> bytes:
    # Decimals are what the parser makes of fractions that a float does not hold
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=str).encode(errors="replace")


def _shown(key: str, value: Any, is_password: bool) -> Any:  # a malformed record may hold anything
    if isinstance(value, dict | list):  # it is not known where in it a secret would be
        return HIDDEN if value else value
    return masked_value(key, value, is_password)
