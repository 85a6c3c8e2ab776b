"""Versions of Java's plugins for lists: asked once for each set of jars, and kept in the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Mapping

from kconnect.errors import ConnectError
from kconnect.folders import cache_folder
from kconnect.java_plugins.host import HostProcess
from kconnect.java_plugins.index import JavaIndex
from kconnect.whole_files import write_whole

log = logging.getLogger(__name__)


def versions(index: JavaIndex, host: HostProcess) -> Mapping[str, str]:
    """The version of each plugin that services name. One that cannot be loaded has none; the log says why, once.

    Errors: none: without Java there are no versions.
    """
    path = cache_folder() / "java" / f"versions-{_fingerprint(index)}.json"
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, str] = json.loads(path.read_text("utf-8"))
        return found
    try:
        made = _asked(index, host)
    except ConnectError as err:
        log.warning("The versions of Java's plugins are not known: %s", err)
        return {}
    with contextlib.suppress(OSError, ConnectError):  # asked again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(made))
    return made


def _asked(index: JavaIndex, host: HostProcess) -> dict[str, str]:
    made: dict[str, str] = {}
    with contextlib.closing(host.connect(thread="plugin-versions")) as connection:
        for name, kinds in index.named().items():
            folder = str(next(iter(kinds.values()))[0])
            try:
                made[name] = connection.call("describe", **{"class": name, "folder": folder})["version"] or "undefined"
            except ConnectError as err:
                log.warning("plugin.path: %s in %s cannot be loaded: %s", name, folder, err)
                made[name] = "undefined"
    return made


def _fingerprint(index: JavaIndex) -> str:
    digest = hashlib.sha256()
    for folder in index.folders:
        for jar in folder.jars:
            with contextlib.suppress(OSError):
                found = jar.stat()
                digest.update(f"{jar} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
