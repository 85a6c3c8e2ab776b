"""The logs of all workers of a cluster: asked side by side, merged by time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kconnect.errors import ConnectError, NotFoundError

if TYPE_CHECKING:
    from kconnect.client import ClientAccess

Line: TypeAlias = dict[str, Any]
Say: TypeAlias = Callable[[str], None]

# A worker that does not answer by then is named, and left out; who the workers are has taken up to a second before
_ANSWER_S = 3.0
_WAIT_MS = 20_000
# Lines of several workers that arrive within this time are sorted
_GATHER_S = 0.25
_AGAIN_S = 2.0


class WorkerLogs:
    """Threads: used by one; it asks each worker on a thread of its own. A worker that does not answer is named once."""

    def __init__(self, urls: Sequence[str], access: ClientAccess | None, query: Mapping[str, Any], say: Say) -> None:
        """`query`: connector, level, since, limit, as of `GET /admin/logs`."""
        self._urls = urls
        self._access = access
        self._query = dict(query)
        self._say = say
        self._lock = threading.Lock()  # guards the three below
        self._followed: dict[str, tuple[str, int]] = {}  # by worker: its URL, and the last line that was read
        self._failures: list[ConnectError] = []
        self._silent: list[str] = []
        self.workers = 0
        """How many have answered."""

    def last(self) -> list[Line]:
        """The last lines of all workers, in order. Errors: ConnectError when no worker answers."""
        pages: list[dict[str, Any]] = []
        threads = [threading.Thread(target=self._ask, args=(url, pages), daemon=True) for url in self._urls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for sentence in self._silent:
            self._say(sentence)
        if not pages:
            raise self._failures[0] if self._failures else NotFoundError("No worker keeps lines of its log")
        self.workers = len(self._followed)
        lines = {(page["worker"], line["number"]): {"worker": page["worker"], **line} for page in pages
                 for line in page["lines"]}  # fmt: skip
        merged = sorted(lines.values(), key=lambda line: (line["time_ms"], line["worker"], line["number"]))
        return merged[-self._query["limit"] :] if self._query["limit"] else []

    def follow(self) -> Iterator[Line]:
        """Every line from now on, those of a quarter of a second in order. Call `last` before; never ends."""
        arrived: queue.Queue[Line | str] = queue.Queue(10_000)
        for worker, (url, last) in self._followed.items():
            threading.Thread(target=self._follow, args=(worker, url, last, arrived), daemon=True).start()
        while True:
            batch = [_next(arrived)]
            threading.Event().wait(_GATHER_S)
            while not arrived.empty():
                batch.append(arrived.get_nowait())
            lines = [line for line in batch if not isinstance(line, str)]
            for sentence in (line for line in batch if isinstance(line, str)):
                self._say(sentence)
            yield from sorted(lines, key=lambda line: (line["time_ms"], line["worker"], line["number"]))

    def _ask(self, url: str, pages: list[dict[str, Any]]) -> None:
        from kconnect.client import ConnectClient

        try:
            with ConnectClient(url, access=self._access, timeout_s=_ANSWER_S, connect_timeout_s=_ANSWER_S) as client:
                page = client.logs(**self._query)
        except NotFoundError:
            with self._lock:
                self._silent.append(f"{url} keeps no lines of its log: it is Java's, or an older kconnect.")
        except ConnectError as err:
            with self._lock:
                self._silent.append(f"{err}: its lines are left out")
                self._failures.append(err)
        else:
            with self._lock:
                if page["worker"] not in self._followed:
                    self._followed[page["worker"]] = url, page["last"]
                    pages.append(page)

    def _follow(self, worker: str, url: str, last: int, arrived: queue.Queue[Line | str]) -> None:
        from kconnect.client import ConnectClient

        is_away, pause = False, threading.Event()
        query = {key: self._query.get(key) for key in ("connector", "level")}
        while True:
            try:
                with ConnectClient(url, access=self._access, timeout_s=_WAIT_MS / 1000 + _ANSWER_S) as client:
                    while True:
                        page = client.logs(**query, after=last, wait_ms=_WAIT_MS, limit=1000)
                        if is_away:
                            arrived.put(f"{worker} answers again.")
                            is_away = False
                        if page["missed"]:
                            arrived.put(f"Some lines of {worker} are missing: it wrote more than it keeps.")
                        last = page["last"]
                        for line in page["lines"]:
                            arrived.put({"worker": worker, **line})
            except ConnectError as err:
                if not is_away:
                    arrived.put(f"{worker} does not answer any more, it is asked again: {err}")
                is_away = True
                pause.wait(_AGAIN_S)


def _next(arrived: queue.Queue[Line | str]) -> Line | str:
    """In short waits: a signal must get through."""
    while True:
        try:
            return arrived.get(timeout=0.5)
        except queue.Empty:
            continue
