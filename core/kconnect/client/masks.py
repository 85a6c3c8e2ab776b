"""Secrets in configs: masked wherever a config is shown, and kept as they are where a mask comes back.

A value is a secret when its key names one, or when the table of the connector, or of a transform, predicate or
converter that its config names, says that it is of type PASSWORD. Of a URL, its password and the parameters whose names
say so are. `${file:..}` and the like only say where a secret is, and are shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from kconnect.errors import BadRequestError, ForbiddenError, NotFoundError
from kconnect.logs.log_context import hide_in_urls, is_secret
from kconnect.logs.redaction import HIDDEN

V = TypeVar("V")
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")


class HasPluginTables(Protocol):
    """Where tables of plugins are read: a worker, or the classes that are installed here. Errors: ConnectError."""

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]: ...


class Masks:
    """Masks configs of one cluster's connectors; asks for the table of each plugin once. Threads: one.

    `reveal`: nothing is hidden, for who asked for secrets.
    """

    def __init__(self, tables: HasPluginTables, *, reveal: bool = False) -> None:
        self._tables = tables
        self._reveal = reveal
        self._passwords: dict[str, frozenset[str]] = {}

    def masked(self, config: Mapping[str, str]) -> dict[str, str]:
        """A copy that may be shown. Errors: as `password_keys`."""
        return dict(config) if self._reveal else masked(config, self.password_keys(config))

    def password_keys(self, config: Mapping[str, Any]) -> frozenset[str]:
        """Settings of type PASSWORD, of all plugins that the config names.

        Errors: ConnectError when nobody answers: nothing is shown then, as some of it may be secret.
        """
        return frozenset(f"{prefix}{key}" for prefix, name in named_plugins(config) for key in self._of(name))

    def _of(self, plugin: str) -> frozenset[str]:
        """Gives none of a plugin that the worker does not have (any more), or whose table its caller may not see."""
        if plugin not in self._passwords:
            try:
                table = self._tables.plugin_config(plugin)
            except (NotFoundError, BadRequestError, ForbiddenError):
                table = []
            self._passwords[plugin] = frozenset(str(row["name"]) for row in table if row.get("type") == "PASSWORD")
        return self._passwords[plugin]


def masked(config: Mapping[str, V], passwords: Collection[str]) -> dict[str, V | str]:
    """A copy that may be shown. `passwords`: its settings of type PASSWORD."""
    return {key: masked_value(key, value, key in passwords) for key, value in config.items()}


def masked_value(key: str, value: V, is_password: bool) -> V | str:
    """A value that may be shown."""
    if is_hidden(key, value, is_password):
        return HIDDEN
    return _hidden_in_url(value) if isinstance(value, str) else value


def _hidden_in_url(text: str) -> str:
    plain = _REFERENCE.sub("", text)
    return text if hide_in_urls(plain) == plain else hide_in_urls(text)


def is_hidden(key: str, value: Any, is_password: bool) -> bool:  # Any: a malformed record may hold anything
    """Whether a value is a secret, and not only a reference to one."""
    if not value or not (is_password or is_secret(key)):
        return False
    return not (isinstance(value, str) and _is_reference(value.strip()))


def _is_reference(text: str) -> bool:
    return text.startswith("${") and text.find("}") == len(text) - 1


def unmasked(config: Mapping[str, V], live: Mapping[str, V], of: str, where: str = "") -> dict[str, V]:
    """A config in which every mask stands for the value that is there. `of`: whose it is; `where`: the file it is in.

    Errors: BadRequestError for a mask of what is not there.
    """
    found = dict(config)
    for key, value in config.items():
        if not isinstance(value, str) or not _is_mask(value):
            continue
        known = live.get(key)
        if not known or (value != HIDDEN and masked_value(key, known, False) != value):
            says = f"is {HIDDEN}, which" if value == HIDDEN else f"has {HIDDEN} in a URL, which"
            raise BadRequestError(
                f"{f'{where}: ' if where else ''}{key} of {of} {says} stands for a secret that does not exist",
                hint="Write the secret itself, or a reference to it such as ${file:/run/secrets/db:password}.",
            )
        found[key] = known
    return found


def _is_mask(value: str) -> bool:
    """Whether it is a mask, or a URL that has one where its secret was."""
    return value == HIDDEN or (HIDDEN in value and _hidden_in_url(value.replace(HIDDEN, "x")) == value)


def named_plugins(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The plugins that a connector's config names: the prefix of their settings, and the name of the class.

    `("", "FileStreamSource")`, `("transforms.wrap.", "HoistField$Value")`. Nothing is looked up, and an invalid config
    gives what can be read from it.
    """
    yield from _named("", config.get("connector.class"))
    for kind in ("transforms", "predicates"):
        listed: object = config.get(kind)  # text, unless the record was written by hand
        for alias in dict.fromkeys(listed.split(",") if isinstance(listed, str) else ()):
            prefix = f"{kind}.{alias.strip()}."
            yield from _named(prefix, config.get(f"{prefix}type"))
    for key in ("key.converter", "value.converter", "header.converter"):
        yield from _named(f"{key}.", config.get(key))


def _named(prefix: str, name: object) -> Iterator[tuple[str, str]]:
    if isinstance(name, str) and name.strip():
        yield prefix, name.strip()
