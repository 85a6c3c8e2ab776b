"""What a worker says of plugins that no META-INF/services names, in Java's words."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.java.compat.maven_version_range import version_order
from kconnect.java.plugins.catalogue import JavaPlugins
from kconnect.java.plugins.index import Discovery
from kconnect.java.plugins.versions import Loaded

log = logging.getLogger(__name__)

_ORDER: Final = ("source", "sink", "converter", "header_converter", "transformation", "predicate")
# A JVM that is starting ends after its start: seconds on a busy machine
_END_S: Final = 10.0


class DiscoveryCheck:
    """Warns of plugins without manifest, or refuses to start: `plugin.discovery=hybrid_warn` and `hybrid_fail`.

    Only classes that Java can load count; so a JVM is started for them when their jars are new.
    States: new -> started -> stopped. Source: Plugins.maybeReportHybridDiscoveryIssue (Kafka 4.3).
    Differs: no warning when every plugin has a manifest; Java's worker then asks for service_load, which saves it a
    slow scan at each start.
    """

    def __init__(self, plugins: JavaPlugins) -> None:
        self._plugins = plugins
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Errors: ConfigError for hybrid_fail. A warning comes later, from a thread: nobody waits for it."""
        if not self._plugins.index:
            return
        if self._plugins.index.discovery is Discovery.HYBRID_FAIL:
            reported = self._reported()
            if reported is not None:
                raise ConfigError(
                    f"{reported} To silence this error, set plugin.discovery=hybrid_warn in the worker config."
                )
        elif self._plugins.index.discovery is Discovery.HYBRID_WARN:
            self._thread = threading.Thread(target=self._warn, name="plugin-discovery", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Wait for the thread, if it is asking Java. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_END_S)

    def _warn(self) -> None:
        try:
            reported = self._reported()
        except Exception:  # top of a thread: plugins are found all the same
            log.exception("Plugins without manifests were not looked for")
            return
        if reported is not None:
            log.warning(
                "%s To silence this warning, set plugin.discovery=only_scan in the worker config. "
                "connect plugins path sync-manifests writes the manifests.",
                reported,
            )

    def _reported(self) -> str | None:
        missing = self._plugins.index.without_manifest()
        known = self._plugins.versions.of_all([(name, place) for name, _, place in missing])
        found = [(name, kind, place, known.get((name, place), Loaded())) for name, kind, place in missing]
        return missing_text([plugin for plugin in found if plugin[3].problem is None])


def missing_text(missing: Sequence[tuple[str, str, Path, Loaded]]) -> str | None:
    """Java's sentence about plugins (class, kind, location, version); None if there are none."""
    if not missing:
        return None
    in_order = sorted(
        missing, key=lambda found: (found[0], version_order(found[3].version), str(found[2]), _ORDER.index(found[1]))
    )
    listed = "\n".join(f"{_url(place)}\t{name}\t{kind}\t{loaded.version}" for name, kind, place, loaded in in_order)
    return (
        "One or more plugins are missing ServiceLoader manifests may not be usable with "
        f"plugin.discovery=service_load: [\n{listed}\n]\n"
        "Read the documentation at https://kafka.apache.org/documentation.html#connect_plugindiscovery for "
        "instructions on migrating your plugins to take advantage of the performance improvements of service_load mode."
    )


def _url(place: Path) -> str:
    """Gives the place as Java writes a location."""
    return f"file:{place}{'' if place.is_file() else '/'}"
