"""A cluster to look at in a browser: workers with connectors, an hour of rates, lines in the log, something wrong.

Real herders, REST servers and consoles; tasks, topics and the group are in memory, and what tasks did is made up.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kconnect.admin.console import worker_console
from kconnect.client import ConnectClient
from kconnect.logs.log_context import log_context
from kconnect.model import RunState, TaskId
from kconnect.runtime.herder.interface import ExecutorInfo, RuntimeInfo, SlotInfo
from kconnect.runtime.metrics import Spread, TaskCounters, TaskMeter
from kconnect.runtime.metrics.history import EVERY_S, KEPT, SlotLoad
from kconnect.runtime.rest import RestOptions
from kit.memory_herder import file_source
from kit.rest_cluster import ClusterWorker, RestCluster, rest_cluster
from kit.waiting import eventually

TRACE = """org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:635)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: psycopg.OperationalError: connection to server at "db.internal" (10.0.4.17), port 5432 failed
\tat kconnect.builtin.connectors.sql.sql_sink.put(sql_sink.py:214)
"""


@dataclass
class ConsoleWorld:
    """`names`: its connectors; `rate` of each, in records per second at its best."""

    cluster: RestCluster
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def workers(self) -> list[ClusterWorker]:
        return self.cluster.workers

    @property
    def url(self) -> str:
        return self.workers[0].url

    def create(self, name: str, **settings: str) -> None:
        """A connector, RUNNING when this returns."""
        with ConnectClient(self.url) as client:
            client.put_connector_config(name, file_source(**settings))

            def runs() -> bool:
                status = client.connector_statuses().get(name)
                return status is not None and [task.state for task in status.tasks] == [RunState.RUNNING]

            eventually(runs, 10, f"{name} runs")

    def fail(self, name: str, trace: str = TRACE) -> None:
        """Its task is FAILED."""
        for worker in self.workers:
            for spec in [spec for task_id, spec in list(worker.launcher.tasks.items()) if task_id.connector == name]:
                worker.launcher.events.task_status(spec.id, spec.run, RunState.FAILED, trace)

    def live_an_hour(self, until_s: float | None = None) -> None:
        """Samples of the last hour, as the workers' samplers would have taken them, and slots that cost something."""
        now_s = (time.time() if until_s is None else until_s) // EVERY_S * EVERY_S
        for number, worker in enumerate(self.workers):
            tasks = {task_id: TaskMeter(1, 0.0) for task_id in worker.launcher.tasks}
            _give_slots(worker, number)
            totals = dict.fromkeys(tasks, 0.0)
            for tick in range(KEPT):
                for task_id, meter in tasks.items():
                    totals[task_id] += self.rates.get(task_id.connector, 0.0) * _wave(task_id, tick) * EVERY_S
                    meter.add(tick * EVERY_S, _counters(int(totals[task_id]), task_id, tick))
                loads = [SlotLoad(slot, 20 + 15 * math.sin(tick / 20 + slot), 210_000_000 + 40_000 * tick, 1)
                         for slot in range(2)]  # fmt: skip
                at_ms = int(now_s - (KEPT - 1 - tick) * EVERY_S) * 1000
                worker.herder.history().sample(tick * EVERY_S + 1, at_ms, tasks, loads)

    def say(self, number: int, text: str, level: int = logging.INFO, *, connector: str | None = None) -> None:
        """A line in the log of one worker."""
        logger = logging.Logger("kconnect.runtime.pipeline.source" if connector else "kconnect.runtime.herder.cluster")
        logger.addHandler(self.workers[number].herder.log_tail().handler)
        with log_context(connector, 0 if connector else None):
            logger.log(level, text)


@contextmanager
def console_world(
    rates: Mapping[str, float],
    *,
    workers: int = 2,
    options: RestOptions | None = None,
    settings: Mapping[str, str] = {},
) -> Iterator[ConsoleWorld]:
    """Workers with a source for each name, all RUNNING."""
    with rest_cluster({"bootstrap.servers": "localhost:9092", **settings}) as cluster:
        for _ in range(workers):
            cluster.add(options=options, console=worker_console)
        world = ConsoleWorld(cluster, rates)
        for name in rates:
            world.create(name)
        yield world


def _give_slots(worker: ClusterWorker, number: int) -> None:
    def slots() -> list[SlotInfo]:
        ids = sorted(worker.launcher.tasks)
        return [
            SlotInfo(slot, True, f"node-{number + 1}.internal", 4200 + slot, tuple(ids[slot::2]),
                     f"kconnect-slot-{slot}", str(slot + 1), 312.5, 18.0 + 7 * slot, 224_000_000)
            for slot in range(2)
        ]  # fmt: skip

    executors = tuple(ExecutorInfo(str(slot + 1), f"node-{number + 1}.internal", 1) for slot in range(2))
    spark = RuntimeInfo("spark://spark.internal:7077", "4.1.0", f"app-20261123-000{number}", None, executors)
    worker.launcher.slots = slots  # type: ignore[method-assign]
    worker.launcher.runtime = lambda: spark  # type: ignore[method-assign]


def _wave(task_id: TaskId, tick: int) -> float:
    phase = sum(task_id.connector.encode()) % 60
    return max(0.0, 0.7 + 0.25 * math.sin((tick + phase) / 18) + 0.05 * math.sin(tick * 1.7))


def _counters(records: int, task_id: TaskId, tick: int) -> TaskCounters:
    counters = TaskCounters(records_polled=records, records_written=records, bytes_sent=records * 180)
    counters.poll_ms = Spread(tick, tick * 11.0 + 2.0 * math.sin(tick / 9), 18.0 + 6 * math.sin(tick / 7))
    counters.errors = tick // 90 if "payments" in task_id.connector else 0
    counters.lag_most = max(0, int(4000 * math.sin(tick / 40))) if "payments" in task_id.connector else 0
    return counters
