"""ChangeLog: who changed configs and offsets of connectors, kept in a compacted topic beside the config topic.

The config topic says what changed and not who did it, and compaction takes earlier versions; a consumer group's earlier
offsets are nowhere. Here the last hundred changes of each connector stay, each a record of its own. Secrets of configs
are masked by whoever adds them. Differs: Java has none, and its workers do not look at the topic.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from typing import Any, Final, Self

from kconnect.runtime.storage.compacted_topic import CompactedTopic

SETTING: Final = "kconnect.history.topic"
_MOST_KEPT: Final = 100
# A record that is larger is refused by brokers unless they are configured otherwise; with room for its key and batch
_MOST_BYTES: Final = 900_000


class ChangeLog:
    """A context manager. Threads: one at a time, which a lock sees to.

    Errors of all methods: UnreachableError, TimedOutError; ConnectError for what the brokers refuse.
    """

    def __init__(self, worker: Mapping[str, str], topic: str, timeout_s: float, timeout_setting: str) -> None:
        """Takes what CompactedTopic takes."""
        self.topic = topic
        self._lock = threading.Lock()  # guards the fields below
        self._kept = CompactedTopic(worker, topic, "history", timeout_s, timeout_setting)
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
                self._kept.make(f"who changed configs and offsets ({SETTING})")
                self._keys = {}
                for name, known, _ in self._read():
                    self._keys.setdefault(name, []).append(known)
            self._kept.write(key, _fit(entry))
            keys = self._keys.setdefault(connector, [])
            keys.append(key)
            while len(keys) > _MOST_KEPT:
                self._kept.write(keys[0], None)
                keys.pop(0)

    def close(self) -> None:
        """The log may be used again."""
        with self._lock:
            self._kept.close()

    def _read(self) -> list[tuple[str, bytes, dict[str, Any]]]:
        """Connector, key and value of each change; what somebody else wrote there is left out."""
        found = (_entry(key, value) for key, value in self._kept.read().items())
        return [entry for entry in found if entry is not None]


def _entry(key: bytes, value: bytes) -> tuple[str, bytes, dict[str, Any]] | None:
    """Returns None for a record that is no change of a connector."""
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
