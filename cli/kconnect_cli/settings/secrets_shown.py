"""Secrets in configs: masked wherever they would be printed, and kept as they are where a mask comes back.

A value is a secret when its key names one, or when the table of the connector, or of a transform, predicate or
converter that its config names, says that it is of type PASSWORD.
`${file:..}` and the like only say where a secret is, and are shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from kconnect.errors import BadRequestError, ConfigError, NotFoundError
from kconnect.logs.log_context import is_secret
from kconnect.logs.redaction import HIDDEN

if TYPE_CHECKING:
    from kconnect.client.connector_reader import ConnectorReader


ShowSecrets = Annotated[bool, typer.Option("--show-secrets", help="Do not mask secrets.")]

_REFERENCE = re.compile(r"\$\{[^}]*\}")


class HasReader(Protocol):
    """Where tables of plugins are read: a `CliSession`, or whoever has clients of its own."""

    @property
    def reader(self) -> ConnectorReader: ...


class Masker:
    """Masks configs of one worker's connectors; asks it for the table of each plugin once."""

    def __init__(self, session: HasReader, *, reveal: bool = False) -> None:
        self._session = session
        self._reveal = reveal
        self._passwords: dict[str, frozenset[str]] = {}

    def masked(self, config: Mapping[str, str]) -> dict[str, str]:
        """A copy that may be shown."""
        if self._reveal:
            return dict(config)
        from kconnect.model import named_plugins

        passwords = {f"{prefix}{key}" for prefix, name in named_plugins(config) for key in self._passwords_of(name)}
        return {key: self._shown(key, value, passwords) for key, value in config.items()}

    def _shown(self, key: str, value: str, passwords: Collection[str]) -> str:
        secret = key in passwords or is_secret(key)
        return HIDDEN if secret and value and not _REFERENCE.fullmatch(value.strip()) else value

    def _passwords_of(self, plugin: str) -> frozenset[str]:
        """Keys of type PASSWORD; none when the worker does not have the plugin (any more)."""
        if plugin not in self._passwords:
            try:
                table = self._session.reader.plugin_config(plugin)
                found = frozenset(str(row["name"]) for row in table if row.get("type") == "PASSWORD")
            except (NotFoundError, BadRequestError):
                found = frozenset()
            self._passwords[plugin] = found
        return self._passwords[plugin]


def unmasked(name: str, config: Mapping[str, str], live: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """A config in which every mask stands for the value that is there. Errors: ConfigError where there is none."""
    found = dict(config)
    for key, value in config.items():
        if value != HIDDEN:
            continue
        if live is None or key not in live:
            raise ConfigError(
                f"{where}: {key} of {name} is {HIDDEN}, which stands for a secret that does not exist",
                hint="Write the secret itself, or a reference to it such as ${file:/run/secrets/db:password}.",
            )
        found[key] = live[key]
    return found
