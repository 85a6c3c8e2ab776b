"""The whole state of a cluster as one JSON document, to back it up, move it, or copy it to another cluster.

Shape, version 1 (docs: `connect topics export --help`); what is null or not there is not known, or none:

    {"format": "kconnect-topics", "version": 1, "exported": "2026-01-01T00:00:00.000Z", "secrets": "masked",
     "connectors": [{"name": "orders", "target_state": "STARTED", "config": {..}, "tasks": [{..}, ..],
                     "task_count_record": null}],
     "offsets": {"orders": {"offsets": [{"partition": {..}, "offset": {..}}]}},
     "groups": {"lines": {"group": "connect-lines", "offsets": [{"partition": {"kafka_topic": "t",
                "kafka_partition": 0}, "offset": {"kafka_offset": 7}}]}}}

Statuses are not in it: workers write them. Nor is the session key, which is a secret of the running cluster.
Pure: topics and groups are read in `live_state.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.edit.connector_plans import ConfiguredConnector, connector_state, state_step
from kconnect.admin.direct.edit.plan import Edit, EditPlan, GroupEdit, NoLiveGroup, without_unchanged
from kconnect.admin.direct.read.reader import ConfigView, OffsetView
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.client.masks import unmasked
from kconnect.clock import moment
from kconnect.errors import BadRequestError, ConflictError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, TargetState, TopicPartition, offsets_from_json, offsets_to_json
from kconnect.runtime.herder.offsets.log_ranges import LogRanges, not_in_log
from kconnect.runtime.herder.offsets.offsets_admin import OFFSET, PARTITION, STARTS_OVER, TOPIC, parse_sink_offsets
from kconnect.runtime.storage.offset_document import offset_changes, offset_entries, offsets_document

FORMAT: Final = "kconnect-topics"
VERSION: Final = 1
_FIELDS: Final = {"format", "version", "exported", "secrets", "connectors", "offsets", "groups"}
_CONNECTOR_FIELDS: Final = {"name", "target_state", "config", "tasks", "task_count_record"}


@dataclass(frozen=True, slots=True)
class GroupState:
    """The consumer group of a sink."""

    group: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Archive:
    """A document that was read. `offsets` has keys and values as they are in the topic.

    `has_offsets`: whether the document has offsets at all; without them, existing offsets are left alone.
    """

    connectors: Mapping[str, ConfiguredConnector] = field(repr=False)
    offsets: Mapping[bytes, bytes | None]
    groups: Mapping[str, GroupState]
    has_offsets: bool = True

    def without_offsets(self) -> Archive:
        """Its connectors alone: offsets and groups that are there stay as they are."""
        return Archive(self.connectors, {}, {}, has_offsets=False)

    def chosen(self, names: Collection[str] | None) -> Archive:
        """What is of these connectors; of all with None. Errors: BadRequestError for one that is not in it."""
        if names is None:
            return self
        known = {*self.connectors, *self.groups, *(name for key in self.offsets if (name := _owner(key)))}
        missing = [name for name in names if name not in known]
        if missing:
            raise BadRequestError(f"The file has no connector {missing[0]}", hint=f"It has {', '.join(sorted(known))}.")
        return Archive(
            {name: state for name, state in self.connectors.items() if name in names},
            {key: value for key, value in self.offsets.items() if _owner(key) in names},
            {name: group for name, group in self.groups.items() if name in names},
            self.has_offsets,
        )


@dataclass(frozen=True, slots=True)
class LiveTopics:
    """What a cluster holds now, as `live_state.py` reads it.

    `own_offsets`: connector -> its own offsets topic, by name, where it has one that is there. `logs`: what can be read
    of the partitions whose offsets an import would set, by connector.
    """

    configs: ConfigView
    offsets: OffsetView
    own_offsets: Mapping[str, tuple[str, OffsetView]] = field(default_factory=dict)
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    logs: Mapping[str, LogRanges] = field(default_factory=dict)

    def offset_entries(self) -> dict[bytes, bytes | None]:
        """Offsets of all connectors; where a connector has a topic of its own, what is there wins, as in Java."""
        found = dict(self.offsets.entries)
        for name, (_, view) in self.own_offsets.items():
            own = {key: value for key, value in view.entries.items() if _owner(key) == name and value is not None}
            found.update(offset_changes(found, own))
        return found


def archive_document(
    state: LiveTopics,
    names: Collection[str] | None,
    now_ms: int,
    *,
    with_offsets: bool = True,
    with_groups: bool = True,
    masks: SecretMasks | None = None,
    skip: Callable[[str], None],
) -> dict[str, Any]:
    """The document; of these connectors only, where they are given. What it cannot hold is reported to `skip`."""
    masks = masks or SecretMasks()
    connectors = []
    for name in state.configs.snapshot.connectors:
        found = connector_state(state.configs, name)
        if found is None or (names is not None and name not in names):
            continue
        if name in state.configs.snapshot.inconsistent:
            skip(f"The tasks of {name} are not complete: they are left out, and the leader will write them again")
        connectors.append(
            {
                "name": name,
                "target_state": str(found.target_state),
                "config": masks.settings(name, found.config),
                "tasks": [masks.settings(name, task) for task in found.tasks],
                "task_count_record": found.task_count_record,
            }
        )
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "exported": moment(now_ms),
        "secrets": "included" if masks.reveal else "masked",
        "connectors": connectors,
    }
    if with_offsets:
        entries = state.offset_entries()
        if names is None:
            names = state.configs.snapshot.configs.keys()
            gone = Counter(owner for key in entries if (owner := _owner(key)) is not None and owner not in names)
            for name, count in sorted(gone.items()):
                skip(f"{pluralize(count, 'offset')} of {name}, which is not a connector any more")
        document["offsets"] = offsets_document(entries, connectors=names, skip=skip)
    if with_groups:
        document["groups"] = {
            name: {"group": group.group, **offsets_to_json(_sink_offsets(group.offsets))}
            for name, group in state.groups.items()
            if names is None or name in names
        }
    return document


def read_archive(document: object) -> Archive:
    """What a document says. Errors: BadRequestError that names the place; another format or version is refused."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise BadRequestError(
            f'This is not an export of a cluster: "format" is not "{FORMAT}"',
            hint="`connect topics export FILE` writes the expected format.",
        )
    version = document.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise BadRequestError(
            f"This export is of version {version}, and only version {VERSION} is known here",
            hint="Use a newer connect, or export again with this one.",
        )
    if unknown := document.keys() - _FIELDS:
        raise BadRequestError(f'The export has an unknown field "{min(unknown)}"')
    listed = document.get("connectors")
    if not isinstance(listed, list):
        raise BadRequestError("connectors must be a list")
    connectors: dict[str, ConfiguredConnector] = {}
    for index, item in enumerate(listed):
        name, state = _connector(f"connectors[{index}]", item)
        if name in connectors:
            raise BadRequestError(f"connectors[{index}]: {name} appears twice")
        connectors[name] = state
    given = document.get("offsets", {})
    if not isinstance(given, Mapping):
        raise BadRequestError('offsets must be an object {"connector": {"offsets": [..]}, ..}')
    offsets = offset_entries(given)
    return Archive(connectors, offsets, _groups(document.get("groups", {})), "offsets" in document)


