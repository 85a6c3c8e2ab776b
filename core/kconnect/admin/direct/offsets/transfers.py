"""Source offsets taken elsewhere: between a standalone worker's file, the topics of a cluster, and a document.

`plan_copy` takes them to another name: a connector copied or renamed on the topics, with the same config.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.edit.apply import Applied, Checked, apply_in_order, check_plan
from kconnect.admin.direct.edit.connector_plans import creation_requirements, rename_plan
from kconnect.admin.direct.edit.plan import EditPlan, NoLiveOwner, NoRunningTask, Requirement, Stopped
from kconnect.admin.direct.group.live_group import live_group
from kconnect.admin.direct.offsets.changes import PlanSequence
from kconnect.admin.direct.offsets.creation import plan_creation
from kconnect.admin.direct.offsets.plans import refuse_members, reset_plans, resets_of_others, source_plans
from kconnect.admin.direct.read.connector_offsets import GroupNow, SourceNow, read_offsets, read_offsets_now
from kconnect.errors import BadRequestError, ConflictError, ConnectError, NotFoundError
from kconnect.java.compat.properties import read_properties
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorType,
    TargetState,
    offsets_from_json,
    offsets_to_json,
)
from kconnect.runtime.storage.offset_document import offset_changes, offset_entries, offsets_document
from kconnect.runtime.storage.offset_store import FileOffsetStore
from kconnect.runtime.storage.snapshot import ClusterSnapshot

Offsets = Mapping[str, Sequence[ConnectorOffset]]
"""Source offsets by connector; an offset None asks for the partition's reset."""

_FILE_SETTING = "offset.storage.file.filename"
_OWN_TOPIC = "offsets.storage.topic"


