"""Spark's JVM collects garbage every half hour from the first query on, and not without queries."""

from __future__ import annotations

import threading
from pathlib import Path

from kconnect.clock import SystemClock
from kconnect.spark.query.engine import JvmCollections
from kconnect.spark.settings import SparkSettings, spark_conf
from kit.waiting import eventually


class QuickClock(SystemClock):
    """Lets each of the first waits pass at once; the next one is over when the event is set."""

    def __init__(self, quick: int) -> None:
        self.waited_s: list[float] = []
        self._quick = quick

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waited_s.append(timeout_s)
        return event.wait(0.0 if len(self.waited_s) <= self._quick else timeout_s)


def test_it_collects_every_half_hour_until_it_is_stopped_whatever_fails() -> None:
    clock, collected = QuickClock(3), 0

    def collect() -> None:
        nonlocal collected
        collected += 1
        raise ConnectionError("the JVM has ended")

    collections = JvmCollections(collect, clock)
    collections.start()
    eventually(lambda: len(clock.waited_s) == 4, 10, "three waits are over")
    collections.stop()
    assert (collected, set(clock.waited_s)) == (3, {1800.0})
    assert not any(thread.name == "query-collections" for thread in threading.enumerate())


def test_spark_itself_collects_for_queries_only_where_that_is_configured() -> None:
    key = "spark.cleaner.periodicGC.interval"
    assert spark_conf(SparkSettings.parse({}), Path("/nowhere"))[key] == "36500d"
    assert spark_conf(SparkSettings.parse({key: "5min"}), Path("/nowhere"))[key] == "5min"
