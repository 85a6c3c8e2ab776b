"""HTTP requests of the JSON source: one GET with a deadline, its answer's retry delay, and the next page."""

from __future__ import annotations

import email.utils
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kconnect.api import ConnectError, DataError, RetriableError

# Statuses that a later request may not get: too early, too many, and errors of overloaded proxies and servers.
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_CHUNK_BYTES = 1 << 16


class BusyError(RetriableError):
    """The server requires a delay, or is unreachable. `retry_after_s` is the requested delay, None if there is none."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The answer: status 200 with a body, or 304 without."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes

    def json(self, url: str) -> Any:
        """The body as JSON. Errors: DataError."""
        try:
            return json.loads(self.body)
        except ValueError as err:
            raise DataError(f"{shown(url)} did not answer with JSON: {err}; it begins {self.body[:80]!r}") from err


class HttpClient:
    """GET with headers, a deadline for the whole answer and a limit of its size. Threads: the task's.

    Credentials go to the origin of the configured URL only, not along with a redirect elsewhere.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str], timeout_s: float, max_bytes: int, ca_file: str | None
    ) -> None:
        self._base_url = base_url
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        context = ssl.create_default_context(cafile=ca_file)
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _Redirects(self._headers)
        )

    def get(self, url: str, extra: Mapping[str, str]) -> HttpResponse:
        """One request. Errors: BusyError when it may succeed later, ConnectError when it will not."""
        own = self._headers if same_origin(url, self._base_url) else {}
        request = urllib.request.Request(url, headers={"Accept": "application/json", **own, **extra})
        deadline = time.monotonic() + self._timeout_s
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return HttpResponse(response.status, _lower(response.headers), self._read(response, url, deadline))
        except urllib.error.HTTPError as err:
            with err:
                return self._refused(err, url)
        except (OSError, http.client.HTTPException) as err:
            reason = getattr(err, "reason", None) or err
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise ConnectError(
                    f"{shown(url)} shows a certificate that is not trusted: {reason.verify_message}",
                    hint="Name the authority's file in tls.ca.file.",
                ) from err
            raise BusyError(f"{shown(url)} does not answer: {type(reason).__name__}: {reason}") from err

    def _refused(self, err: urllib.error.HTTPError, url: str) -> HttpResponse:
        headers = _lower(err.headers)
        if err.code == 304:
            return HttpResponse(304, headers, b"")
        if err.code in _BUSY:
            raise BusyError(f"{shown(url)} answers {err.code} {err.reason}", _retry_after_s(headers)) from err
        said = err.read(200).decode("utf-8", "replace")
        raise ConnectError(
            f"{shown(url)} answers {err.code} {err.reason}: {said}",
            hint="Check url, auth.* and header.*." if err.code in (401, 403, 404) else None,
        ) from err

    def _read(self, response: Any, url: str, deadline: float) -> bytes:
        """The body; a server that sends it byte by byte cannot block the task for longer than the timeout."""
        chunks, size = [], 0
        while chunk := response.read1(_CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                raise ConnectError(
                    f"{shown(url)} answers with more than {self._max_bytes} bytes",
                    hint="Ask for smaller pages, or raise response.max.bytes.",
                )
            if time.monotonic() > deadline:
                raise BusyError(f"{shown(url)} did not end its answer within {self._timeout_s:g} s")
        if response.length:  # announced by Content-Length but not received
            raise BusyError(f"{shown(url)} broke off its answer, {response.length} bytes are missing")
        return b"".join(chunks)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but sends our headers only to the same origin."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = [name.capitalize() for name in own]

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and not same_origin(req.full_url, newurl):
            for name in self._own:
                made.remove_header(name)
        return made


def pointer(document: Any, path: str, default: Any = None) -> Any:
    """The value at a JSON pointer (RFC 6901): "" is the document, "/data/0/id" descends; a plain name is a field."""
    if not path:
        return document
    found = document
    for part in (path[1:] if path.startswith("/") else path).split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return default
    return found


_LINK = re.compile(r"<([^>]*)>([^<]*)")
_REL = re.compile(r';\s*rel\s*=\s*"?([^";,]*)"?', re.IGNORECASE)


def next_link(url: str, header: str) -> str | None:
    """The URL with rel=next in a Link header (RFC 8288), made absolute; None if there is none."""
    for target, parameters in _LINK.findall(header):
        rel = _REL.search(parameters)
        if rel and "next" in rel.group(1).lower().split():
            return urllib.parse.urljoin(url, str(target))
    return None


def with_parameter(url: str, name: str, value: Any) -> str:
    """The URL with one query parameter set, replacing its previous value."""
    parts = urllib.parse.urlsplit(url)
    query = [pair for pair in urllib.parse.parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
    query.append((name, str(value)))
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs share scheme, host and port."""
    return _origin(one) == _origin(other)


def shown(url: str) -> str:
    """A URL for messages: without its query, which may contain a key."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path, "..." if parts.query else "", ""))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _lower(headers: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds: a number, or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    if not text:
        return None
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except ValueError:
        return None  # neither form: as if it were not there
