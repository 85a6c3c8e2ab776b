"""How many slots to run on a cluster as executors register, and which slots cannot reach the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kconnect.spark.executors import Executor, RunningSlot, expected_slots, registration_wait_s, usable_slots
from kconnect.spark.settings import SparkSettings

# A standalone cluster allocates its executors almost at once, and does not say how many there will be.
_SETTLED_S = 1.0


@dataclass(slots=True)
class SlotTarget:
    """The target slot count, from the executors seen; time is passed in. One owner."""

    settings: SparkSettings
    count: int = 0
    """Target slot count; never decreases, since a lost executor may come back."""
    problem: str | None = None
    """Why there is no executor to run in; None when there is one."""
    _began_s: float | None = None
    _seen: tuple[int, float] = field(default=(0, 0.0))

    def look(self, executors: list[Executor], now_s: float) -> int:
        """The target for the executors registered now. 0 while it is better to wait for more.

        Slots submitted together spread over the executors, and so do the first tasks.
        """
        room = usable_slots(executors)
        if self._began_s is None:
            self._began_s, self._seen = now_s, (room, now_s)
        if self._seen[0] != room:
            self._seen = (room, now_s)
        waited_s = now_s - self._began_s
        if self.count or self._is_complete(room, now_s) or waited_s >= registration_wait_s(self.settings.spark):
            self.count = self.settings.slots or max(self.count, room - (self.settings.query_cores or 0), 1)
        self.problem = self._problem(executors, room, now_s - self._seen[1])
        return self.count

    def _is_complete(self, room: int, now_s: float) -> bool:
        expected = expected_slots(self.settings.spark)
        wanted = min((bound for bound in (self.settings.slots, expected) if bound is not None), default=None)
        if wanted is not None and room >= wanted:
            return True
        on_standalone = self.settings.spark.get("spark.master", "").startswith("spark://")
        return on_standalone and room > 0 and now_s - self._seen[1] >= _SETTLED_S

    def _problem(self, executors: list[Executor], room: int, since_s: float) -> str | None:
        """`since_s`: how long `room` is unchanged. A lost executor has as long to return as the first to register."""
        wait_s = registration_wait_s(self.settings.spark)
        if room or since_s < wait_s:
            return None
        master = self.settings.spark.get("spark.master")
        if executors:
            return f"Spark has excluded all {len(executors)} executors of {master} (spark.excludeOnFailure.*)"
        return (
            f"{master} has given this worker no executor in {wait_s:g} s: it has no free core or too little memory "
            "(spark.executor.memory), or its executors cannot reach spark.driver.host"
        )


@dataclass(slots=True)
class UnreachableSlots:
    """Finds slots that Spark runs but that never say hello: their executors cannot reach us. One owner."""

    settings: SparkSettings
    address: str
    _since_s: dict[RunningSlot, float] = field(default_factory=dict)

    def look(self, silent: Mapping[int, RunningSlot], now_s: float) -> str | None:
        """What keeps `silent` slots, which run but have no link, from connecting; None while they still may."""
        self._since_s = {running: self._since_s.get(running, now_s) for running in silent.values()}
        # The slot itself gives up after the whole timeout; Python takes some seconds to start on a busy executor.
        patience_s = self.settings.start_timeout_s / 2
        late = sorted(slot for slot, running in silent.items() if now_s - self._since_s[running] >= patience_s)
        if not late:
            return None
        return (
            f"Slot {late[0]} runs in executor {silent[late[0]].executor} but has not reached this worker "
            f"at {self.address} in {patience_s:.0f} s. "
            "Set kconnect.link.advertised.host and kconnect.link.port to what executors can reach"
        )
