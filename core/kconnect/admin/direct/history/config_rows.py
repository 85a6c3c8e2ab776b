"""The configs that a connector has had, each with who made it: from the config topic, and the log of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.change_notes import shared_log
from kconnect.admin.direct.history.connector_history import (
    ConfigVersion,
    config_history,
    config_versions,
    setting_changes,
    the_previous,
    the_version,
)
from kconnect.admin.direct.read.installed_plugins import secret_masks
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.clock import moment
from kconnect.errors import NotFoundError, did_you_mean

# From the record to the end of the request that wrote it; and what two clocks may differ by
_AFTER_MS: Final = 95_000
_BEFORE_MS: Final = 5_000
_KINDS: Final = {"create": "created", "delete": "deleted"}


def versions_of(access: ClusterAccess, name: str) -> list[ConfigVersion]:
    """The versions that the config topic has, oldest first. Errors: NotFoundError for a connector without any."""
    with ClusterReader(access) as reader:
        records = list(reader.records(InternalTopic.CONFIG))
    found = config_versions(config_history(records, name))
    if not found:
        seen = {one for record in records if (one := connector_of(InternalTopic.CONFIG, record.key))}
        hint = did_you_mean(name, seen) or f"It has records of: {', '.join(sorted(seen)[:10]) or 'none'}"
        raise NotFoundError(f"The config topic has no config of a connector {name}", hint=hint)
    return found


def masks_of(access: ClusterAccess, name: str, versions: Sequence[ConfigVersion], *, reveal: bool) -> SecretMasks:
    """What of the versions may be shown: a secret of one class may outlast the change to another."""
    masks = secret_masks(access, reveal=reveal)
    for version in versions:
        masks.learn({name: version.config or {}})
    return masks


def config_rows(access: ClusterAccess, name: str, *, reveal: bool = False) -> list[dict[str, Any]]:
    """The newest first. Shape: version (None: compaction has removed it), timestamp, kind, is_current, changed, config,
    user, from (None: not known).

    Errors: NotFoundError for a connector without any.
    """
    versions = versions_of(access, name)
    masks = masks_of(access, name, versions, reveal=reveal)
    changes = config_changes(access, name)
    rows = [
        _row(name, version, masks, take_change(changes, version.timestamp_ms, is_deletion=version.config is None))
        for version in reversed(versions)
    ]
    first_ms = versions[0].timestamp_ms or 0
    return [*rows, *(_gone(change) for change in reversed(changes) if change["time_ms"] < first_ms)]


def config_difference(
    access: ClusterAccess, name: str, version: int | None = None, other: int | None = None, *, reveal: bool = False
) -> dict[str, Any]:
    """From a version, by default the previous one, to another, by default the current one; as of `difference`.

    Errors: NotFoundError for a connector without any version, or without these.
    """
    versions = versions_of(access, name)
    old = the_previous(name, versions) if version is None else the_version(name, versions, version)
    new = versions[-1] if other is None else the_version(name, versions, other)
    return difference(name, old, new, masks_of(access, name, versions, reveal=reveal))


def difference(name: str, old: ConfigVersion, new: ConfigVersion, masks: SecretMasks) -> dict[str, Any]:
    """Shape: name, action (create, update, delete, unchanged), settings: [{key, old, new}], from, to.

    A secret that changed is among the settings, hidden before and after.
    """
    shown_old, shown_new = (masks.settings(name, version.config or {}) for version in (old, new))
    settings = [
        {"key": key, "old": shown_old.get(key), "new": shown_new.get(key)}
        for key, _, _ in setting_changes(old.config, new.config)
    ]
    action = "create" if old.config is None else "delete" if new.config is None else "update"
    return {
        "name": name,
        "action": action if settings else "unchanged",
        "settings": settings,
        "from": old.version,
        "to": new.version,
    }


def config_changes(access: ClusterAccess, name: str) -> list[Mapping[str, Any]]:
    """Who changed the connector's config, oldest first; none where nobody keeps that."""
    log = shared_log(access)
    if log is None:
        return []
    with log:
        return [entry for entry in log.entries(name) if entry.get("kind") == "config"]


def take_change(changes: list[Mapping[str, Any]], timestamp_ms: int | None, *, is_deletion: bool) -> Mapping[str, Any]:
    """The change that made a version of this time, which is not another's then; empty where nobody knows."""
    at_ms = timestamp_ms or 0
    fitting = [
        change
        for change in changes
        if -_BEFORE_MS <= change["time_ms"] - at_ms <= _AFTER_MS and (change.get("after") is None) == is_deletion
    ]
    if not fitting:
        return {}
    found = min(fitting, key=lambda change: abs(change["time_ms"] - at_ms))
    changes.remove(found)
    return found


def _row(name: str, version: ConfigVersion, masks: SecretMasks, change: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": version.version,
        "timestamp": moment(version.timestamp_ms),
        "kind": version.kind,
        "is_current": version.is_current,
        "changed": [key for key, _, _ in setting_changes(version.before, version.config)],
        "config": None if version.config is None else masks.settings(name, version.config),
        "user": change.get("user"),
        "from": change.get("from"),
    }


def _gone(change: Mapping[str, Any]) -> dict[str, Any]:
    """A version that only the log of changes still knows, with its secrets masked."""
    before, after = change.get("before"), change.get("after")
    return {
        "version": None,
        "timestamp": moment(change["time_ms"]),
        "kind": _KINDS.get(change["action"], "created" if before is None else "reconfigured"),
        "is_current": False,
        "changed": [key for key, _, _ in setting_changes(before, after)],
        "config": after,
        "user": change.get("user"),
        "from": change.get("from"),
    }
