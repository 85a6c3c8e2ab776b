"""What happens to a cluster, and when: a plan that is drawn from a seed, and the hands that carry it out."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from kconnect.java.devbroker import DevBroker
from kit.chaos.service import Service, slots_below
from kit.spark_cluster import SparkCluster

__all__ = ["KINDS", "ON_SPARK", "Action", "Harm", "drawn"]

KINDS = ("worker", "slot", "broker", "freeze", "freeze-worker", "freeze-broker")
"""kill -9 of a worker, of a slot; kill -9 or stop of the broker, and its start; SIGSTOP of a worker with all its
processes, of the worker's process alone, of the broker.

Where transactions are open a broker is only killed. One run stopped its only broker (Kafka 4.3) in good order while
tasks wrote: afterwards __transaction_state had CompleteCommit for transactions whose partitions have no marker behind
their records, and readers of what is committed stood there for good. Why the broker does that is not known."""
ON_SPARK = (*KINDS, "executor")
"""On a Spark cluster also kill -9 of an executor, with all slots in it."""


@dataclass(frozen=True, slots=True)
class Action:
    """One harm: when, in seconds after the beginning, of which kind, and a number that chooses whom."""

    at_s: float
    kind: str
    choose: int


def drawn(seed: int, duration_s: float, every_s: float, kinds: Sequence[str]) -> list[Action]:
    """An action every so many seconds; each kind comes as often as any other, in an order of chance."""
    chance = random.Random(seed)
    actions: list[Action] = []
    bag: list[str] = []
    at_s = every_s
    while at_s < duration_s:
        if not bag:
            bag = list(kinds)
            chance.shuffle(bag)
        actions.append(Action(at_s, bag.pop(), chance.randrange(1 << 16)))
        at_s += every_s
    return actions


class Harm:
    """Carries actions out on the thread that calls; what lasts (a frozen worker) is ended by `tend`."""

    def __init__(
        self,
        broker: DevBroker,
        services: Sequence[Service],
        freeze_s: float,
        say: Callable[[str], None],
        spark: SparkCluster | None = None,
        *,
        stops_broker: bool = True,
    ) -> None:
        self._broker = broker
        self._stops_broker = stops_broker  # in good order, every second time
        self._spark = spark
        self._services = services
        self._freeze_s = freeze_s
        self._say = say
        self._thaw_at: dict[str, float] = {}
        self._thaw_broker_at = float("inf")
        self.done: dict[str, int] = {}

    def do(self, action: Action) -> None:
        """Do it; what cannot be done to the one chosen is done to the next."""
        if action.kind == "freeze-broker":
            self._freeze_broker()
            self._note(action, "broker")
            return
        if action.kind == "broker":
            self._thaw_broker()
            is_killed = action.choose % 2 == 0 or not self._stops_broker
            self._restart_broker(is_killed=is_killed)
            self._note(action, "broker, killed" if is_killed else "broker, stopped")
            return
        if self._spark is not None and action.kind in ("executor", "slot"):
            self._strike_spark(self._spark, action)
            return
        count = len(self._services)
        for step in range(count):
            service = self._services[(action.choose + step) % count]
            if not service.is_frozen and self._strike(action, service):
                self._note(action, service.name)
                return
        self._say(f"{action.at_s:6.1f} s  {action.kind}: nobody to do it to")

    def tend(self) -> None:
        """Call this often: services are kept up, who was frozen long enough is thawed."""
        if self._thaw_broker_at <= time.monotonic():
            self._thaw_broker()
            self._say("          the broker goes on")
        for service in self._services:
            service.keep_up()
            if self._thaw_at.get(service.name, float("inf")) <= time.monotonic():
                del self._thaw_at[service.name]
                service.thaw()
                self._say(f"          {service.name} goes on")

    def end(self) -> None:
        """Nobody stays frozen."""
        self._thaw_broker()
        for service in self._services:
            service.thaw()
        self._thaw_at.clear()

    def _strike(self, action: Action, service: Service) -> bool:
        match action.kind:
            case "worker":
                return service.kill()
            case "slot":
                return service.kill_slot(action.choose >> 4)
            case "freeze" | "freeze-worker":
                if not service.freeze(whole=action.kind == "freeze"):
                    return False
                self._thaw_at[service.name] = time.monotonic() + self._freeze_s
                return True
        raise ValueError(f"{action.kind} is none of {KINDS}")

    def _strike_spark(self, spark: SparkCluster, action: Action) -> None:
        """Kill an executor, or a slot in one."""
        found = spark.executors()
        if action.kind == "slot":
            found = [slot for executor in found for slot in slots_below(executor.pid)]
        if not found:
            self._say(f"{action.at_s:6.1f} s  {action.kind}: nobody to do it to")
            return
        victim = found[action.choose % len(found)]
        with suppress(psutil.NoSuchProcess):  # it ended just now by itself
            victim.kill()
            self._note(action, f"process {victim.pid}")

    def _freeze_broker(self) -> None:
        assert self._broker.pid is not None
        os.kill(self._broker.pid, signal.SIGSTOP)
        self._thaw_broker_at = time.monotonic() + self._freeze_s

    def _thaw_broker(self) -> None:
        if self._thaw_broker_at < float("inf") and self._broker.pid is not None:
            os.kill(self._broker.pid, signal.SIGCONT)
        self._thaw_broker_at = float("inf")

    def _restart_broker(self, *, is_killed: bool) -> None:
        if is_killed:
            self._broker.kill()
        else:
            self._broker.stop()
        threading.Event().wait(1.0)  # the outage itself
        self._broker.start()

    def _note(self, action: Action, whom: str) -> None:
        self.done[action.kind] = self.done.get(action.kind, 0) + 1
        self._say(f"{action.at_s:6.1f} s  {action.kind}: {whom}")
