"""ChangeLog: who changed configs and offsets of connectors, kept in a compacted topic beside the config topic.

The config topic says what changed and not who did it, and compaction takes earlier versions; a consumer group's earlier
offsets are nowhere. Here the last hundred changes of each connector stay, each a record of its own. Secrets of configs
are masked by whoever adds them. Differs: Java has none, and its workers do not look at the topic.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, Self

from kconnect.errors import AlreadyExistsError, NotFoundError, TimedOutError
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.kafka import KafkaAdmin, TopicInfo
from kconnect.runtime.kafka.log_sender import LogSender
from kconnect.runtime.kafka.partition_reader import READ_COMMITTED
from kconnect.runtime.kafka.scan import ScanSpec, scan

log = logging.getLogger(__name__)

SETTING: Final = "kconnect.history.topic"
_MOST_KEPT: Final = 100
# As the brokers have it, where the config topic is not there to be like
_REPLICAS: Final = -1
# A record that is larger is refused by brokers unless they are configured otherwise; with room for its key and batch
_MOST_BYTES: Final = 900_000
_STOP_S: Final = 2.0


class ChangeLog:
    """A context manager. Threads: one at a time, which a lock sees to.

    Errors of all methods: UnreachableError, TimedOutError; ConnectError for what the brokers refuse.
    """

    def __init__(self, worker: Mapping[str, str], topic: str, timeout_s: float, timeout_setting: str) -> None:
        """`worker`: its settings, references resolved. `timeout_setting`: what gives `timeout_s`. Opens nothing."""
        self.topic = topic
        self._clients = internal_clients(worker, client_id=f"{worker.get('group.id') or 'connect'}-history")
        self._config_topic = worker.get("config.storage.topic", "").strip()
        self._timeout_s = timeout_s
        self._timeout_setting = timeout_setting
        self._lock = threading.Lock()  # guards the fields below
        self._sender: LogSender | None = None
        self._keys: dict[str, list[bytes]] | None = None  # of each connector, the oldest first; None: not read yet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(self, connector: str) -> list[dict[str, Any]]:
        """The connector's changes, the oldest first; none where the topic does not exist."""
        with self._lock:
            found = [value for name, _, value in self._read() if name == connector]
        return sorted(found, key=lambda entry: int(entry["time_ms"]))[-_MOST_KEPT:]

    def add(self, connector: str, entry: Mapping[str, Any]) -> None:
        """Write a change, which has `time_ms`; makes the topic at need, and forgets the oldest beyond a hundred."""
        key = json.dumps([connector, f"{entry['time_ms']}-{secrets.token_hex(4)}"]).encode()
        with self._lock:
            if self._keys is None:
                self._make_topic()
                self._keys = {}
                for name, known, _ in self._read():
                    self._keys.setdefault(name, []).append(known)
            self._send(key, _fit(entry))
            keys = self._keys.setdefault(connector, [])
            keys.append(key)
            while len(keys) > _MOST_KEPT:
                self._send(keys[0], None)
                keys.pop(0)

    def close(self) -> None:
        """The log may be used again."""
        with self._lock:
            self._close_sender()

    def _read(self) -> list[tuple[str, bytes, dict[str, Any]]]:
        """Connector, key and value of each record in force; what somebody else wrote there is left out."""
        spec = ScanSpec(
            topic=self.topic,
            consumer=self._clients.consumer,
            isolation_level=READ_COMMITTED,
            timeout_s=self._timeout_s,
            timeout_setting=self._timeout_setting,
            is_awaited=False,
        )
        found: dict[bytes, tuple[str, bytes, dict[str, Any]]] = {}
        try:
            with self._admin() as admin:
                if self.topic not in admin.describe_topics([self.topic], self._timeout_s):
                    return []  # a consumer would ask for it, and brokers may make what is asked for
                for record in scan(spec, admin):
                    key = record.key or b""
                    found.pop(key, None)
                    if (entry := _entry(key, record.value)) is not None:
                        found[key] = entry
        except NotFoundError:
            return []
        return list(found.values())

    def _admin(self) -> KafkaAdmin:
        return KafkaAdmin(self._clients.admin, f"the history in {self.topic}", timeout_setting=self._timeout_setting)

    def _make_topic(self) -> None:
        with self._admin() as admin:
            found = admin.describe_topics([self.topic, *filter(None, [self._config_topic])], self._timeout_s)
            if self.topic in found:
                return
            like = found.get(self._config_topic)
            replicas = _REPLICAS if like is None else like.replication_factor
            try:
                admin.create_topic(TopicInfo(self.topic, 1, replicas, {"cleanup.policy": "compact"}), self._timeout_s)
                log.info("Made topic %s, which keeps who changed configs and offsets (%s)", self.topic, SETTING)
            except AlreadyExistsError:
                log.debug("Another worker made %s", self.topic)

    def _send(self, key: bytes, value: bytes | None) -> None:
        if self._sender is None:
            self._sender = LogSender(self.topic, self._clients.producer, is_idempotent=False)
            self._sender.start()
        try:
            self._sender.send(key, value).result(self._timeout_s)
        except FutureTimeoutError:
            self._close_sender()
            raise TimedOutError(
                f"No broker acknowledged a record of {self.topic} within {self._timeout_s:g} s "
                f"({self._timeout_setting})"
            ) from None

    def _close_sender(self) -> None:
        if self._sender is not None:
            sender, self._sender = self._sender, None
            sender.stop(_STOP_S)


def _entry(key: bytes, value: bytes | None) -> tuple[str, bytes, dict[str, Any]] | None:
    """Returns None for a tombstone, and for what is no change of a connector."""
    if value is None:
        return None
    try:
        name, _ = json.loads(key)
        body = json.loads(value)
        return str(name), key, {**body, "time_ms": int(body["time_ms"])}
    except (ValueError, TypeError, KeyError):
        return None


def _fit(entry: Mapping[str, Any]) -> bytes:
    """The change as a record's value; of one that no broker would take, that it was."""
    found = json.dumps(entry, default=str).encode()
    if len(found) <= _MOST_BYTES:
        return found
    kept = {key: value for key, value in entry.items() if key not in ("before", "after", "offsets")}
    return json.dumps({**kept, "left_out": f"{len(found):,} bytes of JSON"}, default=str).encode()
