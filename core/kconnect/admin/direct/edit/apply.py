"""Writes an EditPlan: checks its requirements and that nothing changed since it was shown, writes, reads back.

The thin shell of `plan.py`. Deadline of each request: `access.timeout_s` (--timeout).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Self

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.change_notes import note_configs
from kconnect.admin.direct.edit.plan import (
    Edit,
    EditPlan,
    GroupEdit,
    NoLiveGroup,
    NoRunningTask,
    NotCreated,
    Refusal,
    Requirement,
    Stopped,
    other_group_refusals,
    refusals,
)
from kconnect.admin.direct.group.live_group import live_group
from kconnect.admin.direct.read.reader import ClusterReader, Latest
from kconnect.errors import ConflictError, ConnectError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import LogPosition, LogRecord, TopicPartition
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.storage.config_clients import leader_transactional_id

if TYPE_CHECKING:
    from kconnect.runtime.kafka.atomic_writers import BatchWriter, KafkaExclusiveWriter


_TIMEOUT_SETTING = "--timeout"
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class WrittenEdit:
    """An edit and the position of its record."""

    edit: Edit
    position: LogPosition


@dataclass(frozen=True, slots=True)
class Applied:
    """What was written, in order, and the sentences of what --force overrode.

    `meanwhile`: sentences about records of the same keys that somebody else wrote between the last look and the
    reading back, as Kafka has no write that is refused then; and that the change is not in the history.
    """

    written: tuple[WrittenEdit, ...]
    groups: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    meanwhile: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """What --force overrides, and what to warn about before anything is written, as sentences."""

    overridden: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def all_of(cls, found: Iterable[Checked]) -> Self:
        """The sentences of several plans, each once."""
        each = list(found)
        overridden = dict.fromkeys(sentence for checked in each for sentence in checked.overridden)
        warnings = dict.fromkeys(sentence for checked in each for sentence in checked.warnings)
        return cls(tuple(overridden), tuple(warnings))


def check_plan(access: ClusterAccess, reader: ClusterReader, plan: EditPlan, *, force: bool = False) -> Checked:
    """Ask the broker for live workers, and read what the plan's requirements need.

    Errors: ConflictError with the first refusal that is not overridden; ConnectError of the reading.
    """
    needs = _requirements(access, plan)
    if not needs:
        return Checked()
    live = live_group(access) if access.has_group else None
    snapshot = reader.configs().snapshot if any(isinstance(need, Stopped | NotCreated) for need in needs) else None
    statuses = reader.known_statuses().statuses if any(isinstance(need, NoRunningTask) for need in needs) else None
    found = refusals(needs, live, snapshot, statuses)
    warnings: tuple[str, ...] = ()
    if live is not None and not live.is_live:
        others = reader.other_groups()
        found += other_group_refusals(needs, live, others)
        warnings = others.warnings(live.name)
    remaining = [refusal for refusal in found if refusal.is_final or not force]
    if remaining:
        raise _refused(plan, remaining)
    return Checked(tuple(refusal.sentence for refusal in found), warnings)


def apply_plan(
    access: ClusterAccess,
    reader: ClusterReader,
    plan: EditPlan,
    *,
    force: bool = False,
    before: Callable[[], None] | None = None,
) -> Applied:
    """Write the plan, step by step.

    `before` runs once all is checked and nothing is written (asking the plugin, fencing of zombies); as it may take
    long, all is checked again after it.

    Errors: ConflictError when a requirement does not hold or a record was changed since it was shown: nothing is
    written; TimedOutError, ConnectError: the message says how much was written before, and doing it again is fine.
    """
    overridden = check_plan(access, reader, plan, force=force).overridden
    with _Writers(access, reader, plan) as writers:
        writers.looked_at = _check_unchanged(reader, plan)
        if before is not None:
            before()
            # It may have taken long, and any worker may have written meanwhile that the connector is resumed
            overridden = check_plan(access, reader, plan, force=force).overridden
            writers.looked_at = _check_unchanged(reader, plan)
        for group in plan.groups:
            _write_group(access, plan, group)
        count = 0
        try:
            for step in plan.steps:
                for run in _runs(step):
                    writers.write(run)
                    count += len(run)
        except ConnectError as error:
            if count:
                error.args = (f"{error}; {count} of {pluralize(len(plan.edits), 'record')} written before it",)
                error.hint = error.hint or "Run the command again: it continues from what has been written."
            raise
        written = writers.read_back()
    notes = note_configs(access, plan.edits)
    groups = tuple(group.group for group in plan.groups)
    return Applied(tuple(written), groups, overridden, (*writers.meanwhile, *notes))


def apply_in_order(
    access: ClusterAccess,
    reader: ClusterReader,
    plans: Sequence[EditPlan],
    *,
    force: bool = False,
    before: Callable[[], None] | None = None,
) -> list[Applied]:
    """Write one plan after the other; `before` belongs to the first.

    Errors: as `apply_plan`; when plans before it are written, the message names them.
    """
    done: list[Applied] = []
    for number, plan in enumerate(plans):
        try:
            done.append(apply_plan(access, reader, plan, force=force, before=None if number else before))
        except ConnectError as error:
            if done:
                earlier = ", ".join(f'"{earlier.title}"' for earlier in plans[:number])
                error.args = (f"{error}. Done before: {earlier}",)
            raise
    return done


def _requirements(access: ClusterAccess, plan: EditPlan) -> tuple[Requirement, ...]:
    """The plan's own; the leader of a live cluster is fenced by its configs where exactly-once is on."""
    if access.is_exactly_once and plan.is_leaders:
        return (
            *plan.requirements,
            NoLiveGroup("with exactly-once support this fences out its leader"),
        )
    return plan.requirements


