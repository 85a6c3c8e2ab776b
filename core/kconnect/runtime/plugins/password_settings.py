"""PasswordSettings: which settings of a connector's config a plugin's own table types as PASSWORD."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kconnect.api import ConfigDef
from kconnect.errors import ConfigError
from kconnect.model import named_plugins

log = logging.getLogger(__name__)

Finder = Callable[[str, str | None], type[Any]]
CONVERTERS: Final = "converter"


class PasswordSettings:
    """Reads the ConfigDef of each plugin once. Threads: any; one may be read twice at worst."""

    def __init__(self, finders: Mapping[str, Finder]) -> None:
        """`finders`: by the first part of a setting's name, "" for the connector; others are `CONVERTERS`."""
        self._finders = finders
        self._known: dict[tuple[str, str, str | None], frozenset[str]] = {}  # by kind, name and version

    def of(self, config: Mapping[str, str]) -> frozenset[str]:
        """Settings of the connector, its transformations, predicates and converters, whose names need not say so.

        A plugin that is missing or fails has none: the error appears when it is run.
        """
        return frozenset(
            f"{prefix}{key}"
            for prefix, name in named_plugins(config)
            for key in self._of(prefix.partition(".")[0], name, config.get(f"{prefix or 'connector.'}plugin.version"))
        )

    def _of(self, kind: str, name: str, version: str | None) -> frozenset[str]:
        found = self._known.get((kind, name, version))
        if found is None:
            found = self._known[kind, name, version] = self._read(kind, name, version)
        return found

    def _read(self, kind: str, name: str, version: str | None) -> frozenset[str]:
        find = self._finders.get(kind, self._finders[CONVERTERS])
        try:
            table = find(name, version)().config()
        except ConfigError:
            return frozenset()
        except Exception as err:  # a plugin call
            log.debug("%s does not say what its settings are: %r", name, err)
            return frozenset()
        if not isinstance(table, ConfigDef):
            return frozenset()
        return frozenset(key.name for key in table.config_keys.values() if key.type is ConfigDef.Type.PASSWORD)
