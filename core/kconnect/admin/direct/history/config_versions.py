"""The configs that a connector has had, as versions that can be compared and brought back. Pure.

A version is named by its offset in the config topic: compaction takes versions away, and never renames one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kconnect.admin.direct.history.config_history import ChangeKind, History
from kconnect.errors import ConflictError, NotFoundError
from kconnect.runtime.storage.config_topic import StringMap

_OF_CONFIGS = (ChangeKind.CREATED, ChangeKind.RECONFIGURED, ChangeKind.DELETED)


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """One config. `config` is None for a deletion, `before` where there was none."""

    version: int
    """Its offset in the config topic."""
    timestamp_ms: int | None
    kind: str
    config: StringMap | None = field(repr=False)
    before: StringMap | None = field(repr=False)
    is_current: bool = False


def config_versions(history: History) -> list[ConfigVersion]:
    """Every config that is left, oldest first; one that was written again without a change is not another."""
    found = [version for version in history.versions if version.kind in _OF_CONFIGS]
    return [
        ConfigVersion(
            version.offset, version.timestamp_ms, str(version.kind), version.new, version.old, version is found[-1]
        )
        for version in found
    ]


def the_version(connector: str, versions: Sequence[ConfigVersion], number: int) -> ConfigVersion:
    """The version of this number. Errors: NotFoundError that lists those there are."""
    for version in versions:
        if version.version == number:
            return version
    known = ", ".join(str(version.version) for version in versions[-10:]) or "none"
    raise NotFoundError(
        f"Connector {connector} has no version {number}",
        hint=f"Its versions: {known}. connect config history {connector} shows them.",
    )


def the_previous(connector: str, versions: Sequence[ConfigVersion]) -> ConfigVersion:
    """The config before the current one. Errors: NotFoundError if it is gone, or never was."""
    earlier = [version for version in versions[:-1] if version.config is not None]
    if not earlier:
        raise NotFoundError(
            f"There is no version of connector {connector} before its current config",
            hint="It was never changed, or compaction has removed what it was before.",
        )
    return earlier[-1]


def restorable(connector: str, version: ConfigVersion) -> StringMap:
    """Its config. Errors: ConflictError for a deletion, which has none."""
    if version.config is None:
        raise ConflictError(
            f"Version {version.version} of connector {connector} is its deletion",
            hint=f"connect connectors delete {connector} deletes it.",
        )
    return version.config
