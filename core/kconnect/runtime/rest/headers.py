"""Headers that the operator adds to answers: `response.http.headers.config`.

Rules such as `add Cache-Control: no-store, set X-Frame-Options: DENY, setDate Expires: 31540000000`, in quotes if a
value has a comma. The number of a date is milliseconds from now.
Source: RestServer.configureHttpResponseHeaderFilter, Jetty's HeaderFilter (Kafka 4.3).
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kconnect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One rule; `replaces` an earlier value (set, setDate), `is_date` counts from now."""

    name: str
    value: str
    replaces: bool
    is_date: bool = False

    def text(self, now_s: float) -> str:
        return formatdate(now_s + int(self.value) / 1000, usegmt=True) if self.is_date else self.value


def parse_rules(text: str) -> tuple[HeaderRule, ...]:
    """Rules of the setting, whose form was already validated. Errors: ConfigError for a date."""
    if not text.strip():
        return ()
    return tuple(_rule(rule) for rule in next(csv.reader([text], skipinitialspace=True)))


def _rule(text: str) -> HeaderRule:
    action, header = text.strip().split(None, 1)
    name, _, value = header.strip().rstrip(":").partition(":")
    is_date = action.lower().endswith("date")
    if is_date and not re.fullmatch(r"-?\d{1,15}", value.strip()):
        raise ConfigError.invalid("response.http.headers.config", text.strip(), "a date takes milliseconds from now")
    if not value.isprintable() or not (name + value).isascii():
        raise ConfigError.invalid("response.http.headers.config", text.strip(), "headers are printable ASCII")
    return HeaderRule(name.strip(), value.strip(), action.lower().startswith("set"), is_date)


class ResponseHeaders:
    """Adds headers to every answer. The application's own headers win over `set`, as they are written later."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._app = app
        self._rules = tuple(rules)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                message = {**message, "headers": _joined(self._rules, own, time.time())}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _joined(rules: Sequence[HeaderRule], own: Sequence[tuple[bytes, bytes]], now_s: float) -> list[tuple[bytes, bytes]]:
    headers = MutableHeaders(raw=[])
    for rule in rules:
        if rule.replaces:
            headers[rule.name] = rule.text(now_s)
        else:
            headers.append(rule.name, rule.text(now_s))
    given = {name for name, _ in own}
    return [item for item in headers.raw if item[0] not in given] + list(own)
