"""The plugins of this process, found once: Spark uses its Python processes again, and one JVM is enough for them."""

from __future__ import annotations

import os
import threading
from typing import Final

from kconnect.java.plugins import JavaSettings
from kconnect.runtime.plugins import PluginRegistry

_lock: Final = threading.Lock()  # guards _held
_held: Final[dict[tuple[str | None, JavaSettings], tuple[object, PluginRegistry]]] = {}


def process_plugins(plugin_path: str | None, java: JavaSettings) -> PluginRegistry:
    """The registry of this `plugin.path`; another one once its folders have changed. Threads: any."""
    key, seen = (plugin_path, java), _as_it_is(plugin_path)
    with _lock:
        before, registry = _held.get(key, (None, None))
        if registry is None or before != seen:
            if registry is not None:
                registry.close()
            registry = PluginRegistry.load(plugin_path, tells_skipped=False, java=java)
            _held[key] = seen, registry
        return registry


def _as_it_is(plugin_path: str | None) -> object:
    """What changes when something is put into one of the folders, or taken out."""
    found: list[tuple[str, int]] = []
    for folder in filter(None, (part.strip() for part in (plugin_path or "").split(","))):
        if os.path.isdir(folder):
            entries = [(entry.path, entry.stat().st_mtime_ns) for entry in os.scandir(folder)]
            found += [(folder, os.stat(folder).st_mtime_ns), *sorted(entries)]
    return found
