"""SharedView: one reading of the cluster for all browsers of a caller.

It is read again when somebody looks and it is older than two seconds, by whoever asks first; the others get the one
before. Nobody looking costs nothing.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final

from kconnect.admin.cluster.activity import Activity
from kconnect.admin.cluster.port import Capabilities, Cluster
from kconnect.admin.console.cluster import Caller, Clusters
from kconnect.admin.console.connector_rows import ConnectorRow, connector_rows
from kconnect.client.outage import Outage
from kconnect.client.worker_start import WorkerHealth, WorkerStart
from kconnect.errors import ConnectError
from kconnect.model import ConnectorStatus
from kconnect.runtime.config.labels import Labels, labels_of

REFRESH_S: Final = 2.0
# The lines of an hour are 400 kB for 1,000 connectors: with that many they are read every ten seconds only
_FEW: Final = 100
_MANY_S: Final = 10.0
# A reading may take this part of one core at most: of a large cluster it is repeated less often
_MOST_LOAD: Final = 0.04
# But no less often than once a minute: what took so long may have waited for something that is over
_MOST_PAUSE_S: Final = 60.0
# Between two questions for the health of a worker
_HEALTH_PAUSE_S: Final = 10.0
# Who takes what there is while another reads is reported, once that takes so long, that it is from before
_SILENT_S: Final = 5.0
# Callers whose readings are kept; one is a megabyte for 1,000 connectors
_MOST_CALLERS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """The cluster at one time; compared by identity. `version` grows with each change of a row or a banner."""

    version: int = 0
    series: str = ""
    """What `version` is a number of: each process begins again, and other workers have their own."""
    rows: tuple[ConnectorRow, ...] = ()
    changed: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The version at which each row became what it is."""
    has_read: bool = False
    """False: there is nothing yet to show."""
    place: str = ""
    """Where it was read."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    outage: Outage | None = None
    starting: str | None = None
    unhealthy: str | None = None
    """What is wrong with the worker that answers all the same, as one of Java's does from its memory."""
    notices: tuple[str, ...] = ()
    """What the worker has to say though it is healthy, each without a full stop."""
    problem: str | None = None
    """Why it could not be read this time; the rows are from before."""
    since_ms: int = 0
    """Since when it cannot be read."""


