"""Outages in a row, of broker, workers and slots, while an observer counts records and asks everybody. `make outages`.

While an outage lasts nobody may say RUNNING or healthy for longer than is documented. After each of them all must agree
with what really runs: REST, /health, /metrics, the commands, the group, the status topic. At the end every number is
counted. The seed is printed, `--seed` draws the same outages again. Ends with 1 when somebody said what is not so.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.chaos.account import account_of, delivered
from kit.chaos.cluster import SINK
from kit.chaos.program import Say, options_of, run_program
from kit.outages.actions import Action, Strike, drawn
from kit.outages.flow import Flow, Task
from kit.outages.judge import Claims, disagreements, side_by_side
from kit.outages.words import COMMANDS, Word, command_word, group_words, worker_words
from kit.outages.world import ALONE_TOPIC, HEARTBEAT_S, SESSION_S, SLOT_TIMEOUT_S, World
from kit.pace import now, pace

__all__ = ["Outcome", "Plan", "outages"]

_LOOK_EVERY_S = 0.5
# What it takes to ask, and to be answered, on a machine that five processes of ours keep busy
_MARGIN_S = 2.5
# A busy machine stretches the bounds by so much at most: on a slower one outages would last for minutes
_MOST = 2.0
# Two heartbeats until a worker knows that Kafka is away; a session until a group knows that a worker is; a slot's own
# time until its worker knows
_BOUND_S = {
    "broker": 2 * HEARTBEAT_S + _MARGIN_S,
    "worker": SESSION_S + 2 * HEARTBEAT_S + _MARGIN_S,
    "slot": SLOT_TIMEOUT_S + HEARTBEAT_S + _MARGIN_S,
    "network": SESSION_S + 2 * HEARTBEAT_S + _MARGIN_S,
    "rest": SESSION_S + 2 * HEARTBEAT_S + _MARGIN_S,
}
# A sink whose group has lost a member waits for its session to end, and for the next round of the group
_SINK_MORE_S = SESSION_S + 2 * HEARTBEAT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """So many outages, each a while longer than the bound after which nobody may say RUNNING any more."""

    seed: int
    count: int = 30
    beyond_s: float = 3.0
    recover_s: float = 60.0
    start_s: float = 120.0


@dataclass(slots=True)
class Outcome:
    """What was done, what was said that is not so, and what is lost."""

    plan: Plan
    done: list[str] = field(default_factory=list)
    agreed_after_s: list[float] = field(default_factory=list)
    """From the end of each outage until everybody said what is."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each source was asked."""
    false: list[str] = field(default_factory=list)
    records: int = 0
    lost: int = 0
    sink_lost: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.false and self.records > 0 and self.lost == self.sink_lost == 0

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.plan.seed, "asked": dict(self.asked)} | {
            name: getattr(self, name)
            for name in ("done", "agreed_after_s", "false", "records", "lost", "sink_lost", "examples")
        }

    def table(self) -> str:
        """For people."""
        took = sorted(self.agreed_after_s) or [0.0]
        kinds = "; ".join(f"{count} x {kind}" for kind, count in sorted(Counter(self.done).items()))
        rows = [
            ("outages", f"{len(self.done)}: {kinds}"),
            ("words taken", f"{sum(self.asked.values())} of {len(self.asked)} sources"),
            ("false", len(self.false)),
            ("all agreed again after", f"{took[len(took) // 2]:.1f} s (median), {took[-1]:.1f} s (longest)"),
            ("records", self.records),
            ("lost by sources, by the sink", f"{self.lost}, {self.sink_lost}"),
            ("seed", self.plan.seed),
        ]
        message = "".join(f"{title:<32}{value}\n" for title, value in rows)
        return message + "".join(f"! {text}\n" for text in [*self.false, *self.examples])


def outages(folder: Path, plan: Plan, say: Say) -> Outcome:
    """Run it. Errors: AssertionError when all do not agree in time after an outage, with everybody's word."""
    outcome = Outcome(plan)
    with World(folder) as world, ThreadPoolExecutor(3, "outages-ask") as pool:
        world.start(plan.start_s)
        with world.flow() as flow:
            observer = Observer(world, flow, pool, outcome, folder / "home")
            observer.await_agreement("after the start", plan.start_s)
            say(f"two workers and a standalone one run; {plan.count} outages, seed {plan.seed}")
            for number, action in enumerate(drawn(plan.seed, plan.count), 1):
                _suffer(world, observer, action, number, plan, say)
            _account(world, plan, outcome)
    return outcome


def _suffer(world: World, observer: Observer, action: Action, number: int, plan: Plan, say: Say) -> None:
    """One outage, from its beginning until all agree again."""
    outcome, false_before = observer.outcome, len(observer.outcome.false)
    strike = Strike(world, action)
    whom = strike.begin()
    observer.watch(action, plan.beyond_s)
    strike.end()
    began = time.monotonic()
    observer.await_agreement(f"after outage {number} ({action}, {whom})", plan.recover_s)
    outcome.done.append(str(action))
    outcome.agreed_after_s.append(time.monotonic() - began)
    say(
        f"{number:3}  {action!s:<26}{whom:<18} all agree {outcome.agreed_after_s[-1]:5.1f} s after its end; "
        f"bounds x {observer.stretch:.1f}"
    )
    for text in outcome.false[false_before:]:
        say(f"     ! {text}")


