"""Read, alter and reset the offsets of a connector (KIP-875): a source's in the store, a sink's in its consumer group.

Source: Worker#connectorOffsets, Worker#modifyConnectorOffsets, SinkUtils (Kafka 4.3).
Differs: offsets that cannot be (nested, negative, of no topic, refused by the connector as wrong) are BadRequestError,
so 400 in REST; Java answers 500, which it has for the connector's own failures. The message about a sink's offsets at
which nothing can be read has a warning at its end.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api.topic_names import topic_name_problem
from kconnect.errors import (
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    DataError,
    NotFoundError,
    string_value,
    with_hint,
)
from kconnect.model import ConnectorOffset, ConnectorType, TopicPartition
from kconnect.runtime.herder.connectors.runner import call_once
from kconnect.runtime.herder.offsets.log_ranges import LogRanges, not_in_log
from kconnect.runtime.storage import OffsetStore, commit_source_offsets, list_source_offsets
from kconnect.runtime.storage.offset_topic import canonical_key, check_format, encode_key

if TYPE_CHECKING:
    from kconnect.api import Connector

log = logging.getLogger(__name__)

STARTS_OVER = "The tasks start there where auto.offset.reset says: by default at the beginning of the partition."
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
# What brokers accept. Source: o.a.k.common.internals.Topic
_JAVA_INTEGER = re.compile(r"[+-]?[0-9]+")


class GroupOffsets(Protocol):
    """Committed offsets of consumer groups. Every call has a deadline.

    Errors: ConflictError while the group has members; ConnectError otherwise.
    """

    def list_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Empty when the group does not exist."""
        ...

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None: ...

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> None: ...

    def delete_group(self, group: str) -> None:
        """Delete the group; one that does not exist is fine."""
        ...

    def log_ranges(self, partitions: Collection[TopicPartition]) -> LogRanges:
        """What the cluster knows of these partitions' topics, and the partitions' first and end offsets."""
        ...


GroupOffsetsFactory = Callable[[Mapping[str, str]], AbstractContextManager[GroupOffsets]]
"""From a connector's config (its `admin.override.` keys) to the client; closed when the block ends."""


def consumer_group_of(name: str, config: Mapping[str, str]) -> str:
    """The consumer group of a sink's tasks."""
    return config.get("consumer.override.group.id") or f"connect-{name}"


def _nothing() -> None:
    """For callers that keep the connector stopped meanwhile."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The connector whose offsets are requested; `make` creates an instance of its plugin for its hook.

    `before_write` is called between that hook, which may take long, and the write. Errors: those that forbid the write.
    """

    name: str
    kind: ConnectorType
    config: Mapping[str, str]
    make: Callable[[], Connector]
    before_write: Callable[[], None] = _nothing


