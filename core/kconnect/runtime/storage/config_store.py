"""The store of connectors, their tasks and target states: one compacted topic, written by the cluster's leader.

`TopicConfigStore` works on any RecordLog: on a real topic, or in memory on a MemoryRecordLog.
Source: ConfigBackingStore, KafkaConfigBackingStore (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from kconnect.clock import Clock, SystemClock
from kconnect.errors import (
    ConfigError,
    ConfigProblem,
    ConflictError,
    ConnectError,
    FencedError,
    NotAllowedError,
    TimedOutError,
)
from kconnect.java.compat.hash_map import hash_map_order
from kconnect.model import LogPosition, LogRecord, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.config_topic import (
    ForeignRecord,
    Malformed,
    RestartRequested,
    StringMap,
    Tombstone,
    Unknown,
)
from kconnect.runtime.storage.record_log import Entry, ExclusiveWriter, RecordLog
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import Change, ClusterSnapshot, ConfigFold, Transform

log = logging.getLogger(__name__)

READ_WRITE_TIMEOUT_S = 30.0
"""The time for one write and reading it back, as in Java (READ_WRITE_TOTAL_TIMEOUT_MS)."""

CONFIG_TOPIC_CONFIG = "config.storage.topic"
# Records in flight besides those of the current write; the oldest are dropped first
_MOST_ON_THE_WAY = 2_000

Listener = Callable[[Change], None]
"""Called with each change once the store has started. It runs on the reading thread, so it must not block, raise or
call the store's writes. It never gets Malformed, Unknown or Tombstone.
"""


class ConfigStore(Protocol):
    """The herder's view of the config topic. Each write returns once it was read back, except target states and logger
    levels: those return once Kafka has them, and any worker may write them.

    Errors of writes: ConnectError (TimedOutError, ..); for privileged writes also ConflictError if the privilege
    was not claimed, and FencedError if it was lost: claim it again if this worker still leads.
    Threads: snapshot, contains, refresh and the two unprivileged writes from any; other writes from one at a time.
    """

    def set_listener(self, listener: Listener) -> None:
        """Set the listener for changes; call it before start()."""
        ...

    def start(self) -> None:
        """Read the whole topic, then tail it. Errors: ConfigError if the topic has more than one partition."""
        ...

    def stop(self) -> None:
        """Stop reading; the listener is not called again and write privileges are lost. Idempotent."""
        ...

    def claim_write_privileges(self) -> None:
        """Become the only writer; does nothing if this store already is, or no claim is needed."""
        ...

    def snapshot(self) -> ClusterSnapshot:
        """The state read so far."""
        ...

    def contains(self, connector: str) -> bool: ...

    @property
    def foreign(self) -> ForeignRecord | None:
        """The last record written by another leader since the start. Threads: any."""
        ...

    def refresh(self, timeout_s: float) -> None:
        """Read up to the current end. Errors: TimedOutError."""
        ...

    def put_connector_config(self, connector: str, config: StringMap, target_state: TargetState | None = None) -> None:
        """Create or change a connector; a target state of None keeps the previous one (STARTED if new)."""
        ...

    def remove_connector_config(self, connector: str) -> None:
        """Delete a connector with its tasks and target state."""
        ...

    def put_task_configs(self, connector: str, configs: Sequence[StringMap]) -> None:
        """Replace the whole set of tasks; readers see the old set or the new one."""
        ...

    def remove_task_configs(self, connector: str) -> None:
        """Leave the connector without tasks."""
        ...

    def put_target_state(self, connector: str, state: TargetState) -> None: ...

    def put_task_count_record(self, connector: str, task_count: int) -> None:
        """Record how many task producers must be fenced before the next set runs (KIP-618)."""
        ...

    def put_session_key(self, session_key: SessionKey) -> None: ...

    def put_restart_request(self, request: RestartRequested) -> None: ...

    def put_logger_level(self, logger: str, level: str) -> None: ...


class TopicConfigStore:
    """A ConfigStore on a RecordLog. With an ExclusiveWriter (exactly once enabled or preparing) each privileged write
    is one transaction; otherwise all writes go through the log. States: made -> start() -> stop().
    """

    def __init__(
        self,
        records: RecordLog,
        exclusive_writer: ExclusiveWriter | None = None,
        *,
        transform: Transform | None = None,
        clock: Clock | None = None,
        read_write_timeout_s: float = READ_WRITE_TIMEOUT_S,
    ) -> None:
        self._log = records
        self._writer = exclusive_writer
        self._has_claim = False
        self._clock: Clock = clock or SystemClock()
        self._timeout_s = read_write_timeout_s
        self._listener: Listener | None = None
        self._is_started = False
        self._lock = threading.Lock()
        self._fold = ConfigFold(transform)  # guarded by _lock, like the following
        self._on_the_way: dict[Entry, int] = {}  # written here and not read back yet, with counts
        self._foreign: ForeignRecord | None = None

    def set_listener(self, listener: Listener) -> None:
        self._listener = listener

    def start(self) -> None:
        self._log.start(self._on_record)
        partitions = self._log.partition_count
        if partitions > 1:
            self._log.stop()
            message = (
                f"Topic '{self._log.topic}' supplied via the '{CONFIG_TOPIC_CONFIG}' property is required to have a "
                "single partition in order to guarantee consistency of connector configurations, but found "
                f"{partitions} partitions."
            )
            raise ConfigError(
                message,
                [ConfigProblem(CONFIG_TOPIC_CONFIG, self._log.topic, message)],
                hint=f"Set {CONFIG_TOPIC_CONFIG} to a topic of one partition, or to one that does not exist yet.",
            )
        self._is_started = True

    def stop(self) -> None:
        self._release_writer()
        self._log.stop()

    def _on_record(self, record: LogRecord) -> None:
        with self._lock:
            changes = self._fold.apply(record)
            if self._is_started and not self._is_own(record):
                self._note_foreign(record)
        for change in changes:
            match change:
                case Malformed():
                    log.error(
                        "Ignored the record %s at offset %d of %s: %s",
                        change.key,
                        change.offset,
                        self._log.topic,
                        change.why,
                    )
                case Unknown():
                    log.error(
                        "Ignored the unknown record %s at offset %d of %s", change.key, change.offset, record.topic
                    )
                case Tombstone():
                    log.debug("Nothing to do for the tombstone of %s at offset %d", change.key, change.offset)
                case _ if self._is_started and self._listener is not None:
                    self._listener(change)

    @property
    def foreign(self) -> ForeignRecord | None:
        with self._lock:
            return self._foreign

    def _is_own(self, record: LogRecord) -> bool:
        """Whether this store wrote it; each write matches one record. Call with the lock held."""
        entry = (record.key or b"", record.value)
        count = self._on_the_way.pop(entry, 0)
        if count > 1:
            self._on_the_way[entry] = count - 1
        return count > 0

    def _note_foreign(self, record: LogRecord) -> None:
        key = (record.key or b"").decode("utf-8", "replace")
        if config_topic.is_leaders(key):
            self._foreign = ForeignRecord(key, record.offset)

    def _expect(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            for entry in entries:
                self._on_the_way[entry] = self._on_the_way.get(entry, 0) + 1
            while len(self._on_the_way) > max(_MOST_ON_THE_WAY, len(entries)):
                del self._on_the_way[next(iter(self._on_the_way))]

    def claim_write_privileges(self) -> None:
        if self._writer is None or self._has_claim:
            return
        try:
            self._writer.claim(self._timeout_s)
        except ConnectError:
            self._writer.stop()
            raise
        self._has_claim = True

    def _release_writer(self) -> None:
        if self._writer is not None and self._has_claim:
            self._has_claim = False
            self._writer.stop()

    def snapshot(self) -> ClusterSnapshot:
        with self._lock:
            return self._fold.snapshot()

    def contains(self, connector: str) -> bool:
        with self._lock:
            return self._fold.contains(connector)

    def refresh(self, timeout_s: float) -> None:
        self._log.read_to_end(timeout_s)

    def put_connector_config(self, connector: str, config: StringMap, target_state: TargetState | None = None) -> None:
        entries: list[Entry] = [config_topic.encode_connector(connector, config)]
        if target_state is not None:  # first, so that no worker starts the connector before it is paused
            entries.insert(0, config_topic.encode_target_state(connector, target_state))
        self._write("connector configuration", [entries])

    def remove_connector_config(self, connector: str) -> None:
        gone = [config_topic.tombstone_of_connector(connector), config_topic.tombstone_of_target_state(connector)]
        self._write("the removal of a connector configuration", [gone])

    def put_task_configs(self, connector: str, configs: Sequence[StringMap]) -> None:
        tasks = [
            config_topic.encode_task(TaskId(connector, number), hash_map_order(config))
            for number, config in enumerate(configs)
        ]
        commit = [config_topic.encode_commit(connector, len(configs))]
        self._write("task configurations", [tasks, commit], is_read_first=True)

    def remove_task_configs(self, connector: str) -> None:
        """Differs: Java refuses; this writes what stopping the connector writes, a commit of no tasks."""
        self.put_task_configs(connector, [])

    def put_task_count_record(self, connector: str, task_count: int) -> None:
        self._write("task count record", [[config_topic.encode_task_count(connector, task_count)]])

    def put_session_key(self, session_key: SessionKey) -> None:
        self._write("session key", [[config_topic.encode_session_key(session_key)]])

    def put_restart_request(self, request: RestartRequested) -> None:
        self._write("restart request", [[config_topic.encode_restart(request)]])

    def put_target_state(self, connector: str, state: TargetState) -> None:
        self._write_unprivileged("target state", config_topic.encode_target_state(connector, state))

    def put_logger_level(self, logger: str, level: str) -> None:
        self._write_unprivileged("logger level", config_topic.encode_logger_level(logger, level))

    def _write(self, what: str, groups: Sequence[Sequence[Entry]], *, is_read_first: bool = False) -> None:
        """Write each group atomically and read it back before the next one, all within one deadline.

        Differs: Java asks the broker for the end of the topic after each group; here the last position is known.
        """
        if self._writer is not None and not self._has_claim:
            raise ConflictError(
                f"Cannot write {what} to topic {self._log.topic} without claiming write privileges first",
                hint="Only the leader of the cluster may write there; try again when a leader is elected.",
            )
        deadline = _Deadline(self._clock, self._timeout_s)
        try:
            if is_read_first:
                self._log.read_to_end(deadline.left_s())
            for group in groups:
                if group:
                    before = self.snapshot().offset
                    last = self._send_privileged(group, deadline)
                    # A transaction's marker follows its records. A position that was already read belongs to another
                    # record: the topic was truncated, so only its end tells when it was read again
                    if last is None or last.offset < before:
                        self._log.read_to_end(deadline.left_s())
                    else:
                        self._log.read_past(last, deadline.left_s())
        except FencedError:
            raise
        except (ConnectError, TimeoutError) as error:
            raise self._failed(what, error) from error

    def _send_privileged(self, entries: Sequence[Entry], deadline: _Deadline) -> LogPosition | None:
        """Return the position of the last record, None for a transaction."""
        self._expect(entries)
        if self._writer is None:
            sent = [self._log.send(key, value) for key, value in entries]
            return [one.result(deadline.left_s()) for one in sent][-1]
        try:
            self._writer.write(entries, deadline.left_s())
        except ConnectError as error:  # the current owner is unknown: only a new claim tells
            self._release_writer()
            raise FencedError(f"Failed to perform fencable send to topic {self._log.topic}: {error}") from error
        return None

    def _write_unprivileged(self, what: str, entry: Entry) -> None:
        try:
            self._log.send(*entry).result(self._timeout_s)
        except (ConnectError, TimeoutError) as error:
            raise self._failed(what, error) from error

    def _failed(self, what: str, error: Exception) -> ConnectError:
        where = f"Error writing {what} to topic {self._log.topic}"
        if isinstance(error, TimeoutError | TimedOutError):
            return TimedOutError(f"{where}: not written and read back within {self._timeout_s:g} s")
        if isinstance(error, NotAllowedError):
            return NotAllowedError(f"{where}: {error}", hint=error.hint)
        return ConnectError(f"{where}: {error}")


class _Deadline:
    """The time left of a deadline that several waits share."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + timeout_s

    def left_s(self) -> float:
        return max(0.0, self._end - self._clock.monotonic())
