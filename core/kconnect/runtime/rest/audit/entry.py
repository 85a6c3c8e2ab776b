"""One line of the audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kconnect.logs.redaction import redact
from kconnect.runtime.rest.access.callers import ANONYMOUS, Caller

# Offsets of 10,000 partitions are 2 MB; brokers take 1 MB by default, and nobody reads that much
_MOST_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Who did what to which connector, how it was before and after, and how it ended."""

    time_ms: int
    request_id: str
    caller: Caller
    worker: str
    method: str
    path: str
    connector: str | None = None
    before: Any = None
    after: Any = None
    status: int = 0
    message: str | None = None
    """Why it was refused, or failed."""

    @property
    def outcome(self) -> str:
        """done, denied (who may not), refused (what cannot be), or failed (it may yet have been carried out)."""
        if self.status < 400:
            return "done"
        if self.status in (401, 403, 429):
            return "denied"
        return "refused" if self.status < 500 else "failed"

    def to_line(self) -> bytes:
        """UTF-8 JSON with a line feed at its end; secrets that this process knows are hidden."""
        body = {
            "time": datetime.fromtimestamp(self.time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "request_id": self.request_id,
            "user": self.caller.name if self.caller.name is not None else ANONYMOUS,
            "from": self.caller.address,
            "worker": self.worker,
            "method": self.method,
            "path": self.path,
            "connector": self.connector,
            "outcome": self.outcome,
            "status": self.status,
            "message": self.message,
            "before": _fit(self.before),
            "after": _fit(self.after),
        }
        return redact(json.dumps(body, default=str)).encode() + b"\n"


def _fit(value: Any) -> Any:
    """The value, or how large it is."""
    size = len(json.dumps(value, default=str))
    return value if size <= _MOST_CHARS else {"left_out": f"{size} characters of JSON"}