class OffsetsAdmin:
    """The three offsets commands. Threads: any; the caller sees to it that the connector is STOPPED for changes.

    A caller that cannot keep it so looks again in `before_write`, which comes right before offsets are written and may
    raise.
    """

    def __init__(
        self,
        store: OffsetStore,
        groups: GroupOffsetsFactory,
        call_timeout_s: float,
        java_stack: Callable[[str, int | None], list[str] | None] = lambda *_: None,
    ) -> None:
        """`java_stack`: as PluginRegistry.java_stack."""
        self._java_stack = java_stack
        self._store = store
        self._groups = groups
        self._call_timeout_s = call_timeout_s

    def read(self, name: str, kind: ConnectorType, config: Mapping[str, str]) -> list[ConnectorOffset]:
        """All offsets: a source's in the order stored, a sink's by topic and partition.

        Differs: Java waits, for up to 90 s, until an exactly-once task has ended its transaction; here what is
        committed is shown.
        """
        if kind is not ConnectorType.SINK:
            return list_source_offsets(self._store, name, awaits_open_transactions=False)
        try:
            with self._groups(config) as groups:
                found = groups.list_offsets(consumer_group_of(name, config))
        except ConnectError as err:
            raise _group_error(f"Failed to retrieve consumer group offsets for sink connector {name}", err) from err
        return [
            ConnectorOffset({PARTITION: at.partition, TOPIC: at.topic}, {OFFSET: offset})
            for at, offset in sorted(found.items())
        ]

    def alter(
        self,
        name: str,
        kind: ConnectorType,
        config: Mapping[str, str],
        offsets: Sequence[ConnectorOffset],
        make: Callable[[], Connector],
        before_write: Callable[[], None] = _nothing,
    ) -> str:
        """Set or (offset None) remove the given offsets, others are kept. Returns the message that REST shows."""
        subject = _Subject(name, kind, config, make, before_write)
        if kind is ConnectorType.SINK:
            return self._alter_sink(subject, parse_sink_offsets(offsets))
        return self._write_source(subject, offsets, reset=False)

    def begin_with(
        self,
        name: str,
        kind: ConnectorType,
        config: Mapping[str, str],
        offsets: Sequence[ConnectorOffset],
        make: Callable[[], Connector],
    ) -> str:
        """Set the offsets of a connector that is about to be created, and remove all others of its name (KIP-995).

        Those are of a former connector. Gives the message REST shows.
        """
        subject = _Subject(name, kind, config, make)
        if kind is ConnectorType.SINK:
            wanted = parse_sink_offsets(offsets)
            former = [(item.partition[TOPIC], item.partition[PARTITION]) for item in self.read(name, kind, config)]
            return self._alter_sink(subject, {**{TopicPartition(*at): None for at in former}, **wanted})
        _require_storable(offsets)
        known = {canonical_key(encode_key(name, item.partition)) for item in offsets}
        others = [
            ConnectorOffset(item.partition, None)
            for item in list_source_offsets(self._store, name)
            if canonical_key(encode_key(name, item.partition)) not in known
        ]
        return self._write_source(subject, [*others, *offsets], reset=False)

    def reset(
        self,
        name: str,
        kind: ConnectorType,
        config: Mapping[str, str],
        make: Callable[[], Connector],
        before_write: Callable[[], None] = _nothing,
    ) -> str:
        """Remove all offsets. Returns the message that REST shows."""
        subject = _Subject(name, kind, config, make, before_write)
        if kind is ConnectorType.SINK:
            return self._reset_sink(subject)
        known = [ConnectorOffset(item.partition, None) for item in list_source_offsets(self._store, name)]
        return self._write_source(subject, known, reset=True)

    def _write_source(self, subject: _Subject, offsets: Sequence[ConnectorOffset], *, reset: bool) -> str:
        _require_storable(offsets)
        handled = self._call_hook(
            subject,
            lambda plugin: plugin.alter_offsets(
                dict(subject.config),
                [(dict(item.partition), None if item.offset is None else dict(item.offset)) for item in offsets],
            ),
        )
        subject.before_write()
        if offsets:
            commit_source_offsets(self._store, subject.name, offsets)
        return _message(handled, reset=reset)

    def _alter_sink(self, subject: _Subject, offsets: Mapping[TopicPartition, int | None]) -> str:
        for at, offset in offsets.items():
            _check_possible(subject.name, at, offset)
        handled = self._call_hook(subject, lambda plugin: plugin.alter_offsets(dict(subject.config), dict(offsets)))
        subject.before_write()
        wanted = {at: offset for at, offset in offsets.items() if offset is not None}
        removed = [at for at, offset in offsets.items() if offset is None]
        group = consumer_group_of(subject.name, subject.config)
        try:
            with self._groups(subject.config) as groups:
                if wanted:
                    groups.alter_offsets(group, wanted)
                if removed:
                    groups.delete_offsets(group, removed)
                warning = _warning_of(groups, wanted)
        except ConflictError as err:
            raise ConnectError(_tasks_alive(subject.name, "alter")) from err
        except NotFoundError as err:  # a topic or partition that is not there
            raise BadRequestError(
                f"Failed to alter consumer group offsets for connector {subject.name}: {err}"
            ) from err
        except ConnectError as err:
            raise _group_error(f"Failed to alter consumer group offsets for connector {subject.name}", err) from err
        return _message(handled, reset=False).rstrip(".") + warning if warning else _message(handled, reset=False)

    def _reset_sink(self, subject: _Subject) -> str:
        group = consumer_group_of(subject.name, subject.config)
        with self._groups(subject.config) as groups:
            try:
                known: dict[TopicPartition, int | None] = dict.fromkeys(groups.list_offsets(group))
            except ConnectError as err:
                doing = f"Failed to list offsets prior to resetting offsets for sink connector {subject.name}"
                raise _group_error(doing, err) from err
            handled = self._call_hook(subject, lambda plugin: plugin.alter_offsets(dict(subject.config), known))
            subject.before_write()
            try:
                groups.delete_group(group)
            except ConflictError as err:
                raise ConnectError(_tasks_alive(subject.name, "reset")) from err
            except ConnectError as err:
                doing = f"Failed to reset consumer group offsets for sink connector {subject.name}"
                raise _group_error(doing, err) from err
        return _message(handled, reset=True)

    def _call_hook(self, subject: _Subject, ask: Callable[[Any], bool]) -> bool:  # a SourceConnector or SinkConnector
        """Call alter_offsets of a new instance, on its own thread and with a deadline.

        Errors: BadRequestError when the connector finds them wrong (DataError, ConfigError); ConnectError when it
        fails otherwise.
        """
        name, kind = subject.name, subject.kind
        try:
            return call_once(
                name,
                f"alter_offsets of connector {name}",
                lambda: bool(ask(subject.make())),
                self._call_timeout_s,
                partial(self._java_stack, name, None),
            )
        except (DataError, ConfigError) as err:
            raise BadRequestError(str(err), hint=err.hint) from err
        except ConnectError:
            raise
        except NotImplementedError as err:
            raise ConnectError(
                f"Failed to modify offsets for connector {name} because it doesn't support external modification of "
                "offsets"
            ) from err
        except Exception as err:  # a plugin call
            raise ConnectError(f"Failed to modify offsets for {kind} connector {name}", hint=str(err)) from err


