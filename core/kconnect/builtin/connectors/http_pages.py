"""HTTP requests of the JSON source: one GET, what its answer means for the source, and the next page."""

from __future__ import annotations

import json
import re
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from kconnect.api import ConfigError, ConnectError, DataError, RetriableError
from kconnect.api.http_client import (
    Advice,
    CertificateError,
    HttpExchange,
    HttpFailure,
    Request,
    Response,
    Terms,
    TooLargeError,
    origin,
    shown_url,
)

# As urllib and browsers
_MOST_REDIRECTS = 10


class BusyError(RetriableError):
    """The server requires a delay, or is unreachable. `retry_after_s` is the requested delay, None if there is none."""


class HttpClient:
    """GET with headers, which go to the origin of the configured URL only. Threads: the task's.

    `ca_file`: PEM of authorities that are trusted beside the system's.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str], timeout_s: float, max_bytes: int, ca_file: str | None
    ) -> None:
        """Errors: ConfigError for a file that holds no certificates."""
        self._base_url = base_url
        self._headers = dict(headers)
        context = ssl.create_default_context()
        if ca_file is not None:
            try:
                context.load_verify_locations(cafile=ca_file)
            except OSError as err:
                why = f"it cannot be used as CA certificates: {err.strerror or err}"
                raise ConfigError.invalid("tls.ca.file", ca_file, why) from err
        self._exchange = HttpExchange(
            Terms(
                timeout_s=timeout_s,
                most_bytes=max_bytes,
                tls=lambda: context,
                redirects=_MOST_REDIRECTS,
                uses_proxies=True,
                advice=Advice(
                    nobody="Check url, and HTTPS_PROXY where there is one.",
                    trust="Name the authority's file in tls.ca.file.",
                    large="Ask for smaller pages, or raise response.max.bytes.",
                    deadline="request.timeout.ms",
                    connect_deadline="request.timeout.ms",
                ),
            )
        )

    def get(self, url: str, extra: Mapping[str, str]) -> Response:
        """One request; status 200 with a body, or 304.

        Errors: BusyError when it may succeed later, ConnectError when it will not.
        """
        own = self._headers if same_origin(url, self._base_url) else {}
        try:
            answer = self._exchange.send(Request("GET", url, None, {"Accept": "application/json", **own, **extra}))
        except (CertificateError, TooLargeError):
            raise
        except HttpFailure as err:
            raise BusyError(str(err), hint=err.hint) from err
        finally:
            self._exchange.close()  # a server would close what is kept for the poll interval
        if answer.status == 304 or 200 <= answer.status < 300:
            return answer
        if answer.may_pass:
            raise BusyError(_said(url, answer), retry_after_s=answer.retry_after_s)
        raise ConnectError(
            f"{_said(url, answer)}: {answer.body[:200].decode('utf-8', 'replace')}",
            hint="Check url, auth.* and header.*." if answer.status in (401, 403, 404) else None,
        )


def json_of(answer: Response, url: str, loads: Callable[[bytes], Any] = json.loads) -> Any:
    """The body as JSON, by `loads`. Errors: DataError."""
    try:
        return loads(answer.body)
    except ValueError as err:
        raise DataError(f"{shown_url(url)} did not answer with JSON: {err}; it begins {answer.body[:80]!r}") from err


def _said(url: str, answer: Response) -> str:
    return f"{shown_url(url)} answers {answer.status} {answer.reason}".rstrip()


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs share scheme, host and port."""
    return origin(one) == origin(other)


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