def import_plan(archive: Archive, state: LiveTopics, *, replace: bool = False) -> EditPlan:
    """What to write so that the cluster matches the archive; nothing where it already does.

    Offsets and groups come before configs, each connector's config last and as a whole: a worker that starts after an
    import that was killed runs no connector without its offsets, and the import can be repeated.
    Errors: ConflictError, without `replace`, when a connector is there with another config, tasks, target state or
    offsets; BadRequestError for masked secrets that are not there, and for offsets of partitions that do not exist.
    """
    wanted = {name: _with_secrets(name, found, state.configs) for name, found in archive.connectors.items()}
    connector_steps = {name: state_step(state.configs, name, found, with_record=True) for name, found in wanted.items()}
    replaced = set(wanted) if replace else set()
    offsets = _offset_steps(archive, state, replaced if archive.has_offsets else ())
    groups = _group_edits(archive, state, replaced)
    if not replace:
        for name in wanted:
            if state.configs.snapshot.contains(name):
                _refuse_other(name, connector_steps[name], offsets, groups, state)
    return EditPlan(
        f"Import {pluralize(len(wanted), 'connector')}",
        (*offsets, *(step for step in connector_steps.values() if step)),
        (NoLiveGroup("an import needs a cluster that is not running"),),
        groups=tuple(groups.values()),
        notes=_unreadable(groups, state.logs),
    )