@dataclass(slots=True)
class _Kept:
    view: ClusterView = field(default_factory=lambda: ClusterView(series=secrets.token_hex(4)))
    due_at: float = 0.0
    activities: Mapping[str, Activity] = field(default_factory=dict)
    activities_due_at: float = 0.0
    labels: Mapping[str, Labels | None] = field(default_factory=dict)
    labels_due_at: float = 0.0
    health: WorkerHealth = field(default_factory=WorkerHealth)
    health_due_at: float = 0.0
    asks_health: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by who reads."""
    began_at: float | None = None
    """When the reading in progress began."""
    began_ms: int = 0
    failure: ConnectError | None = None
    """Why nothing was read at the last attempt, while nothing was ever read."""


class SharedView:
    """Threads: any."""

    def __init__(self, clusters: Clusters, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clusters = clusters
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards _kept, _forgotten, and the views that are kept
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._forgotten = 0

    def get(self, caller: Caller, *, fresh: bool = False) -> ClusterView:
        """The last reading, or a new one. `fresh`: of now, because the caller has changed something.

        Errors: ConnectError while nothing was ever read.
        """
        kept = self._of(caller.identity)
        if not fresh and self._monotonic() < kept.due_at:
            return _known(kept)
        # Who comes while another reads takes what there is; the first ever waits
        if not kept.lock.acquire(blocking=fresh or not kept.view.has_read):
            return self._meanwhile(kept)
        try:
            if fresh or self._monotonic() >= kept.due_at:
                self._renew(caller, kept)
            return _known(kept)
        finally:
            kept.lock.release()

    def note_failure(self, caller: Caller, error: ConnectError) -> None:
        """A page has just found that the cluster does not answer: nobody waits for it again at once."""
        kept = self._of(caller.identity)
        with self._lock:
            self._end_failed(kept, error, time.time_ns() // 1_000_000)

    def forget(self) -> None:
        """Read again when somebody next looks: something was changed."""
        with self._lock:
            self._forgotten += 1
            for kept in self._kept.values():
                kept.due_at = kept.labels_due_at = 0.0

    def _of(self, identity: str) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(identity, _Kept())
            self._kept.move_to_end(identity)
            while len(self._kept) > _MOST_CALLERS:
                self._kept.popitem(last=False)
            return kept

    def _meanwhile(self, kept: _Kept) -> ClusterView:
        """What there is while another reads; once that takes long it says so."""
        with self._lock:
            if kept.began_at is not None and self._monotonic() - kept.began_at > _SILENT_S:
                kept.view = _unread(kept.view, kept.view.problem or "It is still being asked.", kept.began_ms)
            return kept.view

    def _renew(self, caller: Caller, kept: _Kept) -> None:
        began_s, began_ms, forgotten = self._monotonic(), time.time_ns() // 1_000_000, self._forgotten
        with self._lock:
            kept.began_at, kept.began_ms = began_s, began_ms
        try:
            found = self._read(caller, kept)
        except ConnectError as err:
            with self._lock:
                self._end_failed(kept, err, began_ms)
            return
        finally:
            kept.began_at = None
        pause_s = min(max(REFRESH_S, (self._monotonic() - began_s) / _MOST_LOAD), _MOST_PAUSE_S)
        with self._lock:
            kept.view, kept.failure = _following(kept.view, found), None
            # Something was changed behind its back: it is read again
            kept.due_at = self._monotonic() + pause_s if forgotten == self._forgotten else 0.0

    def _end_failed(self, kept: _Kept, error: ConnectError, began_ms: int) -> None:
        """Call with the lock. Whoever has waited for the same reading, and a page's own banner, get this answer."""
        kept.failure = error
        kept.view = _unread(kept.view, str(error), began_ms) if kept.view.has_read else kept.view
        kept.due_at = self._monotonic() + REFRESH_S

    def _read(self, caller: Caller, kept: _Kept) -> ClusterView:
        old = kept.view
        with self._clusters.open(caller) as cluster:
            start = None if old.has_read else self._start(cluster, kept)
            if start is not None and not start.answers_requests:
                return replace(old, starting=start.message)
            statuses = cluster.connector_statuses()
            rows = connector_rows(
                statuses, self._activities(cluster, kept, statuses), self._labels(cluster, kept), cluster.outage
            )
            health = self._health(caller, kept) if cluster.outage is None else WorkerHealth()
            return ClusterView(
                rows=rows,
                has_read=True,
                place=cluster.place,
                capabilities=cluster.capabilities(),
                outage=cluster.outage,
                unhealthy=health.problem,
                notices=health.notices,
            )

    def _start(self, cluster: Cluster, kept: _Kept) -> WorkerStart | None:
        health = cluster.health()
        self._note_health(kept, health)
        return health.start

    def _health(self, caller: Caller, kept: _Kept) -> WorkerHealth:
        """What is known of it. It is asked for on a thread of its own, as a held-up worker leaves it unanswered."""
        with self._lock:
            is_due = not kept.asks_health and self._monotonic() >= kept.health_due_at
            kept.asks_health = kept.asks_health or is_due
        if is_due:
            threading.Thread(target=self._ask_health, args=(caller, kept), name="asks-health", daemon=True).start()
        return kept.health

    def _ask_health(self, caller: Caller, kept: _Kept) -> None:
        health = WorkerHealth()
        try:
            with self._clusters.open(caller) as cluster:
                health = cluster.health()
        except ConnectError:
            pass  # the next reading fails as well, and says why
        finally:  # else nobody asks again
            self._note_health(kept, health)

    def _note_health(self, kept: _Kept, health: WorkerHealth) -> None:
        health = replace(health, start=None)  # that grows older from one to the next
        with self._lock:
            if kept.health != health:
                kept.health, kept.due_at = health, 0.0
            kept.health_due_at, kept.asks_health = self._monotonic() + _HEALTH_PAUSE_S, False

    def _activities(
        self, cluster: Cluster, kept: _Kept, statuses: Mapping[str, ConnectorStatus]
    ) -> Mapping[str, Activity]:
        if self._monotonic() >= kept.activities_due_at:
            kept.activities = cluster.activities(statuses) or {}
            pause_s = REFRESH_S if len(kept.activities) <= _FEW else _MANY_S
            kept.activities_due_at = self._monotonic() + pause_s
        return kept.activities

    def _labels(self, cluster: Cluster, kept: _Kept) -> Mapping[str, Labels | None]:
        """They are in the configs, which are large and seldom change."""
        if self._monotonic() >= kept.labels_due_at:
            infos = cluster.connector_infos()
            kept.labels = {name: labels_of(info.config) for name, info in infos.items()}
            kept.labels_due_at = self._monotonic() + (REFRESH_S if len(infos) <= _FEW else _MANY_S)
        return kept.labels


def _known(kept: _Kept) -> ClusterView:
    """Errors: ConnectError while nothing was ever read; a copy, as several threads may raise it."""
    failure = kept.failure
    if failure is not None and not kept.view.has_read:
        raise copy(failure)
    return kept.view


def _unread(old: ClusterView, problem: str, since_ms: int) -> ClusterView:
    """`since_ms`: when it was asked that did not answer."""
    if old.problem == problem:
        return old
    since_ms = old.since_ms if old.problem is not None else since_ms
    return replace(old, problem=problem, since_ms=since_ms, version=old.version + 1)


def _following(old: ClusterView, found: ClusterView) -> ClusterView:
    """The new reading with the versions of its rows; the old one where nothing has changed."""
    before = {row.name: row for row in old.rows}
    version = old.version + 1
    changed = {row.name: old.changed[row.name] if before.get(row.name) == row else version for row in found.rows}
    is_same = (
        old.has_read
        and old.rows == found.rows
        and old.problem is None
        and old.starting is None
        and old.unhealthy == found.unhealthy
        and old.notices == found.notices
        and _since(old.outage) == _since(found.outage)
        and old.capabilities == found.capabilities
    )
    return old if is_same else replace(found, version=version, series=old.series, changed=changed)


def _since(outage: Outage | None) -> int | None:
    return None if outage is None else outage.since_ms
