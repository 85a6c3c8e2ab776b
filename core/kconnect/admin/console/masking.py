"""Secrets on pages: masked as in the command line, and kept as they are where a mask comes back from a form.

A value is a secret when its key names one, or when a plugin that the config names declares it as PASSWORD. What
`${file:..}` and the like refer to is nowhere in a config, and the reference is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kconnect.errors import BadRequestError, ForbiddenError, NotFoundError
from kconnect.logs.log_context import is_secret
from kconnect.logs.redaction import HIDDEN
from kconnect.model import named_plugins

_REFERENCE = re.compile(r"\$\{[^}]*\}")


class HasPluginTables(Protocol):
    """A cluster, as far as masks need it. Errors: ConnectError."""

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]: ...


class Masks:
    """Masks configs for one request; asks the cluster for the table of each plugin once."""

    def __init__(self, cluster: HasPluginTables) -> None:
        self._cluster = cluster
        self._passwords: dict[str, frozenset[str]] = {}

    def masked(self, config: Mapping[str, str]) -> dict[str, str]:
        """A copy that may be shown."""
        passwords = self.password_keys(config)
        return {key: masked_value(key, value, key in passwords) for key, value in config.items()}

    def password_keys(self, config: Mapping[str, str]) -> frozenset[str]:
        """Settings of type PASSWORD, of all plugins that the config names."""
        return frozenset(f"{prefix}{key}" for prefix, name in named_plugins(config) for key in self._of(name))

    def _of(self, plugin: str) -> frozenset[str]:
        """None when the worker does not have the plugin, or its caller may not see plugins.

        Errors: ConnectError when it does not answer: nothing is shown then, as some of it may be secret.
        """
        if plugin not in self._passwords:
            try:
                table = self._cluster.plugin_config(plugin)
            except (NotFoundError, BadRequestError, ForbiddenError):
                table = []
            self._passwords[plugin] = frozenset(str(row["name"]) for row in table if row.get("type") == "PASSWORD")
        return self._passwords[plugin]


def masked_value(key: str, value: str, is_password: bool) -> str:
    """A value that may be shown."""
    secret = is_password or is_secret(key)
    return HIDDEN if secret and value and not _REFERENCE.fullmatch(str(value).strip()) else value


def unmasked(config: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    """A config in which each mask stands for the value that is there. Errors: BadRequestError where there is none."""
    found = dict(config)
    for key, value in config.items():
        if value == HIDDEN:
            if key not in live:
                raise BadRequestError(f"{key} is {HIDDEN}, which stands for a secret that does not exist")
            found[key] = live[key]
    return found