def _unreadable(groups: Mapping[str, GroupEdit], logs: Mapping[str, LogRanges]) -> tuple[str, ...]:
    """Says at which offsets nothing can be read: a file may be older than what topics keep, or of other topics.

    Errors: BadRequestError for partitions that do not exist, for which no broker takes an offset.
    """
    notes = []
    for name, edit in groups.items():
        log = logs.get(name, LogRanges())
        counts = log.partitions
        gone = {at: new for at, new in edit.new.items() if not 0 <= at.partition < counts.get(at.topic, 0)}
        if name in logs and (problems := not_in_log(gone, log)):
            raise BadRequestError(
                f"Connector {name}: {'; '.join(problems)}; nothing was written",
                hint="Create what is missing, or leave offsets as they are: --without-offsets.",
            )
        if name in logs and (problems := not_in_log(edit.new, log)):
            notes.append(f"Connector {name}: {'; '.join(problems)}. {STARTS_OVER}")
    return tuple(notes)


def _refuse_other(
    name: str,
    config: Sequence[Edit],
    offsets: Sequence[Sequence[Edit]],
    groups: Mapping[str, GroupEdit],
    state: LiveTopics,
) -> None:
    differs = []
    if config:
        differs.append("config")
    if any(_owner(edit.key) == name for step in offsets for edit in step):
        differs.append("offsets")
    if name in groups:
        differs.append(f"offsets of group {groups[name].group}")
    if differs:
        raise ConflictError(
            f"Connector {name} already exists, with another {' and other '.join(differs)}; nothing was written",
            hint="--replace makes it as the file says; --connectors leaves it out.",
        )


def _with_secrets(name: str, wanted: ConfiguredConnector, view: ConfigView) -> ConfiguredConnector:
    known = view.snapshot.raw_config(name) or {}
    return ConfiguredConnector(
        unmasked(wanted.config, known, f"connector {name}"),
        wanted.target_state,
        [unmasked(task, known, f"a task of {name}") for task in wanted.tasks],
        wanted.task_count_record,
    )


def _offset_steps(archive: Archive, state: LiveTopics, replaced: Collection[str]) -> list[tuple[Edit, ...]]:
    """One step for the worker's topic, one for each connector's own, which is written first, as Java does."""
    steps = []
    for name, (topic, view) in state.own_offsets.items():
        own = {key: value for key, value in archive.offsets.items() if _owner(key) == name}
        if own or name in replaced:
            changes = offset_changes(view.entries, own, replaced={name} & set(replaced))
            steps.append(_offset_edits(view, changes, topic))
    changes = offset_changes(state.offsets.entries, archive.offsets, replaced=replaced)
    steps.append(_offset_edits(state.offsets, changes, None))
    return list(without_unchanged(steps))


def _offset_edits(view: OffsetView, changes: Mapping[bytes, bytes | None], topic: str | None) -> list[Edit]:
    """All spellings of a key that are in the topic, so that no reader finds an older one."""
    return [
        Edit(InternalTopic.OFFSET, spelling, value, view.latest.get(spelling), topic)
        for key, value in changes.items()
        for spelling in view.offsets.spellings_to_write(key, value)
    ]


