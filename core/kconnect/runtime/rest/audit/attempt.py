"""One request that wants to change something, on its way to the audit log."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.rest.access.access import Access
from kconnect.runtime.rest.audit.entry import AuditEntry
from kconnect.runtime.rest.audit.trail import AuditTrail
from kconnect.runtime.rest.audit.views import after_of, before_of
from kconnect.runtime.rest.exchange import Answer, Call, Handler

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Recorder:
    """Makes attempts. `trail` None: nothing is written down."""

    def __init__(self, trail: AuditTrail | None, herder: Herder) -> None:
        self.trail = trail
        self._herder = herder

    @property
    def refuses_changes(self) -> bool:
        return self.trail is not None and self.trail.refuses_changes

    def attempt(self, method: str, route: str, path: str, connector: str | None) -> Attempt:
        return Attempt(self.trail, self._herder, method, route, path, connector)


class Attempt:
    """Lifecycle: constructed -> around, if it comes that far -> end."""

    def __init__(
        self, trail: AuditTrail | None, herder: Herder, method: str, route: str, path: str, connector: str | None
    ) -> None:
        self._trail = trail
        self._herder = herder
        self._method = method
        self._route = route
        self._path = path
        self._connector = connector
        self._before: Any = None
        self._call: Call | None = None

    def around(self, handler: Handler) -> Handler:
        """The same, with a look at what is there before."""
        if self._trail is None:
            return handler

        def run(call: Call) -> Answer:
            self._call, self._before = call, before_of(self._route, call)
            return handler(call)

        return run

    def end(self, access: Access, status: int, body: bytes) -> None:
        """Hand the line to the trail, which renders it on its own thread. Nothing, if another worker does."""
        if self._trail is None or access.is_audited:
            return
        time_ms = time.time_ns() // 1_000_000
        self._trail.record(lambda: self._line(access, time_ms, status, body))

    def _line(self, access: Access, time_ms: int, status: int, body: bytes) -> bytes:
        after = None
        if status < 400 and self._call is not None:
            after = after_of(self._route, self._call, body)
        return AuditEntry(
            time_ms=time_ms,
            request_id=access.request_id,
            caller=access.caller,
            worker=self._herder.worker_id,
            method=self._method,
            path=self._path,
            connector=self._connector or _named(self._call),
            before=self._before,
            after=after,
            status=status,
            message=_message(body) if status >= 400 else None,
        ).to_line()


def _named(call: Call | None) -> str | None:
    """The connector that a body names."""
    try:
        name = json.loads(call.body)["name"] if call is not None and call.body else None
    except (ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None


def _message(body: bytes) -> str | None:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return None