def _refused(plan: EditPlan, remaining: Sequence[Refusal]) -> ConflictError:
    rest = f" (and {pluralize(len(remaining) - 1, 'more reason')})" if len(remaining) > 1 else ""
    return ConflictError(f"{plan.title}: refused. {remaining[0].sentence}{rest}", hint=remaining[0].hint)


def _check_unchanged(reader: ClusterReader, plan: EditPlan) -> dict[str, dict[int, int]]:
    """How far each topic was read. Errors: ConflictError when the record in force of a key is not that of the plan."""
    looked_at: dict[str, dict[int, int]] = {}
    for (which, topic), edits in _by_topic(plan.edits).items():
        latest = Latest(over_partitions=which is not InternalTopic.CONFIG)
        for record in reader.records(which, topic=topic):
            latest.apply(record)
            looked_at.setdefault(record.topic, {})[record.partition] = record.offset + 1
        for edit in edits:
            now = latest.get(edit.key)
            if _place(now) != _place(edit.old):
                raise ConflictError(
                    f"{plan.title}: {edit.key_text} was changed in the meantime, nothing was written: it was "
                    f"{_record_text(edit.old)}, and is {_record_text(now)}",
                    hint="Look at it again, and repeat the command.",
                )
    return looked_at


def _by_topic(edits: Sequence[Edit]) -> dict[tuple[InternalTopic, str | None], list[Edit]]:
    """Each key's first edit: later ones of the same key replace what the plan itself writes."""
    found: dict[tuple[InternalTopic, str | None], dict[bytes, Edit]] = {}
    for edit in edits:
        found.setdefault((edit.which, edit.topic), {}).setdefault(edit.key, edit)
    return {at: list(by_key.values()) for at, by_key in found.items()}


def _place(record: LogRecord | None) -> tuple[int, int] | None:
    return None if record is None or record.value is None else (record.partition, record.offset)


def _record_text(record: LogRecord | None) -> str:
    return "without a value" if record is None else f"at offset {record.offset} of partition {record.partition}"


def _runs(step: Sequence[Edit]) -> list[list[Edit]]:
    """A step's edits, by topic."""
    return [list(run) for _, run in groupby(step, key=lambda edit: (edit.which, edit.topic))]


