"""Three workers, killed again and again while numbers stream through them; then everything is counted. `make chaos`.

`--exactly-once` asks for it of the source; with `--on-spark` slots run on a Spark standalone cluster, whose executors
are killed as well. The seed is printed, `--seed` draws the same harm again. Ends with 1 when anything is lost, or with
exactly-once anything is there twice.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.chaos.account import Account
from kit.chaos.cluster import ChaosCluster, Shape
from kit.chaos.harm import KINDS, ON_SPARK, Harm, drawn
from kit.chaos.program import Say, options_of, run_program

__all__ = ["Outcome", "Plan", "chaos"]

_TEND_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run: harm for `duration_s`, then quiet until everything runs again, within `recover_s` at most."""

    seed: int
    duration_s: float
    every_s: float = 15.0
    freeze_s: float = 20.0
    quiet_s: float = 5.0
    recover_s: float = 120.0
    kinds: tuple[str, ...] = KINDS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, and what came of it."""

    plan: Plan
    shape: Shape
    harm: dict[str, int]
    restarts: int
    rebalances: int
    recovered_s: float
    """From the end of all harm until everything was RUNNING and every source task had committed something more."""
    account: Account

    @property
    def is_good(self) -> bool:
        found = self.account
        lost = found.lost + found.sink_lost
        return found.records > 0 and lost == 0 and not (self.shape.exactly_once and found.duplicates)

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.plan.seed,
            "duration_s": self.plan.duration_s,
            "every_s": self.plan.every_s,
            "exactly_once": self.shape.exactly_once,
            "on_spark": self.shape.on_spark,
            "workers": self.shape.workers,
            "rate": self.shape.rate * self.shape.source_tasks,
            "harm": self.harm,
            "restarts": self.restarts,
            "rebalances": self.rebalances,
            "recovered_s": round(self.recovered_s, 1),
            **self.account.to_json(),
        }

    def table(self) -> str:
        """For people."""
        found = self.account
        rows = [
            ("mode", "exactly-once" if self.shape.exactly_once else "at-least-once"),
            ("Spark", "a standalone cluster" if self.shape.on_spark else "local, below each worker"),
            ("harm", ", ".join(f"{count} x {kind}" for kind, count in sorted(self.harm.items())) or "none"),
            ("workers restarted", self.restarts),
            ("rebalances", self.rebalances),
            ("records in the topic", found.records),
            ("lost by the source", found.lost),
            ("twice by the source", found.duplicates),
            ("lost by the sink", found.sink_lost),
            ("twice by the sink", found.sink_duplicates),
            ("longest gap", f"{found.longest_gap_s:.1f} s; of one task {found.longest_task_gap_s:.1f} s"),
            ("all at work again after", f"{self.recovered_s:.1f} s"),
            ("seed", self.plan.seed),
        ]
        return "".join(f"{title:<26}{value}\n" for title, value in rows) + "".join(f"! {e}\n" for e in found.examples)


def chaos(folder: Path, plan: Plan, shape: Shape, say: Say) -> Outcome:
    """Run it. Errors: AssertionError when the cluster does not come up, or does not recover in time."""
    with ChaosCluster(folder, shape) as cluster:
        cluster.start(plan.recover_s)
        say(f"{shape.workers} workers run; harm for {plan.duration_s:g} s, seed {plan.seed}")
        harm = Harm(
            cluster.broker, cluster.services, plan.freeze_s, say, cluster.spark, stops_broker=not shape.exactly_once
        )
        _harm(plan, harm)
        ended = time.monotonic()
        cluster.await_running(plan.recover_s)
        cluster.await_moving(plan.recover_s)
        recovered_s = time.monotonic() - ended
        say(f"all RUNNING, and every source task commits, after {recovered_s:.1f} s; quiet for {plan.quiet_s:g} s")
        threading.Event().wait(plan.quiet_s)  # the quiet itself: the stream goes on
        account = cluster.account(plan.recover_s)
        return Outcome(
            plan,
            shape,
            harm.done,
            sum(service.restarts for service in cluster.services),
            cluster.rebalances(),
            recovered_s,
            account,
        )


def _harm(plan: Plan, harm: Harm) -> None:
    """All actions of the plan. Its clock stands still while a broker restarts: a slow machine gets no less of them."""
    pause = threading.Event()
    actions = drawn(plan.seed, plan.duration_s, plan.every_s, plan.kinds)
    began = time.monotonic()
    try:
        while (now_s := time.monotonic() - began) < plan.duration_s:
            harm.tend()
            if actions and actions[0].at_s <= now_s:
                harm.do(actions.pop(0))
                began += time.monotonic() - began - now_s
            pause.wait(_TEND_S)
    finally:
        harm.end()


def main() -> int:
    options = _options()
    plan = Plan(
        seed=options.seed,
        duration_s=options.seconds,
        every_s=options.every,
        freeze_s=options.freeze,
        kinds=tuple(options.kinds.split(",")) if options.kinds else ON_SPARK if options.on_spark else KINDS,
    )
    shape = Shape(exactly_once=options.exactly_once, on_spark=options.on_spark, rate=options.rate)
    return run_program("chaos", options, lambda folder, say: chaos(folder, plan, shape, say))


def _options() -> argparse.Namespace:
    parser = options_of(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long the harm lasts")
    parser.add_argument("--every", type=float, default=15.0, help="seconds from one harm to the next")
    parser.add_argument("--freeze", type=float, default=20.0, help="seconds of a SIGSTOP")
    parser.add_argument("--rate", type=int, default=250, help="records a second of each of the four source tasks")
    parser.add_argument("--kinds", help=f"some of {', '.join(ON_SPARK)}")
    parser.add_argument("--on-spark", action="store_true", help="slots run on a Spark standalone cluster")
    parser.add_argument("--exactly-once", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
