"""One line of the audit log, and the request that wants to change something, on its way there.

The log says what a change is about: the config, the state, the offsets, or the level before it, and what it asks for.
Secrets are left out: settings whose names say so, and those that the plugins type as PASSWORD.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from kconnect.api.config_parse import ConfigType
from kconnect.client.masks import masked, named_plugins
from kconnect.errors import ConnectError
from kconnect.logs.redaction import redact
from kconnect.model import offsets_to_json
from kconnect.runtime.herder.interface import AnyWorker, Connectors, Herder, Offsets, Plugins
from kconnect.runtime.rest.access.access import Access
from kconnect.runtime.rest.access.callers import ANONYMOUS, Caller
from kconnect.runtime.rest.audit.changes import KEPT, change_line
from kconnect.runtime.rest.audit.trail import AuditTrail
from kconnect.runtime.rest.exchange import CHANGE_HEADER, Answer, Call, Handler, json_bytes

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


# As commands and the console call what they do: "move", "console undo"
_ACTION: Final = re.compile(r"[a-z][a-z -]{0,30}")
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Recorder:
    """Makes attempts. `trail` None: nothing is written down. `changes`: the same for what the cluster shares."""

    def __init__(self, trail: AuditTrail | None, herder: AnyWorker, changes: AuditTrail | None = None) -> None:
        self.trail = trail
        self._changes = changes
        self._herder = herder

    @property
    def refuses_changes(self) -> bool:
        return self.trail is not None and self.trail.refuses_changes

    def attempt(self, method: str, route: str, path: str, connector: str | None) -> Attempt:
        changes = self._changes if (method, route) in KEPT else None
        return Attempt(self.trail, self._herder, method, route, path, connector, changes)


class Attempt:
    """Lifecycle: constructed -> around, if it comes that far -> end."""

    def __init__(
        self,
        trail: AuditTrail | None,
        herder: AnyWorker,
        method: str,
        route: str,
        path: str,
        connector: str | None,
        changes: AuditTrail | None = None,
    ) -> None:
        self._trail = trail
        self._changes = changes
        self._herder = herder
        self._method = method
        self._route = route
        self._path = path
        self._connector = connector
        self._before: Any = None
        self._call: Call[Herder] | None = None
        self._is_done_here = False  # and not by the worker to which it is forwarded

    def around(self, handler: Handler) -> Handler:
        """The same, with a look at what is there before. What it has changed is kept even if nobody waits any more."""
        if self._trail is None and self._changes is None:
            return handler

        def run(call: Call[Herder]) -> Answer:
            self._call, self._before = call, before_of(self._route, call)
            answer = handler(call)
            self._is_done_here = True
            return answer if self._changes is None else self._kept(self._changes, call, answer)

        return run

    def end(self, access: Access, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Hand the line to the trail, which renders it on its own thread. Nothing, if another worker does.

        A worker that was forwarded the request and keeps no changes, as Java's, has this one keep them.
        """
        time_ms = time.time_ns() // 1_000_000
        if self._trail is not None and not access.is_audited:
            self._trail.record(lambda: self._line(access, time_ms, status, body))
        if self._changes is not None and not self._is_done_here and status < 400 and CHANGE_HEADER not in headers:
            self._changes.record(lambda: self._change(access, time_ms, body))

    def _kept(self, changes: AuditTrail, call: Call[Herder], answer: Answer) -> Answer:
        time_ms, body = time.time_ns() // 1_000_000, b"" if answer.empty else json_bytes(answer.body)
        changes.record(lambda: self._change(call.access, time_ms, body))
        if not call.query_values("forward"):
            return answer
        return replace(answer, headers={**answer.headers, CHANGE_HEADER: "kept"})

    def _change(self, access: Access, time_ms: int, body: bytes) -> bytes:
        kind, action = KEPT[self._method, self._route]
        connector, call = self._connector or _named(self._call) or "", self._call
        after = None if call is None else after_of(self._route, call, body)
        asked = "" if call is None else "".join(call.query_values("action")[:1])
        action = asked if _ACTION.fullmatch(asked) else action
        worker = self._herder.worker_id
        return change_line(kind, action, connector, access.caller, worker, time_ms, self._before, after)

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


def _named(call: Call[Herder] | None) -> str | None:
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


