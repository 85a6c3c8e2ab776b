"""Who changed configs on the topics, written down where workers of ours write who changed them over REST."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.plan import Edit
from kconnect.admin.direct.read.installed_plugins import secret_masks
from kconnect.clock import now_ms
from kconnect.errors import ConnectError
from kconnect.runtime.config.own_worker_keys import history_topic
from kconnect.runtime.storage.change_log import ChangeLog

_CONFIG = b"connector-"


def shared_log(access: ClusterAccess) -> ChangeLog | None:
    """The log of who changed what in this cluster; None where its settings name none. Opens nothing."""
    topic = history_topic(access.worker)
    return None if topic is None else ChangeLog(access.worker, topic, access.timeout_s, "--timeout")


def whose() -> dict[str, str]:
    """Who changes something from this process, and from where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "unknown"
    return {"user": user, "from": socket.gethostname()}


def note_configs(access: ClusterAccess, edits: Iterable[Edit]) -> list[str]:
    """Write down what these edits did to configs; a sentence where that was not possible."""
    changes = list(_config_changes(access, edits))
    log = shared_log(access) if changes else None
    if log is None:
        return []
    try:
        with log:
            for name, before, after in changes:
                place = f"topic {access.topic(InternalTopic.CONFIG)}"
                entry = {"kind": "config", "action": "direct", "connector": name, "place": place, **whose()}
                log.add(name, {**entry, "time_ms": now_ms(), "offsets": [], "before": before, "after": after})
    except ConnectError as err:
        return [f"it is not in the history of changes: {err}"]
    return []


def _config_changes(
    access: ClusterAccess, edits: Iterable[Edit]
) -> Iterator[tuple[str, dict[str, str] | None, dict[str, str] | None]]:
    """Name of the connector, its config before and after, masked; None for none."""
    masks = None
    for edit in edits:
        if edit.which is not InternalTopic.CONFIG or not edit.key.startswith(_CONFIG):
            continue
        name = edit.key.removeprefix(_CONFIG).decode("utf-8", "replace")
        before, after = _settings(edit.old.value if edit.old is not None else None), _settings(edit.new)
        masks = masks or secret_masks(access)
        for config in (before, after):
            masks.learn({name: config or {}})
        shown = [None if config is None else masks.settings(name, config) for config in (before, after)]
        yield name, shown[0], shown[1]


def _settings(value: bytes | None) -> Mapping[str, str] | None:
    try:
        found: Any = None if value is None else json.loads(value)["properties"]
    except (ValueError, KeyError, TypeError):  # somebody else's record
        return None
    return found if isinstance(found, dict) else None
