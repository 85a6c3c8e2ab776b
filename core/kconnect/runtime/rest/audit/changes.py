"""Changes of configs and offsets over REST, for the log that the cluster shares: who, when, from where, before, after.

The worker that carries a change out writes it down; one that forwarded the request says whose it is, and writes it
down itself where that worker does not, as one of Java's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kconnect.client.offset_history import MovedOffset, moved_offsets
from kconnect.model import ConnectorOffset, offsets_from_json
from kconnect.runtime.config.own_worker_keys import history_topic
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.rest.access.callers import ANONYMOUS, Caller
from kconnect.runtime.rest.audit.trail import AuditTrail
from kconnect.runtime.storage.change_log import SETTING, ChangeLog

OFFSETS: Final = "offsets"
CONFIG: Final = "config"
KEPT: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("POST", "/connectors"): (CONFIG, "create"),
    ("PUT", "/connectors/{name}/config"): (CONFIG, "put"),
    ("PATCH", "/connectors/{name}/config"): (CONFIG, "patch"),
    ("POST", "/admin/connectors/{name}/config/rollback"): (CONFIG, "rollback"),
    ("DELETE", "/connectors/{name}"): (CONFIG, "delete"),
    ("PATCH", "/connectors/{name}/offsets"): (OFFSETS, "alter"),
    ("DELETE", "/connectors/{name}/offsets"): (OFFSETS, "reset"),
}
"""By method and route: what is changed, and how that is called unless the request's `action` says so."""


def shared_changes(config: WorkerConfig) -> AuditTrail | None:
    """Not started; None for a worker without such a log. Errors: ConfigError."""
    topic = history_topic(config.originals)
    if topic is None:
        return None
    timeout_s = config.kconnect.kafka_answer_timeout_ms / 1000
    log = ChangeLog(config.originals, topic, timeout_s, "kconnect.kafka.answer.timeout.ms")
    return AuditTrail([ChangeSink(log)], closes_idle=True)


class ChangeSink:
    """Implements Sink: lines of `change_line`."""

    def __init__(self, changes: ChangeLog) -> None:
        self._changes = changes

    @property
    def where(self) -> str:
        return f"The history in topic {self._changes.topic} ({SETTING})"

    def write(self, line: bytes) -> None:
        entry = json.loads(line)
        if entry["offsets"] or entry["before"] != entry["after"]:
            self._changes.add(entry["connector"], entry)

    def close(self) -> None:
        self._changes.close()


def change_line(
    kind: str, action: str, connector: str, caller: Caller, worker: str, time_ms: int, before: Any, after: Any
) -> bytes:
    """`before`, `after`: a config with its secrets masked, or the list of offsets; None for none."""
    moved: tuple[MovedOffset, ...] = ()
    if kind == OFFSETS:
        old, new = (offsets_from_json({"offsets": given or []}) for given in (before, after))
        moved = moved_offsets(old, new or [ConnectorOffset(one.partition, None) for one in old])
        before = after = None
    entry = {
        "time_ms": time_ms,
        "kind": kind,
        "action": action,
        "connector": connector,
        "user": caller.name if caller.name is not None else ANONYMOUS,
        "from": caller.address,
        "place": worker,
        "offsets": [one.to_json() for one in moved],
        "before": before,
        "after": after,
    }
    return json.dumps(entry, default=str).encode() + b"\n"
