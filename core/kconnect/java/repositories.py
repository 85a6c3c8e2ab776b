"""The Maven repositories of jgo's settings, asked over connections that are kept, by several threads at once."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from kconnect.client.http_exchange import HttpExchange, Request, Response, Terms
from kconnect.client.http_failures import HttpFailure
from kconnect.client.trust import trusting
from kconnect.errors import EnvironmentProblemError, NotFoundError, UnreachableError

if TYPE_CHECKING:
    import ssl

_ATTEMPTS: Final = 3
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 60.0
# How long connecting may take, and how long nothing may come
_IDLE_S = 30.0
# A download that is slower is given up: 45 MB are an hour and a quarter then
_SLOWEST_BYTES_A_S: Final = 10_000
_LONGEST_S: Final = 24 * 3600.0
# Of an artifact of which nobody has said how large it is
_LIKELY_BYTES: Final = 200 << 20
_REFUSES: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Stopped(Exception):
    """The caller has set `stop`: this download ends too."""


class Repositories:
    """What the user's Maven repositories have, by path; `title` says for messages what is fetched.

    Threads: any number, each with connections of its own, which `close` ends.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._all = [_Repository.of(url) for url in _urls().values()]
        self._refused: dict[str, int] = {}  # by URL, of those that others come after
        self._exchanges = ExitStack()
        self._of_thread = threading.local()
        self.stop = threading.Event()
        """Set: downloads end with `Stopped`, and none begins."""

    @property
    def shown(self) -> str:
        """Where it is looked for, for messages."""
        urls = [f"{one.url}{self._refusal(one)}" for one in self._all]
        return f"the Maven repositor{'y' if len(urls) == 1 else 'ies'} {', '.join(urls)}"

    def _refusal(self, one: _Repository) -> str:
        status = self._refused.get(one.url)
        return f" (which answers {status})" if status else ""

    def close(self) -> None:
        """Close the connections, once no thread asks any more."""
        self._exchanges.close()

    def read(self, path: str) -> bytes:
        """The bytes of a small file. Errors: as `save`."""
        parts: list[bytes] = []
        self._fetched(path, _LIKELY_BYTES, parts.clear, parts.append)
        return b"".join(parts)

    def save(
        self, path: str, target: Path, size_bytes: int = _LIKELY_BYTES, reported: Callable[[int], object] | None = None
    ) -> None:
        """Writes a file; `reported` hears of each piece.

        Errors: NotFoundError where no repository has it, UnreachableError, Stopped.
        """
        with target.open("wb") as file:

            def again() -> None:
                file.seek(0)
                file.truncate()

            def write(piece: bytes) -> None:
                file.write(piece)
                if reported is not None:
                    reported(len(piece))

            self._fetched(path, size_bytes, again, write)

    def _fetched(
        self, path: str, size_bytes: int, again: Callable[[], object], write: Callable[[bytes], object]
    ) -> None:
        def checked(piece: bytes) -> None:
            if self.stop.is_set():
                raise Stopped
            write(piece)

        deadline_s = _IDLE_S + size_bytes / _SLOWEST_BYTES_A_S
        why, pause_s = "", 0.0
        hint = f"{self._title} are fetched once and kept: check the network and HTTPS_PROXY, and try again."
        for attempt in range(_ATTEMPTS):
            if self.stop.wait(pause_s):
                raise Stopped
            pause_s = _PAUSE_S * (attempt + 1)
            again()
            try:
                answer = self._first(path, deadline_s, checked)
            except HttpFailure as err:
                why = err.why
                continue
            if 200 <= answer.status < 300:
                return
            if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
                raise NotFoundError(f"{path.rpartition('/')[2]} does not exist in {self.shown}.")
            why = f"it answers {answer.status}"
            if answer.status in _REFUSES:
                hint = "It asks for a login: put one into ~/.netrc, or into its URL in jgo's settings."
            if answer.status == HTTPStatus.TOO_MANY_REQUESTS:  # it may say when to ask again
                pause_s = min(answer.retry_after_s or pause_s, _LONGEST_PAUSE_S)
        raise UnreachableError(
            f"{path.rpartition('/')[2]} cannot be fetched from the Maven repository {self._all[-1].url}: {why}",
            hint=hint,
        )

    def _first(self, path: str, deadline_s: float, write: Callable[[bytes], object]) -> Response:
        """From the first repository that has it; the last one's answer. Errors: HttpFailure."""
        *others, last = self._all
        for repository in others:  # one that lacks it may also say that it is forbidden
            answer = self._asked(repository, path, deadline_s, write)
            if 200 <= answer.status < 300:
                return answer
            if answer.status in _REFUSES:
                self._refused[repository.url] = answer.status
        return self._asked(last, path, deadline_s, write)

    def _asked(
        self, repository: _Repository, path: str, deadline_s: float, write: Callable[[bytes], object]
    ) -> Response:
        request = Request("GET", f"{repository.url}/{path}", None, repository.headers)
        exchange: HttpExchange | None = getattr(self._of_thread, "exchange", None)
        if exchange is None:  # it is not for several threads at once
            exchange = self._of_thread.exchange = self._exchanges.enter_context(closing(HttpExchange(_terms())))
        return exchange.send(request, deadline_s, write)


@dataclass(frozen=True, slots=True)
class _Repository:
    """A Maven repository: its URL without user, and the headers that say who we are to it."""

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> _Repository:
        """The user is in the URL, or in ~/.netrc."""
        from requests.utils import get_auth_from_url, get_netrc_auth  # read as by jgo, which uses requests

        login = get_auth_from_url(url)
        if not any(login):
            login = get_netrc_auth(url) or login
        pair = base64.b64encode(":".join(login).encode()).decode()
        parts = urlsplit(url)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
        return cls(plain, {"Authorization": f"Basic {pair}"} if any(login) else {})


def _urls() -> dict[str, str]:
    """Names and URLs of the repositories that the user configured for jgo (default: Maven Central)."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL

    return dict(GlobalSettings.load().repositories) or {"central": MAVEN_CENTRAL_URL}


def _tls() -> ssl.SSLContext:
    """What the system trusts, and what jgo's own requests trust: REQUESTS_CA_BUNDLE or the certificates of certifi."""
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or DEFAULT_CA_BUNDLE_PATH
    context = trusting()
    try:
        if Path(named).is_dir():
            context.load_verify_locations(capath=named)
        else:
            context.load_verify_locations(cafile=named)
    except OSError as err:
        raise EnvironmentProblemError(
            f"{named} cannot be used as CA certificates: {err.strerror or err}", hint="Correct REQUESTS_CA_BUNDLE."
        ) from err
    return context


def _terms() -> Terms:
    return Terms(
        timeout_s=_LONGEST_S,
        connect_timeout_s=_IDLE_S,
        idle_s=_IDLE_S,
        tls=_tls,
        redirects=10,
        leads_inside=True,
        uses_proxies=True,
    )