def _require_storable(offsets: Sequence[ConnectorOffset]) -> None:
    try:
        for item in offsets:
            check_format(item.partition)
            check_format(item.offset)
    except DataError as err:
        raise BadRequestError(str(err)) from err


def _check_possible(name: str, at: TopicPartition, offset: int | None) -> None:
    """Refuse offsets that no broker can have, and those that the Kafka client refuses with Python errors."""
    if offset is not None and offset < 0:
        raise BadRequestError(f"Failed to modify offsets for sink connector {name}: offset {offset} is below 0")
    if at.partition < 0 or topic_name_problem(at.topic):
        what = f"partition {at.partition} is below 0" if at.partition < 0 else f"no topic can be named '{at.topic}'"
        raise BadRequestError(f"Failed to alter consumer group offsets for connector {name}: {what}")


def _message(handled: bool, *, reset: bool) -> str:
    done = "reset" if reset else "altered"
    if handled:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {done} in the system that the connector "
        "uses."
    )


def _warning_of(groups: GroupOffsets, wanted: Mapping[TopicPartition, int]) -> str:
    """A sentence behind the answer's own where tasks would find nothing at these offsets. They are written already."""
    try:
        problems = not_in_log(wanted, groups.log_ranges(wanted))
    except ConnectError as err:  # the request is done; only the warning is missing
        log.warning("Could not check whether the altered offsets can be read: %s", err)
        return ""
    return f". WARNING: {'; '.join(problems)}. {STARTS_OVER}" if problems else ""


def _group_error(doing: str, err: ConnectError) -> ConnectError:
    """Java's words, and then why and what to do: REST answers with the message alone."""
    return ConnectError(f"{doing}: {with_hint(err)}")


def _tasks_alive(name: str, verb: str) -> str:
    return (
        f"Failed to {verb} consumer group offsets for connector {name} either because its tasks haven't stopped "
        f"completely yet or the connector was resumed before the request to {verb} its offsets could be successfully "
        "completed. If the connector is in a stopped state, this operation can be safely retried. If it doesn't "
        "eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )


def parse_sink_offsets(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Topic partitions and offsets of a sink; numbers may be text. Errors: BadRequestError in Java's words."""
    parsed: dict[TopicPartition, int | None] = {}
    for item in offsets:
        partition, offset = item.partition, item.offset
        if TOPIC not in partition or PARTITION not in partition:
            raise BadRequestError(
                f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
            )
        if partition[TOPIC] is None:
            raise BadRequestError("Kafka topic names must be valid strings and may not be null")
        if partition[PARTITION] is None:
            raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
        number = _java_integer(partition[PARTITION], 32)
        if number is None:
            raise BadRequestError(
                "Failed to parse the following Kafka partition value in the provided offsets: "
                f"'{string_value(partition[PARTITION])}'. Partition values for sink connectors need to be integers."
            )
        at = TopicPartition(string_value(partition[TOPIC]), number)
        if offset is None:
            parsed[at] = None
            continue
        if OFFSET not in offset:
            raise BadRequestError(
                f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
            )
        parsed[at] = _java_integer(offset[OFFSET], 64)
        if parsed[at] is None:
            raise BadRequestError(
                "Failed to parse the following Kafka offset value in the provided offsets: "
                f"'{string_value(offset[OFFSET])}'. Offset values for sink connectors need to be integers."
            )
    return parsed


def _java_integer(value: object, bits: int) -> int | None:
    """The result of Integer.parseInt or Long.parseLong for a value's text, None if they refuse it."""
    text = string_value(value)
    if not _JAVA_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None