def _write_group(access: ClusterAccess, plan: EditPlan, edit: GroupEdit) -> None:
    """Errors: ConflictError while the group has members, and when it is not as it was shown; ConnectError."""
    from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets

    wanted = {at: offset for at, offset in edit.new.items() if offset is not None}
    removed = [at for at, offset in edit.new.items() if offset is None]
    with kafka_group_offsets(access.worker, access.timeout_s, timeout_setting=_TIMEOUT_SETTING)(edit.config) as groups:
        changed = None if edit.old is None else edit.changed_since(groups.list_offsets(edit.group))
        if changed is not None:
            raise ConflictError(
                f"{plan.title}: consumer group {edit.group} was changed in the meantime, nothing was written to it: "
                f"{changed}",
                hint="Look at it again, and repeat the command.",
            )
        if edit.is_deleted:
            groups.delete_group(edit.group)
        if wanted:
            groups.alter_offsets(edit.group, wanted)
        if removed and not edit.is_deleted:
            groups.delete_offsets(edit.group, removed)


class _Writers:
    """Writes runs of edits: in the leader's or a connector's transactions, or as plain batches. A context manager."""

    def __init__(self, access: ClusterAccess, reader: ClusterReader, plan: EditPlan) -> None:
        self._access = access
        self._reader = reader
        self._plan = plan
        self._stack = ExitStack()
        self._exclusive: dict[str, KafkaExclusiveWriter] = {}
        self._plain: dict[str, BatchWriter] = {}
        self._begin: dict[str, dict[int, int]] = {}
        """Topic -> partition -> from where on what is written is looked for."""
        self.looked_at: dict[str, dict[int, int]] = {}
        """Topic -> partition -> up to where it was read before the writing."""
        self.meanwhile: list[str] = []
        """What others wrote to the same keys since."""

    def __enter__(self) -> Self:
        """Claims come first, so that nobody writes between the check and the writing."""
        try:
            for which, topic in _by_topic(self._plan.edits):
                transactional_id = self._transactional_id(which)
                if transactional_id is not None:
                    self._claim(topic or self._access.topic(which), transactional_id)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, edits: Sequence[Edit]) -> None:
        """Write edits of one topic; they are acknowledged when it returns."""
        which, topic = edits[0].which, self._name(edits[0])
        exclusive = self._exclusive.get(topic)
        if exclusive is not None:
            exclusive.write([(edit.key, edit.new) for edit in edits], self._access.timeout_s)
            return
        from kconnect.runtime.kafka.atomic_writers import BatchEntry

        entries = [BatchEntry(edit.key, edit.new, None if edit.old is None else edit.old.partition) for edit in edits]
        begin, looked_at = self._begin.setdefault(topic, {}), self.looked_at.get(topic, {})
        for at in self._plain_writer(which, topic).write(entries):
            begin.setdefault(at.partition, looked_at.get(at.partition, 0))

    def read_back(self) -> list[WrittenEdit]:
        """Positions of all records of the plan. Errors: TimedOutError when one cannot be read in time."""
        by_topic: dict[str, list[int]] = {}
        for number, edit in enumerate(self._plan.edits):
            by_topic.setdefault(self._name(edit), []).append(number)
        found: dict[int, LogPosition] = {}
        for topic, numbers in by_topic.items():
            edits = [self._plan.edits[number] for number in numbers]
            found |= zip(numbers, self._await(edits[0].which, topic, edits), strict=True)
        return [WrittenEdit(edit, found[number]) for number, edit in enumerate(self._plan.edits)]

    def _name(self, edit: Edit) -> str:
        return edit.topic or self._access.topic(edit.which)

    def _transactional_id(self, which: InternalTopic) -> str | None:
        if which is InternalTopic.CONFIG:
            if not (self._plan.is_leaders and self._access.is_exactly_once):
                return None
            _ = self._access.group_id  # is part of it
            return leader_transactional_id(self._access.worker)
        return self._plan.transactional_id if which is InternalTopic.OFFSET else None

    def _claim(self, topic: str, transactional_id: str) -> None:
        from kconnect.runtime.kafka.atomic_writers import KafkaExclusiveWriter

        config = internal_clients(self._access.worker, client_id=f"{transactional_id}-direct").producer
        writer = KafkaExclusiveWriter(topic, config, transactional_id, timeout_setting=_TIMEOUT_SETTING)
        self._stack.callback(writer.stop)
        writer.claim(self._access.timeout_s)
        self._exclusive[topic] = writer
        self._begin[topic] = self._ends(topic)

    def _plain_writer(self, which: InternalTopic, topic: str) -> BatchWriter:
        if topic not in self._plain:
            from kconnect.runtime.kafka.atomic_writers import BatchWriter

            producer = self._access.clients(which).producer
            writer = BatchWriter(topic, producer, self._access.timeout_s, timeout_setting=_TIMEOUT_SETTING)
            self._plain[topic] = self._stack.enter_context(writer)
        return self._plain[topic]

    def _ends(self, topic: str) -> dict[int, int]:
        partitions = self._reader.admin.describe_topics([topic], self._access.timeout_s)
        count = partitions[topic].partitions if topic in partitions else 0
        asked = [TopicPartition(topic, number) for number in range(count)]
        found = self._reader.admin.log_offsets(asked, "end", self._access.timeout_s)
        return {at.partition: offset for at, offset in found.items()}

    def _await(self, which: InternalTopic, topic: str, edits: Sequence[Edit]) -> list[LogPosition]:
        """Read what was written until all of it is there: what a transaction holds can be read a moment later."""
        from kconnect.runtime.kafka.partition_reader import READ_COMMITTED, READ_UNCOMMITTED
        from kconnect.runtime.kafka.scan import ScanSpec, scan

        begin = self._begin[topic]
        spec = ScanSpec(
            topic=topic,
            consumer=self._access.clients(which).consumer,
            isolation_level=READ_COMMITTED if topic in self._exclusive else READ_UNCOMMITTED,
            begin=dict(begin),
            timeout_s=self._access.timeout_s,
            timeout_setting=_TIMEOUT_SETTING,
        )
        deadline = time.monotonic() + self._access.timeout_s
        while True:
            records = [
                record
                for record in scan(spec, self._reader.admin)
                if record.partition in begin and record.offset >= begin[record.partition]
            ]
            found = _places(edits, records)
            missing = [edit for edit, position in zip(edits, found, strict=True) if position is None]
            if not missing:
                places = [position for position in found if position is not None]
                self.meanwhile += _reported_of_others(edits, places, records)
                return places
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{missing[0].key_text} was written to topic {topic}, but could not be read back within "
                    f"{self._access.timeout_s:g} s ({_TIMEOUT_SETTING})"
                )
            time.sleep(_PAUSE_S)


