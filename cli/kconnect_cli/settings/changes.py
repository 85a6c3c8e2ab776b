"""What has to change so that connectors are as files say. Decisions only, no requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kconnect.client.masks import unmasked
from kconnect.errors import ConfigError
from kconnect.model import TargetState
from kconnect.runtime.config.custom_resources import CLUSTER
from kconnect.runtime.config.labels import LABELS, labels_of, parse_labels

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus
    from kconnect.runtime.config.dropins import ConnectorFile
    from kconnect.runtime.config.labels import Labels, LabelSelector


@dataclass(frozen=True, slots=True)
class Change:
    """One connector, as it is (None: not there) and as it shall be (None: deleted)."""

    name: str
    old: Mapping[str, str] | None = field(repr=False)
    new: Mapping[str, str] | None = field(repr=False)
    file: ConnectorFile | None = field(default=None, repr=False)
    states: tuple[TargetState, TargetState] | None = None
    """Where a file wants another state than the connector is in: that, and the file's."""

    @property
    def action(self) -> str:
        """create, update, delete, or unchanged."""
        if self.old is None:
            return "create"
        if self.new is None:
            return "delete"
        return "update" if self.keys or self.states else "unchanged"

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
    files: Sequence[ConnectorFile],
    live: Mapping[str, Mapping[str, str]],
    *,
    prune: Pruning | None = None,
    statuses: Mapping[str, ConnectorStatus] | None = None,
) -> list[Change]:
    """Changes that make connectors as the files say; those in no file that `prune` allows to delete are deleted.

    `statuses` are needed where a file `keeps_state`.
    Errors: ConfigError when two files give the same connector; BadRequestError for a mask of what is not there.
    """
    _require_one_cluster(files)
    changes: dict[str, Change] = {}
    for file in files:
        earlier = changes.get(file.name)
        if earlier is not None and earlier.file is not None:
            raise ConfigError(
                f"{file.path} and {earlier.file.path} both define the connector {file.name}",
                hint="Give one of them another name.",
            )
        old = live.get(file.name)
        new = unmasked(file.config, old or {}, file.name, str(file.path))
        states = _states(file, (statuses or {}).get(file.name)) if old is not None else None
        changes[file.name] = Change(file.name, old, new, file, states)
    for name in sorted(set(live) - set(changes)):
        if prune is not None and prune.allows(name, live[name]):
            changes[name] = Change(name, live[name], None)
    return list(changes.values())


def _states(file: ConnectorFile, status: ConnectorStatus | None) -> tuple[TargetState, TargetState] | None:
    """The state that a connector shall have by its status, and another that its file wants."""
    if status is None or not file.keeps_state or file.initial_state is None:
        return None
    state = str(status.connector.state)
    now = TargetState(state) if state in (TargetState.PAUSED, TargetState.STOPPED) else TargetState.STARTED
    return None if now is file.initial_state else (now, file.initial_state)


def _require_one_cluster(files: Sequence[ConnectorFile]) -> None:
    """Errors: ConfigError for custom resources of several Connect clusters, which all would come to this one."""
    first: ConnectorFile | None = None
    for file in files:
        cluster = file.labels.get(CLUSTER)
        if cluster is None:
            continue
        first = first or file
        if cluster != (its := first.labels[CLUSTER]):
            raise ConfigError(
                f"{file.path}: {file.name} is of the cluster {cluster}, and {first.name} in {first.path} of {its}",
                hint=f"-l {CLUSTER}={its} applies those of that cluster alone.",
            )


def _labels_in(file: ConnectorFile) -> Labels:
    """The labels of its config, and those of a custom resource beside it."""
    try:
        return {**file.labels, **parse_labels(file.config.get(LABELS, ""))}
    except ConfigError as err:
        raise ConfigError(f"{file.path}: {LABELS} of {file.name}: {err}", hint=err.hint) from err


def config_change(name: str, old: Mapping[str, str], patch: Mapping[str, str | None]) -> Change:
    """What a patch makes of a config; None takes a setting away."""
    new = {**old, **patch}
    return Change(name, old, {key: value for key, value in new.items() if value is not None})
