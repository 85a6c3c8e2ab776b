"""A cluster's executors: how many slots they carry, how many are to come, and where the next slot goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Executor", "executors_of", "expected_slots", "freest", "registration_wait_s", "usable_slots"]

_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
# Spark's own default of spark.scheduler.maxRegisteredResourcesWaitingTime
_REGISTRATION_WAIT_S: Final = 30.0
# Spark's own default of spark.executor.instances, on YARN and Kubernetes
_INSTANCES: Final = 2


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor. `slots`: how many tasks Spark runs in it at once; `excluded`: Spark gives it none at present."""

    id: str
    host: str
    slots: int
    excluded: bool = False

    @property
    def location(self) -> str:
        """How Spark spells a wish to run in it. Source: o.a.spark.scheduler.TaskLocation."""
        return f"executor_{self.host}_{self.id}"


def executors_of(summaries: Iterable[Mapping[str, Any]]) -> list[Executor]:
    """The living executors in what Spark's status store tells; the driver is none.

    Source: o.a.spark.status.api.v1.ExecutorSummary.
    """
    return [
        Executor(told["id"], told["hostPort"].rpartition(":")[0], int(told["maxTasks"]), bool(told["isExcluded"]))
        for told in summaries
        if told["id"] != "driver" and told["isActive"]
    ]


def usable_slots(executors: Iterable[Executor]) -> int:
    """How many slots run at once."""
    return sum(executor.slots for executor in executors if not executor.excluded)


def freest(executors: Sequence[Executor], homes: Mapping[int, str]) -> Executor | None:
    """Where the next slot goes: the executor with the fewest slots that has room for one; None when all are full.

    `homes`: the executor of each slot that has one, by its id.
    """
    taken = Counter(homes.values())
    free = [executor for executor in executors if not executor.excluded and taken[executor.id] < executor.slots]
    return min(
        free, key=lambda executor: (taken[executor.id], taken[executor.id] - executor.slots, executor.id), default=None
    )


def expected_slots(spark: Mapping[str, str]) -> int | None:
    """How many slots the settings promise once all executors are there; None when they do not say."""
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
    told = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
    if told is None or told[2] not in _SECONDS:
        return _REGISTRATION_WAIT_S
    return int(told[1]) * _SECONDS[told[2]]


def _number(spark: Mapping[str, str], key: str, default: int) -> int:
    text = spark.get(key, "")
    return int(text) if text.isdigit() else default
