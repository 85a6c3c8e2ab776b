"""A cluster's executors: how many slots they hold, how many to run, where the next goes, and which cannot reach us."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kconnect.spark.settings import SparkSettings

_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
# Spark's own default of spark.scheduler.maxRegisteredResourcesWaitingTime
_REGISTRATION_WAIT_S: Final = 30.0
# Spark's own default of spark.executor.instances, on YARN and Kubernetes
_INSTANCES: Final = 2


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor. `slots`: how many tasks Spark runs in it at once; `excluded`: Spark currently gives it none."""

    id: str
    host: str
    slots: int
    excluded: bool = False

    @property
    def location(self) -> str:
        """Spark's notation for a preference for this executor. Source: o.a.spark.scheduler.TaskLocation."""
        return f"executor_{self.host}_{self.id}"


class RunningSlot(NamedTuple):
    """A slot that Spark runs: executor id and job id; each start has a new job."""

    executor: str
    job: int


def executors_of(summaries: Iterable[Mapping[str, Any]]) -> list[Executor]:
    """The live executors in Spark's status store, without the driver.

    Source: o.a.spark.status.api.v1.ExecutorSummary.
    """
    return [
        Executor(
            summary["id"], summary["hostPort"].rpartition(":")[0], int(summary["maxTasks"]), bool(summary["isExcluded"])
        )
        for summary in summaries
        if summary["id"] != "driver" and summary["isActive"]
    ]


def usable_slots(executors: Iterable[Executor]) -> int:
    """How many slots run at once."""
    return sum(executor.slots for executor in executors if not executor.excluded)


class Homes:
    """Which executor each slot is in or being started in, and where starts fail. One owner."""

    def __init__(self) -> None:
        self._homes: dict[int, str] = {}
        self._awaited: dict[int, str] = {}
        """Executors of slots that are starting."""
        self._failed: Counter[str] = Counter()
        """Consecutive failed starts, by executor."""

    def choose(self, slot: int, executors: Iterable[Executor]) -> Executor | None:
        """The executor to start a slot in: the one with room and the fewest slots; None when all are full.

        Executors in which slots come up are preferred: on a host that lacks a package none ever does.
        """
        living = list(executors)
        self._homes.pop(slot, None)
        if tried := self._awaited.pop(slot, None):
            self._failed[tried] += 1
        self._failed = Counter({executor.id: self._failed[executor.id] for executor in living})
        taken = Counter(self._homes.values())
        free = [executor for executor in living if not executor.excluded and taken[executor.id] < executor.slots]
        home = min(free, key=lambda executor: self._rank(executor, taken[executor.id]), default=None)
        if home is not None:
            self._homes[slot] = self._awaited[slot] = home.id
        return home

    def settled(self, slot: int, executor: str | None) -> None:
        """The slot is up in this executor; None when Spark does not say which."""
        tried = self._awaited.pop(slot, None)
        home = executor or tried
        if home is not None:
            self._homes[slot] = home
            del self._failed[home]

    def _rank(self, executor: Executor, taken: int) -> tuple[int, int, int, str]:
        return self._failed[executor.id], taken, taken - executor.slots, executor.id


def expected_slots(spark: Mapping[str, str]) -> int | None:
    """How many slots the settings promise once all executors have registered; None when they do not say."""
    per_task = _number(spark, "spark.task.cpus", 1)
    cores = _number(spark, "spark.executor.cores", 1)
    master = spark.get("spark.master", "")
    if spark.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        names = ("initialExecutors", "minExecutors")
        first = max(_number(spark, f"spark.dynamicAllocation.{name}", 0) for name in names)
        return max(first, _number(spark, "spark.executor.instances", 0)) * (cores // per_task)
    if limit := _number(spark, "spark.cores.max", 0):
        return limit // per_task
    if master.startswith("spark://"):
        return None
    return _number(spark, "spark.executor.instances", _INSTANCES) * (cores // per_task)


def registration_wait_s(spark: Mapping[str, str]) -> float:
    """How long to wait for executors: Spark's own spark.scheduler.maxRegisteredResourcesWaitingTime."""
    text = spark.get("spark.scheduler.maxRegisteredResourcesWaitingTime", "").lower()
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
    if match is None or match[2] not in _SECONDS:
        return _REGISTRATION_WAIT_S
    return int(match[1]) * _SECONDS[match[2]]


def _number(spark: Mapping[str, str], key: str, default: int) -> int:
    text = spark.get(key, "")
    return int(text) if text.isdigit() else default


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