class OffsetFileNow:
    """A standalone worker's offsets file, read; `FileOffsetStore` reads and writes it."""

    def __init__(self, path: Path) -> None:
        """Errors: ConnectError when it cannot be read or is damaged."""
        self.path = path
        self._store = FileOffsetStore(path, may_be_unwritable=True)
        self._store.start()

    def offsets(self, tell: Callable[[str], None]) -> Offsets:
        """Everything in it; what a document cannot hold is reported."""
        return _of_document(offsets_document(self._store.entries(), skip=tell))

    def changes(self, wanted: Offsets, *, replaced: bool) -> dict[bytes, bytes | None]:
        """What has to be written. With `replaced` other partitions of these connectors go. Errors: BadRequestError."""
        entries = _entries(wanted)
        return offset_changes(self._store.entries(), entries, replaced=list(wanted) if replaced else ())

    def value(self, key: bytes) -> bytes | None:
        return self._store.get([key])[key]

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Errors: ConflictError when a worker here uses the file, or it has other offsets than when it was read;
        ConnectError when it cannot be read or written.
        """
        refuse_if_used(self.path)
        # All of the file is written: what a worker has committed since would go back, of every connector
        if OffsetFileNow(self.path)._store.entries() != self._store.entries():
            raise ConflictError(
                f"The offsets file {self.path} was changed in the meantime, nothing was written",
                hint="Look at it again, and repeat the command.",
            )
        self._store.set(changes)


def read_offset_file(path: Path) -> OffsetFileNow:
    """A file that is there. Errors: NotFoundError; ConnectError when it cannot be read or is damaged."""
    if not path.exists():
        raise NotFoundError(f"Offsets file {path} does not exist")
    return OffsetFileNow(path)


def users_of(path: Path) -> list[str]:
    """Standalone workers on this machine, ours or Java's, whose properties name this offsets file: a worker keeps all
    offsets in memory, and writes over what others put there.

    Shape: a sentence's end for each, `process 4711 (worker.properties)`. Workers elsewhere cannot be seen.
    """
    import psutil

    target = path.expanduser().resolve()
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = process.info["cmdline"] or []
        if not any("connect" in word.lower() for word in words):
            continue
        try:
            folder = Path(process.cwd())
        except (psutil.Error, OSError):  # another user's, or gone since
            continue
        for word in words[1:]:
            if word.endswith(".properties") and _names_file(folder, word, target):
                found.append(f"process {process.info['pid']} ({word})")
                break
    return found


def _names_file(folder: Path, properties: str, target: Path) -> bool:
    try:
        named = read_properties(folder / properties).get(_FILE_SETTING)
    except (OSError, ConnectError):  # no worker's file after all
        return False
    return named is not None and (folder / Path(named).expanduser()).resolve() == target


def refuse_if_used(path: Path) -> None:
    """Errors: ConflictError when a worker uses the file."""
    users = users_of(path)
    if users:
        raise ConflictError(
            f"The offsets file {path} is used by a running worker: {', '.join(users)}",
            hint="Stop it first: it would write its own offsets over these.",
        )


# --- a cluster's topics ---


def read_cluster(client: DirectClient, names: Collection[str], tell: Callable[[str], None]) -> Offsets:
    """Offsets of these sources, or without names of all that have any, also of such as are deleted.

    Errors: NotFoundError for a name without config and offsets; BadRequestError for a sink.
    """
    view = client.reader.offsets()
    found = dict(_of_document(offsets_document(view.entries, connectors=names or None, skip=tell)))
    snapshot = client.configs.snapshot
    for name in names or snapshot.connectors:
        if not snapshot.contains(name):
            if name not in found:
                raise NotFoundError(f"Unknown connector {name}: it has neither a config nor offsets")
            continue
        info = client.connector(name)
        if info.type is ConnectorType.SINK:
            if name in names:
                raise _is_sink(name)
        elif (info.config.get(_OWN_TOPIC) or "").strip():
            found[name] = client.connector_offsets(name)
        if name in names:
            found.setdefault(name, [])
    return {name: offsets for name, offsets in found.items() if offsets or name in names}


@dataclass(frozen=True, slots=True)
class TopicImport:
    """Offsets on their way to a cluster's topics: plans of one connector after the other."""

    plans: tuple[EditPlan, ...]

    @classmethod
    def plan(cls, client: DirectClient, wanted: Offsets, *, replaced: bool) -> TopicImport:
        """Errors: BadRequestError for offsets that are none, or of a sink; as `read_cluster`."""
        _entries(wanted)
        is_live = not client.access.has_group or live_group(client.access).is_live
        plans: list[EditPlan] = []
        for name, offsets in wanted.items():
            now = _now(client, name)
            all_ = [*offsets, *resets_of_others(now, offsets)] if replaced else offsets
            needs = import_requirements(name, client.configs.snapshot, is_live=is_live)
            made = source_plans(client.access, now, all_, force=True, verb="Import")
            plans += [replace(plan, requirements=needs) for plan in made]
        return cls(tuple(plans))

    def check(self, client: DirectClient, *, force: bool) -> Checked:
        """Errors: as `check_plan`."""
        needs = tuple(dict.fromkeys(need for plan in self.plans for need in plan.requirements))
        return check_plan(client.access, client.reader, EditPlan("Import offsets", (), needs), force=force)

    def apply(self, client: DirectClient, *, force: bool) -> list[Applied]:
        """Errors: as `apply_in_order`."""
        return apply_in_order(client.access, client.reader, self.plans, force=force)


def import_requirements(name: str, snapshot: ClusterSnapshot, *, is_live: bool) -> tuple[Requirement, ...]:
    """A connector that no worker runs may have any target state; in a live cluster it has to be STOPPED."""
    if not is_live or not snapshot.contains(name):
        return (NoRunningTask(name),)
    if snapshot.target_state(name) is TargetState.STOPPED:
        return (Stopped(name), NoRunningTask(name))
    return (NoLiveOwner(name), NoRunningTask(name))


def _now(client: DirectClient, name: str) -> SourceNow:
    if not client.configs.snapshot.contains(name):
        return SourceNow(name, {None: client.reader.offsets()})
    now = read_offsets_now(client.access, client.reader, client.connector(name))
    if not isinstance(now, SourceNow):
        raise _is_sink(name)
    return now


def _is_sink(name: str) -> BadRequestError:
    return BadRequestError(
        f"{name} is a sink: its offsets are those of its consumer group",
        hint=f"connect offsets show {name} --direct -o json, and alter, move them.",
    )