def _reported_of_others(
    edits: Sequence[Edit], places: Sequence[LogPosition], records: Sequence[LogRecord]
) -> Iterator[str]:
    """A sentence for each record of an edited key that was neither written here nor is a producer's retry."""
    ours = {(edit.key, edit.new) for edit in edits}
    last = {edit.key: place for edit, place in zip(edits, places, strict=True)}
    for record in records:
        mine = last.get(record.key or b"")
        if mine is None or (record.key, record.value) in ours:
            continue
        is_later = record.partition == mine.partition and record.offset > mine.offset
        yield (
            f"{_key_text(record)} was written by someone else in the meantime, at offset {record.offset} of partition "
            f"{record.partition}; {'that record' if is_later else 'what was written here'} is in force"
        )


def _key_text(record: LogRecord) -> str:
    return (record.key or b"").decode(errors="backslashreplace")


def _places(edits: Sequence[Edit], records: Sequence[LogRecord]) -> list[LogPosition | None]:
    """For each edit the first matching record that no earlier edit has claimed."""
    there: dict[tuple[bytes | None, bytes | None], deque[LogRecord]] = {}
    for record in records:
        there.setdefault((record.key, record.value), deque()).append(record)
    found: list[LogPosition | None] = []
    for edit in edits:
        alike = there.get((edit.key, edit.new))
        record_ = alike.popleft() if alike else None
        found.append(None if record_ is None else LogPosition(record_.topic, record_.partition, record_.offset))
    return found
