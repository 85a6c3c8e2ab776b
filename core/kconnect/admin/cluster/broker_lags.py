"""BrokerLags: how far sinks are behind, as brokers say where no worker does: on Java's workers, or without any."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kconnect.admin.cluster.activity import Activity
from kconnect.errors import ConnectError
from kconnect.logs.redaction import redact
from kconnect.model import ConnectorInfo, SinkLag
from kconnect.runtime.health.flow_metrics import FlowMetrics

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess

log = logging.getLogger(__name__)

# A page that is polled asks every two seconds, and the brokers answer with some requests for all sinks together
_EVERY_S: Final = 10.0
# What nobody has asked for is forgotten: the connector may be gone
_KEPT_S: Final = 600.0


class BrokerLags:
    """Looks sinks up when somebody asks and what is known is old. Threads: any.

    `brokers`: how to get there, asked on the thread of each look. `within_s`: the time of one look, and of each request
    in it. `wait_s`: how long `activities` waits for what is not known yet; a frozen broker holds nobody up for longer.
    """

    def __init__(self, brokers: Callable[[], ClusterAccess], within_s: float, wait_s: float) -> None:
        self._brokers = brokers
        self._within_s = within_s
        self._wait_s = min(wait_s, within_s)
        self._lock = threading.Lock()  # guards the two below
        self._known: dict[str, _Found] = {}
        self._look: _Look | None = None

    def activities(
        self, sinks: Collection[str], infos: Callable[[], Mapping[str, ConnectorInfo]]
    ) -> dict[str, Activity]:
        """The lag of these sinks with its age, as far as it is known; `infos` is asked only if they are looked up.

        Errors: those of `infos`.
        """
        look = self._due_look(sinks)
        if look is not None:
            try:
                found = infos()
            except BaseException:
                look.is_over.set()
                raise
            self._begin(look, [found[name] for name in sinks if name in found])
        with self._lock:
            look, is_new = self._look, any(name not in self._known for name in sinks)
        if look is not None and is_new:
            look.is_over.wait(max(0.0, look.began_s + self._wait_s - time.monotonic()))
        with self._lock:
            return {name: self._known[name].activity for name in sinks if name in self._known}

    def of(self, info: ConnectorInfo) -> SinkLag:
        """The lag of one sink by now, or why it is not known. Errors: none."""
        look = _Look()
        self._begin(look, [info])
        if not look.is_over.wait(self._within_s):
            return SinkLag(problem=f"the brokers did not tell it within {self._within_s:g} s")
        with self._lock:
            return self._known[info.name].lag

    def _due_look(self, sinks: Collection[str]) -> _Look | None:
        """A look to begin; None while another lasts, and where all is known and new."""
        due_s = time.monotonic() - _EVERY_S
        with self._lock:
            if self._look is not None and not self._look.is_over.is_set():
                return None
            if all(name in self._known and self._known[name].asked_s > due_s for name in sinks):
                return None
            self._look = _Look()
            return self._look

    def _begin(self, look: _Look, infos: Collection[ConnectorInfo]) -> None:
        threading.Thread(target=self._run, args=(look, infos), name="broker-lags", daemon=True).start()

    def _run(self, look: _Look, infos: Collection[ConnectorInfo]) -> None:
        at_ms = int(time.time() * 1000)
        try:
            found = self._read(infos)
        except (ConnectError, FileNotFoundError) as err:  # the file of a worker
            found = _all_unknown(infos, redact(str(err)))
        except Exception as err:  # thread top; a page is shown without the number
            log.exception("The lag of sinks was not looked up")
            found = _all_unknown(infos, redact(f"{type(err).__name__}: {err}"))
        now_s = time.monotonic()
        with self._lock:
            new = {name: _Found(lag, at_ms, now_s) for name, lag in found.items()}
            kept = {name: each for name, each in self._known.items() if now_s - each.asked_s < _KEPT_S}
            self._known = kept | new
        look.is_over.set()

    def _read(self, infos: Iterable[ConnectorInfo]) -> dict[str, SinkLag]:
        """Errors: ConnectError, FileNotFoundError: of what is the same for all sinks."""
        # Imported here: clusters whose workers tell it need none of it
        from kconnect.admin.direct.read.connector_offsets import read_lags

        access = self._brokers()
        access = replace(access, timeout_s=min(access.timeout_s, self._within_s))
        access.raise_if_refused()
        return read_lags(access, infos)


@dataclass(frozen=True, slots=True)
class _Found:
    """`asked_s`: by the monotonic clock, when the look ended."""

    lag: SinkLag
    at_ms: int
    asked_s: float

    @property
    def activity(self) -> Activity:
        total = self.lag.total
        return Activity(FlowMetrics(lag=total), lag_at_ms=None if total is None else self.at_ms)


@dataclass(slots=True)
class _Look:
    began_s: float = field(default_factory=time.monotonic)
    is_over: threading.Event = field(default_factory=threading.Event)


def _all_unknown(infos: Iterable[ConnectorInfo], problem: str) -> dict[str, SinkLag]:
    return {info.name: SinkLag(problem=problem) for info in infos}