def standalone_file(access: ClusterAccess) -> Path | None:
    """The offsets file, where the settings are those of a standalone worker."""
    named = access.worker.get(_FILE_SETTING)
    return None if named is None or access.worker.get(InternalTopic.OFFSET.setting) else Path(named).expanduser()


def _entries(wanted: Offsets) -> dict[bytes, bytes | None]:
    return offset_entries({name: offsets_to_json(offsets) for name, offsets in wanted.items()})


def _of_document(document: Mapping[str, Any]) -> dict[str, list[ConnectorOffset]]:
    return {name: offsets_from_json(body) for name, body in document.items()}


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What to write, in order: the offsets of the new name, then its config, and with it the end of the old one.

    `unchecked` says why the settings were not checked, if they were not.
    """

    old: str
    offsets: Sequence[ConnectorOffset]
    change: PlanSequence
    is_rename: bool
    unchecked: str | None = None

    def check(self, client: DirectClient, *, force: bool) -> Checked:
        """Errors: ConflictError, ConnectError as `check_plan`."""
        return self.change.check(client, force=force)

    def apply(self, client: DirectClient, *, force: bool) -> list[Applied]:
        """Errors: as `apply_plan`; ConflictError if the old one's offsets are not those that were shown."""
        if self.is_rename:
            self.change.check(client, force=force)
            self.change.fence(client.access)
            client.forget()
            if list(client.connector_offsets(self.old)) != list(self.offsets):
                raise ConflictError(
                    f"The offsets of {self.old} have changed since they were shown",
                    hint="Nothing was changed. Look at them again, and repeat the command.",
                )
        return replace(self.change, zombies=0).apply(client, force=force)


def plan_copy(client: DirectClient, old: str, new: str, *, is_rename: bool, starts: bool) -> CopyPlan:
    """`starts`: a copy runs when a worker comes; else it is STOPPED. A renamed one keeps its state.

    Errors: NotFoundError; AlreadyExistsError; BadRequestError for settings that a worker would refuse; ConflictError
    while a sink that is renamed has tasks that run; ConnectError of the reading.
    """
    info = client.connector(old)
    if is_rename and info.type is ConnectorType.SINK:
        running = read_offsets_now(client.access, client.reader, info, partitions=())
        assert isinstance(running, GroupNow)
        refuse_members(running, old)
    offsets = read_offsets(client.access, client.reader, info)
    state = _state(client, old) if is_rename else (None if starts else TargetState.STOPPED)
    config = {**info.config, "name": new}
    made = plan_creation(client, new, config, state, offsets or None, force=True)
    first, last = list(made.change.plans[:-1]), made.change.plans[-1]
    if not offsets:
        first = _leftovers(client, client.as_configured(new, config))
    zombies = 0
    if is_rename:
        last = rename_plan(last, client.plan("delete", old), old, new)
        zombies = _producers(client, info)
    change = PlanSequence(old, (*first, last), zombies, made.change.hook)
    return CopyPlan(old, offsets, change, is_rename, made.unchecked)


def _state(client: DirectClient, name: str) -> TargetState | None:
    """Returns None for one that runs, as nothing is written for a new connector then."""
    found = client.configs.snapshot.target_state(name)
    return None if found is TargetState.STARTED else found


def _leftovers(client: DirectClient, info: ConnectorInfo) -> list[EditPlan]:
    """What a former connector of the new name left is removed: the old one has no offsets, so neither has this."""
    now = read_offsets_now(client.access, client.reader, info, partitions=())
    needs = creation_requirements(info.name)
    return [replace(plan, requirements=needs) for plan in reset_plans(client.access, now, info.name)]


def _producers(client: DirectClient, info: ConnectorInfo) -> int:
    """With exactly-once support: of how many tasks producers are fenced, so that none commits an offset any more."""
    if not client.access.is_exactly_once or info.type is ConnectorType.SINK:
        return 0
    snapshot = client.configs.snapshot
    return max(snapshot.task_count(info.name) or 0, snapshot.task_count_record(info.name) or 0)
