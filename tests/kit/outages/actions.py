"""Outages as a plan that a seed draws, and the hands that begin and end one."""

from __future__ import annotations

import random
import signal
import threading
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, product

import psutil

from kit.chaos.service import Service
from kit.outages.world import World

__all__ = ["HOW", "WHAT", "Action", "Strike", "drawn"]

WHAT = ("broker", "worker", "slot")
HOW = ("kill", "freeze", "stop")
"""SIGKILL; SIGSTOP and, at its end, SIGCONT; SIGTERM."""
KINDS = (
    *product(WHAT, HOW),
    ("broker", "freeze twice"),
    ("broker", "freeze at a start"),
    ("network", "cut"),
    ("rest", "cut"),
)
"""All that happens: also a broker that stands still with requests on their way, wakes for a moment and stands still
again; one that stands still some seconds after a worker was started; what one worker and its slots say to the broker
does not come through; what the other worker says to its REST does not."""


# A broker may stand still at any moment of a worker's start
_YOUNG_S = 10


@dataclass(frozen=True, slots=True)
class Action:
    """One outage: of what, how, and a number that chooses whom."""

    what: str
    how: str
    choose: int

    def __str__(self) -> str:
        return f"{self.what}, {self.how}"


def drawn(seed: int, count: int) -> list[Action]:
    """So many actions, each kind as often as any other; from ten on, each kind of victim comes after each."""
    chance = random.Random(seed)
    while True:
        bag: list[tuple[str, str]] = []
        while len(bag) < count:
            kinds = list(KINDS)
            chance.shuffle(kinds)
            bag += kinds
        actions = [Action(what, how, chance.randrange(1 << 16)) for what, how in bag[:count]]
        if count < 18 or _orders(actions) >= set(product(WHAT, WHAT)):
            return actions


def _orders(actions: Sequence[Action]) -> set[tuple[str, str]]:
    return {(first.what, then.what) for first, then in pairwise(actions)}


class Strike:
    """Carries one action out."""

    def __init__(self, world: World, action: Action) -> None:
        self._world, self._action = world, action
        self._undo: Callable[[], None] = lambda: None

    def begin(self) -> str:
        """Gives who it was done to."""
        action, workers = self._action, self._world.workers
        if action.what == "broker":
            return self._broker()
        if action.what in ("network", "rest"):
            return self._cut(action.choose % len(self._world.services))
        worker = workers[action.choose % len(workers)]
        assert worker.is_running, f"{worker.name} does not run before the outage"
        if action.what == "worker":
            self._worker(worker)
        else:
            self._slot(worker)
        return worker.name

    def end(self) -> None:
        """What was stopped goes on; what was killed may start again, which a worker does when it is kept up."""
        self._undo()

    def _broker(self) -> str:
        broker, whom = self._world.broker, "broker"
        match self._action.how:
            case "freeze":
                self._undo = self._world.freeze_broker()
            case "freeze twice":
                self._undo = self._again(self._freeze_with_requests())
            case "freeze at a start":
                services = self._world.services
                young = services[self._action.choose % len(services)]
                young.kill()
                young.start()
                threading.Event().wait(self._action.choose % _YOUNG_S)
                whom = f"broker, {young.name}"
                self._undo = self._world.freeze_broker()
            case "kill":
                broker.kill()
                self._undo = broker.start
            case _:
                broker.stop()
                self._undo = broker.start
        return whom

    def _freeze_with_requests(self) -> Callable[[], None]:
        """With some on their way that only Kafka can answer."""
        thaw = self._world.freeze_broker()
        for service in self._world.workers:
            if service.is_running:
                for path in ("/connectors/chaos-source/offsets", "/connectors/chaos-sink/offsets"):
                    threading.Thread(target=_ask, args=(f"{service.url}{path}",), daemon=True).start()
        return thaw

    def _again(self, thaw: Callable[[], None]) -> Callable[[], None]:
        def undo() -> None:
            thaw()
            threading.Event().wait(self._action.choose % 20 / 10)
            thaw_again = self._freeze_with_requests()
            threading.Event().wait(2 + self._action.choose % 5)
            thaw_again()

        return undo

    def _cut(self, number: int) -> str:
        relays = self._world.to_broker if self._action.what == "network" else self._world.to_rest
        relays[number].cut()
        self._undo = relays[number].repair
        return self._world.services[number].name

    def _worker(self, worker: Service) -> None:
        match self._action.how:
            case "kill":
                worker.kill()
            case "stop":
                worker.terminate()
            case _:
                worker.freeze(whole=True)
                self._undo = worker.thaw

    def _slot(self, worker: Service) -> None:
        slots = worker.slots()
        assert slots, f"{worker.name} has no slot before the outage"
        victim = slots[self._action.choose % len(slots)]
        signals = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}
        victim.send_signal(signals[self._action.how])
        if self._action.how == "freeze":
            self._undo = lambda: _go_on(victim)


def _ask(url: str) -> None:
    with suppress(OSError), urllib.request.urlopen(url, timeout=20) as answer:
        answer.read()


def _go_on(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):  # its worker had given it up, and ended it
        process.send_signal(signal.SIGCONT)
