"""Threads that look at a cluster again and again: one for the statuses, one for each worker. Keys never wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from kconnect.admin.cluster.activity import Activity, activities, sinks_without_lag
from kconnect.client.worker_start import health_of, start_of
from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import ConnectorStatus
from kconnect_cli.admin.worker_start import has_unassigned
from kconnect_cli.top.facts import Look, StatusLook, WorkerFacts, WorkerLook, worker_urls

if TYPE_CHECKING:
    from kconnect.admin.cluster.broker_lags import BrokerLags
    from kconnect.admin.direct.client import DirectClient
    from kconnect.client import ConnectClient

Post = Callable[[Look], None]
Keeps = Callable[[str], bool]
"""Whether a connector of this name is wanted."""

ANSWER_S = 5.0
"""How long a look waits for an answer: longer than a busy worker takes, shorter than anybody's patience."""
# A look that takes long is made more rarely: at most a quarter of the time goes into looking
_REST_RATIO = 3.0
# Workers come and go rarely, and the one that is asked asks all others
_GROUP_EVERY_S = 10.0
_GROUP_KNOWN_S = 1.0
_FORGOTTEN_S = 300.0


class Watches(Protocol):
    """What looks at a cluster, of whatever kind."""

    def start(self) -> None: ...
    def look_now(self) -> None: ...
    def stop(self, timeout_s: float) -> None:
        """Idempotent. A thread that waits for an answer ends when its deadline has passed."""


class Repeated(threading.Thread):
    """Calls `look` again and again, on a thread of its own, until it is stopped; at last `ended`, on that thread too.

    `look` reports errors in its own way.
    """

    def __init__(
        self, name: str, look: Callable[[], None], interval_s: float, ended: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._look = look
        self._ended = ended
        self._interval_s = interval_s
        self._wake = threading.Event()
        self._is_over = False

    def run(self) -> None:
        while not self._is_over:
            began_s = time.monotonic()
            self._look()
            took_s = time.monotonic() - began_s
            self._wake.wait(max(self._interval_s - took_s, _REST_RATIO * min(took_s, ANSWER_S)))
            self._wake.clear()
        self._ended()

    def look_now(self) -> None:
        self._wake.set()

    def end(self) -> None:
        self._is_over = True
        self._wake.set()


class RestWatches:
    """Looks at a cluster over REST. `connect` makes a client for workers; a dead worker is replaced by known others.

    `lags`: asked for sinks on Java's workers, which do not tell it.
    """

    def __init__(
        self,
        connect: Callable[[Sequence[str]], ConnectClient],
        urls: Sequence[str],
        keeps: Keeps,
        post: Post,
        interval_s: float,
        lags: BrokerLags | None = None,
    ) -> None:
        self._connect = connect
        self._lags = lags
        self._given = list(urls)
        self._keeps = keeps
        self._post = post
        self._interval_s = interval_s
        self._statuses = Repeated("top-statuses", self._look, interval_s, self._close)
        self._group = Repeated("top-group", self._look_at_group, _GROUP_EVERY_S)
        self._lock = threading.Lock()  # guards both below
        self._workers: dict[str, _WorkerWatch] = {}
        self._members: dict[str, str] | None = None  # None: nobody tells
        self._knows_group = threading.Event()
        # Only the thread of the statuses uses these
        self._urls: list[str] = []
        self._client: ConnectClient | None = None
        self._has_started = False
        self._cluster_id = ""

    @property
    def urls(self) -> list[str]:
        """The given workers, and those that became known since. Threads: any."""
        with self._lock:
            return list(dict.fromkeys([*self._given, *(watch.url for watch in self._workers.values())]))

    @property
    def workers(self) -> list[str]:
        """The workers that are watched, each under one URL; before the first answer the given ones. Threads: any."""
        with self._lock:
            return [watch.url for watch in self._workers.values()] or self._given

    def start(self) -> None:
        self._statuses.start()
        self._group.start()

    def look_now(self) -> None:
        self._statuses.look_now()

    def stop(self, timeout_s: float) -> None:
        with self._lock:
            threads = [self._statuses, self._group, *(watch.thread for watch in self._workers.values())]
        for thread in threads:
            thread.end()
        deadline_s = time.monotonic() + timeout_s
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline_s - time.monotonic()))

    def _look(self) -> None:
        client = self._client_of_all()
        with self._lock:
            group = self._members
        try:
            look = replace(self._statuses_of(client), members=None if group is None else frozenset(group))
        except ConnectError as err:
            self._has_started = False
            look = StatusLook(at_s=time.monotonic(), problem=str(err), hint=err.hint or "")
        self._post(look)
        if look.statuses is not None:
            # Else the one that is asked might be looked for under the name that it advertises, for a moment
            self._knows_group.wait(_GROUP_KNOWN_S)
            with self._lock:
                group = self._members
            self._watch_workers(worker_urls(look.statuses, client.url, group or {}), is_whole=group is not None)

    def _look_at_group(self) -> None:
        """All workers, also those that run nothing, as one of ours knows them. Java's do not tell."""
        with self._connect(self.urls) as client:
            try:
                own, *others = client.workers()
            except ConnectError as err:  # the look at the statuses tells what is wrong
                if isinstance(err, NotFoundError):  # one of Java's: what ours have said gets old
                    with self._lock:
                        self._members = None
                self._knows_group.set()
                return
            scheme = urlsplit(client.url).scheme
            members = {str(each["worker"]): f"{scheme}://{each['worker']}" for each in others}
            with self._lock:
                self._members = {str(own["worker"]): client.url, **members}
        self._knows_group.set()

    def _statuses_of(self, client: ConnectClient) -> StatusLook:
        """Errors: ConnectError."""
        start = None if self._has_started else start_of(client)
        if start is not None and not start.answers_requests:
            return StatusLook(at_s=time.monotonic(), problem=f"{client.url} is {start.text}", asked=client.url)
        found = client.connector_statuses()
        if start is None and has_unassigned(found.values()):
            start = start_of(client)
        self._has_started = start is None
        if not self._cluster_id:
            self._cluster_id = str(client.server_info().get("kafka_cluster_id") or "")
        statuses = _kept(found, self._keeps)
        return StatusLook(
            at_s=time.monotonic(),
            statuses=statuses,
            lags=self._lags_on_javas(client, statuses),
            asked=client.url,
            cluster_id=self._cluster_id,
            outage=client.outage,
            note=f"{client.url} is {start.text}" if start is not None else "",
        )

    def _lags_on_javas(self, client: ConnectClient, statuses: Mapping[str, ConnectorStatus]) -> dict[str, Activity]:
        """Errors: ConnectError."""
        if self._lags is None:
            return {}
        with self._lock:
            javas = {id_ for id_, watch in self._workers.items() if watch.is_java}
        on_them = {name: each for name, each in statuses.items() if each.connector.worker_id in javas}
        sinks = sinks_without_lag(on_them, {})
        return self._lags.activities(sinks, client.connector_infos) if sinks else {}

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _client_of_all(self) -> ConnectClient:
        """The client of the given workers and of those that became known since."""
        urls = self.urls
        if self._client is None or urls != self._urls:
            if self._client is not None:
                self._client.close()
            self._client, self._urls = self._connect(urls), urls
        return self._client

    def _watch_workers(self, urls: Mapping[str, str], *, is_whole: bool) -> None:
        """`is_whole`: `urls` has all workers of the group; one that is lost and not among them is looked at no more."""
        with self._lock:
            for id_, url in urls.items():
                known = self._workers.get(id_)
                if known is not None and known.url != url:
                    known.thread.end()
                if known is None or known.url != url:
                    watch = self._workers[id_] = _WorkerWatch(
                        id_, url, self._connect([url]), self._post, self._interval_s
                    )
                    watch.thread.start()
            for id_, watch in list(self._workers.items()):
                is_renamed = watch.url in urls.values()
                is_over = watch.is_lost if is_whole else time.monotonic() - watch.answered_s > _FORGOTTEN_S
                if id_ not in urls and (is_renamed or is_over):
                    watch.thread.end()
                    del self._workers[id_]