def _group_edits(archive: Archive, state: LiveTopics, replaced: Collection[str]) -> dict[str, GroupEdit]:
    """By connector; only groups with an offset that changes."""
    found = {}
    for name, wanted in archive.groups.items():
        current = state.groups.get(name)
        is_known = current is not None and current.group == wanted.group
        old = current.offsets if current is not None and is_known else {}
        new: dict[TopicPartition, int | None] = {
            at: offset for at, offset in wanted.offsets.items() if old.get(at) != offset
        }
        if name in replaced:
            new |= {at: None for at in old if at not in wanted.offsets}
        if new:
            config = archive.connectors[name].config if name in archive.connectors else {}
            found[name] = GroupEdit(wanted.group, new, old if is_known else None, config=config)
    return found


def _sink_offsets(offsets: Mapping[TopicPartition, int]) -> list[ConnectorOffset]:
    return [
        ConnectorOffset({TOPIC: at.topic, PARTITION: at.partition}, {OFFSET: offset})
        for at, offset in sorted(offsets.items())
    ]


def _connector(where: str, item: object) -> tuple[str, ConfiguredConnector]:
    if not isinstance(item, Mapping):
        raise BadRequestError(f"{where} must be an object")
    if unknown := item.keys() - _CONNECTOR_FIELDS:
        raise BadRequestError(f'{where}: unknown field "{min(unknown)}"')
    name, state = item.get("name"), item.get("target_state", "STARTED")
    if not isinstance(name, str) or not name:
        raise BadRequestError(f"{where}: name must be a text")
    where = f"{where} ({name})"
    if state not in TargetState.__members__:
        raise BadRequestError(f"{where}: target_state {state!r} is none of {', '.join(TargetState)}")
    tasks, record = item.get("tasks", []), item.get("task_count_record")
    if not isinstance(tasks, list):
        raise BadRequestError(f"{where}: tasks must be a list")
    config = _settings(f"{where}: config", item.get("config"))
    if config.get("name", name) != name:
        raise BadRequestError(f"{where}: its config is that of {config['name']}: name must be the same in both")
    if record is not None and (isinstance(record, bool) or not isinstance(record, int) or record < 0):
        raise BadRequestError(f"{where}: task_count_record must be null or a number of tasks")
    return name, ConfiguredConnector(
        config,
        TargetState(state),
        [_settings(f"{where}: tasks[{number}]", task) for number, task in enumerate(tasks)],
        record,
    )


def _settings(where: str, found: object) -> dict[str, str]:
    if not isinstance(found, Mapping):
        raise BadRequestError(f"{where} must be an object of settings")
    for key, value in found.items():
        if not isinstance(value, str | None):
            raise BadRequestError(f"{where}: {key} must be a text")
    return dict(found)


def _groups(found: object) -> dict[str, GroupState]:
    if not isinstance(found, Mapping):
        raise BadRequestError('groups must be an object {"connector": {"group": "..", "offsets": [..]}}')
    groups = {}
    for name, item in found.items():
        where = f"groups: {name}"
        if not isinstance(item, Mapping) or not isinstance(item.get("group"), str) or not item["group"]:
            raise BadRequestError(f"{where}: group must be a text")
        try:
            listed = offsets_from_json({"offsets": item.get("offsets")})
            parsed = parse_sink_offsets(listed)
        except BadRequestError as err:
            raise BadRequestError(f"{where}: {err}") from err
        if len(parsed) < len(listed):
            raise BadRequestError(f"{where}: a partition has more than one offset", hint="Keep one of them.")
        offsets = {at: offset for at, offset in parsed.items() if offset is not None}
        for at, offset in offsets.items():
            if offset < 0:
                raise BadRequestError(f"{where}: the offset {offset} of {at} is below 0")
        groups[name] = GroupState(item["group"], offsets)
    return groups


def _owner(key: bytes) -> str | None:
    from kconnect.runtime.storage.offset_topic import decode_key

    decoded = decode_key(key)
    return None if decoded is None else decoded[0]
