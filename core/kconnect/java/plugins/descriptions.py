"""What a Java plugin says of itself: version, kinds and settings; asked once for each class of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import ConfigDef
from kconnect.errors import ConfigError
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.definitions import config_def
from kconnect.java.plugins.hosting import Hosted
from kconnect.java.plugins.java_error import JavaPluginError

_lock = threading.Lock()  # guards _known
_known: dict[tuple[str, str | None], Mapping[str, Any]] = {}


def describe(plugin: type[Hosted]) -> Mapping[str, Any]:
    """`version`, `kinds` and `config` of a class.

    Errors: ConfigError for a class that Java cannot load, what the plugin throws when it is asked.
    Differs: to Java's worker, a class that could not be loaded at its start does not exist.
    """
    key = (plugin.java_class, plugin.folder)
    with _lock:
        found = _known.get(key)
    if found is None:
        with contextlib.closing(plugin.host.connect(thread="describe", location=plugin.folder)) as connection:
            place = {"class": plugin.java_class, "folder": plugin.folder}
            try:
                found = connection.call("describe", **place)
            except JavaPluginError:
                _require_loadable(connection, place)
                raise
        with _lock:
            _known[key] = found
    return found


def _require_loadable(java: JavaConnection, place: Mapping[str, str | None]) -> None:
    """Errors: ConfigError for a class of which Java cannot make an object."""
    try:
        java.call("load", **place)
    except JavaPluginError as err:
        raise ConfigError(f"Java cannot load {place['class']}: {err}", hint=err.hint) from err


def version_of(plugin: type[Hosted]) -> str:
    """The plugin's version, as lists show it."""
    return describe(plugin)["version"] or "undefined"


def settings_of(plugin: type[Hosted]) -> ConfigDef:
    """The plugin's settings, whose values Java checks."""

    def ask(prefix: str, props: Mapping[str, str | None]) -> Sequence[Mapping[str, Any]]:
        with contextlib.closing(plugin.connect("stage")) as connection:
            found: Sequence[Mapping[str, Any]] = connection.call("validate", prefix=prefix, config=dict(props))
            return found

    return config_def(describe(plugin)["config"], ask)