class _WorkerWatch:
    """Looks at one worker: does it answer, what do its tasks move, which slots has it."""

    def __init__(self, id_: str, url: str, client: ConnectClient, post: Post, interval_s: float) -> None:
        self.thread = Repeated(f"top-{id_}", self._look, interval_s, client.close)
        self.url = url
        self.answered_s = time.monotonic()
        self.is_lost = False
        """It did not answer when it was asked last."""
        self._client = client
        self._post = post
        self._known = WorkerFacts(id=id_, url=url)

    @property
    def is_java(self) -> bool:
        return self._known.kind == "Java"

    def _look(self) -> None:
        try:
            self._known = self._asked()
            self.answered_s, self.is_lost = time.monotonic(), False
            found = self._known
        except ConnectError as err:
            self._known = replace(self._known, kind="")  # whatever answers there next may be another worker
            found, self.is_lost = replace(self._known, problem=str(err)), True
        self._post(WorkerLook(time.monotonic(), found))

    def _asked(self) -> WorkerFacts:
        """Errors: ConnectError."""
        client, known = self._client, self._known
        if not known.kind:
            known = replace(known, version=str(client.server_info().get("version") or ""), slots=None)
        elif known.kind == "Java":
            client.server_info()
            return replace(known, unwell=health_of(client).problem or "")
        try:
            slots = tuple(client.slots())
        except NotFoundError:
            return replace(known, kind="Java", moves={})
        moves = activities(client, cluster=False) or {}
        health = health_of(client)
        known = replace(known, unwell=health.problem or "", notices=health.notices)
        return replace(known, kind="kconnect", moves=moves, slots=slots)


class DirectWatches:
    """Looks at a cluster on its topics, with no worker. The client is this thread's own."""

    def __init__(self, client: DirectClient, keeps: Keeps, post: Post, interval_s: float, lags: BrokerLags) -> None:
        self._client = client
        self._lags = lags
        self._keeps = keeps
        self._post = post
        self._thread = Repeated("top-topics", self._look, interval_s)

    def start(self) -> None:
        self._thread.start()

    def look_now(self) -> None:
        self._thread.look_now()

    def stop(self, timeout_s: float) -> None:
        self._thread.end()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _look(self) -> None:
        from kconnect_cli.admin.live_workers import look_at_group, notes_on_life

        try:
            found = _kept(self._client.connector_statuses(), self._keeps)
            group = look_at_group(self._client)
            note = " ".join(notes_on_life(self._client, group, ()))
            to_come = self._client.states_to_come(list(found))
            lags = self._lags.activities(sinks_without_lag(found, {}), self._client.connector_infos)
        except ConnectError as err:
            self._post(StatusLook(at_s=time.monotonic(), problem=str(err), hint=err.hint or ""))
            return
        self._post(StatusLook(at_s=time.monotonic(), statuses=found, note=note, to_come=to_come, lags=lags))
        if group is not None and not isinstance(group, ConnectError):
            for worker in group.workers:
                id_ = urlsplit(worker.url).netloc
                facts = WorkerFacts(id=id_, url=worker.url, kind="leader" if worker.is_leader else "member")
                self._post(WorkerLook(time.monotonic(), facts))


def _kept(found: Mapping[str, ConnectorStatus], keeps: Keeps) -> dict[str, ConnectorStatus]:
    return {name: status for name, status in found.items() if keeps(name)}