class Observer:
    """Asks everybody, again and again, and holds it against what flows."""

    def __init__(self, world: World, flow: Flow, pool: ThreadPoolExecutor, outcome: Outcome, home: Path) -> None:
        self._world, self._flow, self._pool, self._home = world, flow, pool, home
        self.outcome = outcome
        self.stretch = 1.0
        """How many times as long as documented the bounds are, because the machine is busy."""
        self._claims = Claims()
        self._action: Action | None = None
        self._pause = threading.Event()
        self._round = 0
        home.mkdir(exist_ok=True)

    def watch(self, action: Action, beyond_s: float) -> None:
        """While an outage lasts, some time beyond its bound: nobody says RUNNING or healthy for longer than that.

        Commands are asked at its end. The bounds hold until the next one.
        """
        self._action, self.stretch = action, 1.0
        began = time.monotonic()
        while time.monotonic() < self._ends_at(began) + beyond_s:
            self._judge(self._look(), began)
            self._pause.wait(_LOOK_EVERY_S)
        self._judge([*self._look(), *self._commands()], began)

    def _ends_at(self, began: float) -> float:
        """The moment from which on everybody has to know."""
        self.stretch = max(self.stretch, min(_MOST, pace.slowness))
        return began + (_BOUND_S[self._action.what] * self.stretch if self._action is not None else 0.0)

    def await_agreement(self, when: str, within_s: float) -> None:
        """Wait until all say what is, commands last. Errors: AssertionError with each one's word side by side."""
        deadline, world = now() + within_s, self._world
        while True:
            for worker in world.workers:
                worker.keep_up()
            before, words = self._flow.counts(), self._look()
            self._pause.wait(_LOOK_EVERY_S)
            reported = self._disagreements(words, before)
            if not reported:
                words += self._commands()
                reported = self._disagreements(words, before)
            self._judge(words)
            if not reported:
                return
            assert now() < deadline, (
                f"Not all agree {within_s:g} s {when}:\n  "
                + "\n  ".join(reported)
                + "\n\n"
                + self._table([*words, *self._commands()])
                + "\n\n"
                + "\n\n".join(f"{worker.name}: {worker.tail()}" for worker in world.workers)
            )

    def _look(self) -> list[Word]:
        """What can be asked often: every worker that runs."""
        world = self._world
        asked = [worker for worker in world.workers if worker.is_running and not worker.is_frozen]
        for worker in world.workers:
            if worker not in asked:
                self._claims.forget(worker.name)
        found = self._pool.map(lambda worker: worker_words(worker, world.tasks_of(worker)), asked)
        return self._counted([word for words in found for word in words])

    def _commands(self) -> list[Word]:
        """Each command asks one of the workers, another one each time."""
        world, group = self._world, self._world.services[0]
        asked = [worker for worker in world.workers if worker.is_running and not worker.is_frozen]
        self._round += 1
        words = []
        for number, name in enumerate(COMMANDS):
            worker = asked[(self._round + number) % len(asked)]
            words.append(command_word(name, worker, world.tasks_of(worker), self._home))
        return self._counted([*words, *group_words(group, world.tasks_of(group), self._home)])

    def _counted(self, words: list[Word]) -> list[Word]:
        self.outcome.asked.update(word.source for word in words)
        return words

    def _judge(self, words: Sequence[Word], broker_lost_at: float | None = None) -> None:
        if self._action is None:
            return
        tasks = self._world.tasks
        bound_s = _BOUND_S[self._action.what]
        bounds = {task: (bound_s + (_SINK_MORE_S if task[0] == SINK else 0.0)) * self.stretch for task in tasks}
        last_at = {task: self._flow.last_at(task) for task in tasks}
        for word in words:
            reported = self._claims.false(word, last_at, bounds)
            if broker_lost_at is not None and self._action.what == "broker" and word.says_well:
                late_s = word.at - self._ends_at(broker_lost_at)
                reported += (
                    [f"{word.source} says {word.note}, {late_s:.1f} s after it had to know better"]
                    if late_s > 0
                    else []
                )
            if reported:
                self.outcome.false += reported
                self.outcome.examples.append(self._table(words))

    def _disagreements(self, words: Sequence[Word], before: Mapping[Task, int]) -> list[str]:
        world, counts = self._world, self._flow.counts()
        moving = [task for task in world.tasks if counts[task] > before[task]]
        ids = {worker.name: worker.worker_id for worker in world.workers}
        reported = disagreements(words, moving, world.tasks, ids)
        return reported + [f"{worker.name} does not run" for worker in world.workers if not worker.is_running]

    def _table(self, words: Sequence[Word]) -> str:
        return side_by_side(words, self._flow.counts(), self._world.tasks)


def _account(world: World, plan: Plan, outcome: Outcome) -> None:
    """Stop the sources, let the sink read all, and count."""
    found = world.account(plan.recover_s)
    world.alone.stop()
    of_alone = delivered(world.broker.bootstrap, ALONE_TOPIC, committed_only=False)
    alone = account_of(of_alone, Counter(), {}, world.shape.source_tasks)
    outcome.records = found.records + alone.records
    outcome.lost, outcome.sink_lost = found.lost + alone.lost, found.sink_lost
    outcome.examples += [*found.examples, *(text for text in alone.examples if text.startswith("source"))]


def main() -> int:
    parser = options_of(__doc__ or "")
    parser.add_argument("--count", type=int, default=30, help="how many outages")
    options = parser.parse_args()
    plan = Plan(seed=options.seed, count=options.count)
    return run_program("outages", options, lambda folder, say: outages(folder, plan, say))


if __name__ == "__main__":
    sys.exit(main())
