"""Requests to a schema registry: several addresses, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from kconnect.api import DataError, RetriableError
from kconnect.api.http_client import Advice, HttpExchange, HttpFailure, Request, Response, Terms
from kconnect.builtin.schema_registry.registry.registry_settings import RegistrySettings

T = TypeVar("T")

_JSON: Final = "application/vnd.schemaregistry.v1+json"
_MOST_BYTES: Final = 64 << 20

_HINT: Final = (
    "Is schema.registry.url right, with its path, and does the registry run? errors.retry.timeout says how long a task"
    " continues to ask."
)
_TLS_HINT: Final = (
    "Does schema.registry.ssl.truststore.location trust the registry's certificate, is it of this host, and does the"
    " registry want one of ours (schema.registry.ssl.keystore.location)?"
)
_ADVICE: Final = Advice(
    nobody=_HINT,
    late=_HINT,
    broken=_HINT,
    url=_HINT,
    large=_HINT,
    trust=_TLS_HINT,
    expired=_TLS_HINT,
    own_certificate=_TLS_HINT,
    connect_deadline="http.connect.timeout.ms",
    deadline="http.read.timeout.ms",
)


class RegistryRefusal(DataError):
    """The registry answered that it will not: an error of this request, which asking again does not change."""

    def __init__(self, message: str, status: int, code: int, said: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.said = said


class UnexpectedAnswerError(ValueError):
    """JSON that is no answer to what was asked, as of a gateway. Its text says what it is: "an answer without id"."""


class RegistryTransport(Protocol):
    """Carries one request; RegistryHttp is one, tests have another."""

    def ask(self, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        """What `read` makes of the answer's JSON. `purpose` is what was asked for: "the schema with id 7".

        Errors: RegistryRefusal (4xx); RetriableError (no answer, 5xx, no JSON, `read` raises UnexpectedAnswerError).
        """
        ...


class RegistryHttp:
    """The network. Threads: one at a time."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Errors: ConfigError for key and trust stores that cannot be used."""
        self._settings = settings
        context = settings.context() if any(url.startswith("https:") for url in settings.urls) else None
        terms = Terms(
            timeout_s=settings.read_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            most_bytes=_MOST_BYTES,
            advice=_ADVICE,
        )
        if context is not None:
            terms = replace(terms, tls=lambda: context)
        self._exchanges = [HttpExchange(terms, url) for url in settings.urls]
        self._first = 0  # the address that answered last

    def ask(self, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        problem: RetriableError | None = None
        count = len(self._settings.urls)
        for step in range(count):
            index = (self._first + step) % count
            try:
                found = self._ask_one(index, method, path, body, purpose, read)
            except RetriableError as error:
                problem = error
            else:
                self._first = index
                return found
        assert problem is not None
        raise problem

    def _ask_one(self, index: int, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        url = self._settings.urls[index]
        where = f"{method} {url}{path}"
        try:
            answer = self._answer(index, method, path, body)
        except HttpFailure as error:
            raise _retriable(url, where, purpose, error.why, hint=error.hint) from error
        status = answer.status
        if answer.may_pass:
            raise _retriable(url, where, purpose, f"it answered {status}{_excerpt(answer.body)}")
        if 300 <= status < 400:
            raise _retriable(url, where, purpose, f"it answered {status}, which leads elsewhere")
        try:
            said = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            if status in (401, 403):
                raise _refused(url, where, purpose, status, {}) from error
            why = f"it answered {status} with something that is not JSON{_excerpt(answer.body)}"
            raise _retriable(url, where, purpose, why) from error
        if status >= 400:
            raise _refused(url, where, purpose, status, said if isinstance(said, dict) else {})
        try:
            return read(said)
        except UnexpectedAnswerError as error:
            why = f"it answered {status} with {error}{_excerpt(answer.body)}"
            raise _retriable(url, where, purpose, why) from error

    def _answer(self, index: int, method: str, path: str, body: Any) -> Response:
        """No connection is kept: answers are remembered, so there are few questions."""
        headers = {"Accept": f"{_JSON}, application/json", **self._settings.headers}
        authorization = self._settings.authorizations[index]
        if authorization is not None:
            headers["Authorization"] = authorization
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), _JSON
        try:
            return self._exchanges[index].send(Request(method, path, data, headers))
        finally:
            self._exchanges[index].close()


def _retriable(url: str, where: str, purpose: str, why: str, *, hint: str | None = _HINT) -> RetriableError:
    return RetriableError(f"The schema registry at {url} was asked for {purpose} ({where}): {why}", hint=hint)


def _refused(url: str, where: str, purpose: str, status: int, answer: dict[str, Any]) -> RegistryRefusal:
    said = str(answer.get("message", "")).strip()
    code = answer.get("error_code", status)
    hint = None
    if status in (401, 403):
        hint = "Check basic.auth.user.info or bearer.auth.token, and what this user may do."
    shown = f"{status} {said}" if said else str(status)
    return RegistryRefusal(
        f"The schema registry at {url} was asked for {purpose} ({where}) and refused: {shown}",
        status,
        code if isinstance(code, int) else status,
        said,
        hint=hint,
    )


def _excerpt(content: bytes) -> str:
    text = " ".join(content[:200].decode("utf-8", "replace").split())
    return f": {text[:120]}" if text else ""