@dataclass(frozen=True, slots=True)
class View:
    """`before` is read ahead of the change; `after` is made of the request and the body of a good answer."""

    before: Callable[[Call[Herder]], Any]
    after: Callable[[Call[Herder], Any], Any]


def before_of(path: str, call: Call[Herder]) -> Any:
    """What the request is about to change; None if there is nothing, or it cannot be read."""
    view = VIEWS.get((call.method, path))
    if view is None:
        return None
    try:
        return view.before(call)
    except ConnectError:  # the change itself will say why
        return None


def after_of(path: str, call: Call[Herder], body: bytes) -> Any:
    """What a change that went well has made of it. `body`: the answer's."""
    view = VIEWS.get((call.method, path))
    if view is None:
        return None
    try:
        return view.after(call, json.loads(body) if body else None)
    except (ConnectError, ValueError, KeyError, TypeError, AttributeError):
        return None


def shown_config(herder: Plugins, config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without its secrets; references to secrets stay."""
    passwords = _passwords(herder, config)
    return masked(config, passwords)


def _passwords(herder: Plugins, config: Mapping[str, Any]) -> set[str]:
    """Settings that the plugins which a config names type as PASSWORD, as far as these are installed here."""
    found: set[str] = set()
    for prefix, name in named_plugins(config):
        try:
            keys = herder.plugin_config(name)
        except ConnectError:
            continue
        found |= {prefix + key.name for key in keys if key.type is ConfigType.PASSWORD}
    return found


def _config_before(call: Call[Herder]) -> Any:
    return shown_config(call.herder, call.herder.connector_config(call.path["name"]))


def _config_after(call: Call[Plugins], body: Any) -> Any:
    return shown_config(call.herder, body["config"])


def _state_before(call: Call[Connectors]) -> Any:
    return {"state": str(call.herder.connector_status(call.path["name"]).connector.state)}


def _offsets_before(call: Call[Offsets]) -> Any:
    return offsets_to_json(call.herder.connector_offsets(call.path["name"]))["offsets"]


def _nothing(*_: Any) -> Any:
    return None


def _asked(call: Call[object]) -> Any:
    return json.loads(call.body) if call.body else None


def _becomes(state: str) -> View:
    return View(_state_before, lambda _call, _body: {"state": state})


_RESTART: Final = View(_state_before, lambda call, _: {"restarted": dict(call.query) or True})
VIEWS: Final[Mapping[tuple[str, str], View]] = {
    ("POST", "/connectors"): View(_nothing, _config_after),
    ("PUT", "/connectors/{name}/config"): View(_config_before, _config_after),
    ("PATCH", "/connectors/{name}/config"): View(_config_before, _config_after),
    ("POST", "/admin/connectors/{name}/config/rollback"): View(_config_before, _config_after),
    ("DELETE", "/connectors/{name}"): View(_config_before, _nothing),
    ("PUT", "/connectors/{name}/pause"): _becomes("PAUSED"),
    ("PUT", "/connectors/{name}/resume"): _becomes("RUNNING"),
    ("PUT", "/connectors/{name}/stop"): _becomes("STOPPED"),
    ("POST", "/connectors/{name}/restart"): _RESTART,
    ("POST", "/connectors/{name}/tasks/{task}/restart"): _RESTART,
    ("PUT", "/connectors/{name}/topics/reset"): View(
        lambda call: {"topics": list(call.herder.connector_topics(call.path["name"]))}, lambda *_: {"topics": []}
    ),
    ("PATCH", "/connectors/{name}/offsets"): View(_offsets_before, lambda call, _: _asked(call)["offsets"]),
    ("DELETE", "/connectors/{name}/offsets"): View(_offsets_before, _nothing),
    ("POST", "/admin/connectors/{name}/dead-letters/replays"): View(
        _nothing, lambda call, _: {name: _asked(call)[name] for name in ("targets", "edited") if name in _asked(call)}
    ),
    ("POST", "/admin/connectors/{name}/dead-letters/replay"): View(
        _nothing,
        lambda call, body: {"targets": body["targets"], "edited": not {"patch", "letters"}.isdisjoint(_asked(call))},
    ),
    ("PUT", "/admin/loggers/{logger}"): View(
        lambda call: call.herder.logger(call.path["logger"]).to_json(),
        lambda call, _: {"level": _asked(call)["level"], "scope": (call.query_values("scope") or ["worker"])[0]},
    ),
}
"""By method and route; a test holds it against the table of routes."""
