"""What a Java plugin says of itself: version, kinds and settings; asked once for each class of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import ConfigDef
from kconnect.java.plugins.definitions import config_def
from kconnect.java.plugins.hosting import Hosted

_lock = threading.Lock()  # guards _known
_known: dict[tuple[str, str | None], Mapping[str, Any]] = {}


def describe(plugin: type[Hosted]) -> Mapping[str, Any]:
    """`version`, `kinds` and `config` of a class. Errors: what Java throws when the class is loaded."""
    key = (plugin.java_class, plugin.folder)
    with _lock:
        found = _known.get(key)
    if found is None:
        with contextlib.closing(plugin.host.connect(thread="describe", location=plugin.folder)) as connection:
            found = connection.call("describe", **{"class": plugin.java_class, "folder": plugin.folder})
        with _lock:
            _known[key] = found
    return found


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
