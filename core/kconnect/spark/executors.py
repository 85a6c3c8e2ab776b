"""A cluster's executors: how many slots they hold, how many are expected, and where the next slot goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
