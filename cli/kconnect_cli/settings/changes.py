"""What has to change so that connectors are as files say. Decisions only, no requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kconnect.client.masks import unmasked
from kconnect.errors import ConfigError
from kconnect.runtime.config.labels import LABELS, labels_of, parse_labels

if TYPE_CHECKING:
    from kconnect.runtime.config.dropins import ConnectorFile
    from kconnect.runtime.config.labels import Labels, LabelSelector


@dataclass(frozen=True, slots=True)
class Change:
    """One connector, as it is (None: not there) and as it shall be (None: deleted)."""

    name: str
    old: Mapping[str, str] | None = field(repr=False)
    new: Mapping[str, str] | None = field(repr=False)
    file: ConnectorFile | None = field(default=None, repr=False)

    @property
    def action(self) -> str:
        """create, update, delete, or unchanged."""
        if self.old is None:
            return "create"
        if self.new is None:
            return "delete"
        return "unchanged" if dict(self.old) == dict(self.new) else "update"

    @property
    def keys(self) -> list[str]:
        """Settings that differ, in order."""
        old, new = self.old or {}, self.new or {}
        return sorted(key for key in {*old, *new} if old.get(key) != new.get(key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Which connectors may be deleted because they are in no file: those that prefix and labels both allow."""

    prefixes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    kept: frozenset[str] = frozenset()
    """Connectors of files that are not applied: their labels are others, and nobody wants them gone."""

    def allows(self, name: str, config: Mapping[str, str]) -> bool:
        """Without a prefix and without labels none may be deleted."""
        if name in self.kept or not (self.prefixes or self.selector):
            return False
        if self.selector is not None and not self.selector.matches(labels_of(config)):
            return False
        return not self.prefixes or name.startswith(self.prefixes)


def split_by_labels(
    files: Sequence[ConnectorFile], selector: LabelSelector | None
) -> tuple[list[ConnectorFile], list[ConnectorFile]]:
    """The files that a selector matches, and the others. Errors: ConfigError for labels that cannot be read."""
    chosen: list[ConnectorFile] = []
    others: list[ConnectorFile] = []
    for file in files:
        (chosen if selector is None or selector.matches(_labels_in(file)) else others).append(file)
    return chosen, others


def plan_changes(
    files: Sequence[ConnectorFile], live: Mapping[str, Mapping[str, str]], *, prune: Pruning | None = None
) -> list[Change]:
    """Changes that make connectors as the files say; those in no file that `prune` allows to delete are deleted.

    Errors: ConfigError when two files give the same connector; BadRequestError for a mask of what is not there.
    """
    changes: dict[str, Change] = {}
    for file in files:
        earlier = changes.get(file.name)
        if earlier is not None and earlier.file is not None:
            raise ConfigError(
                f"{file.path} and {earlier.file.path} both define the connector {file.name}",
                hint="Give one of them another name.",
            )
        old = live.get(file.name)
        changes[file.name] = Change(file.name, old, unmasked(file.config, old or {}, file.name, str(file.path)), file)
    for name in sorted(set(live) - set(changes)):
        if prune is not None and prune.allows(name, live[name]):
            changes[name] = Change(name, live[name], None)
    return list(changes.values())


def _labels_in(file: ConnectorFile) -> Labels:
    try:
        return parse_labels(file.config.get(LABELS, ""))
    except ConfigError as err:
        raise ConfigError(f"{file.path}: {LABELS} of {file.name}: {err}", hint=err.hint) from err


def config_change(name: str, old: Mapping[str, str], patch: Mapping[str, str | None]) -> Change:
    """What a patch makes of a config; None takes a setting away."""
    new = {**old, **patch}
    return Change(name, old, {key: value for key, value in new.items() if value is not None})
