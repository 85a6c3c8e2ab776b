"""Three workers, killed and frozen in turns while numbers stream through them: the short form of `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.chaos.cluster import Shape
from kit.chaos.harm import KINDS
from kit.chaos.run import Plan, chaos

pytestmark = [pytest.mark.broker, pytest.mark.spark]

# Every kind of harm once, in the order that this seed draws; `make chaos` draws another each time
SEED = 11
EVERY_S = 6.0
# Longer than a session of 10 s: the group goes on without the worker that stands still
FREEZE_S = 12.0
# A quiet machine takes 15 s; one with fifty other processes at work took more than 150 s
RECOVER_S = 240.0


@pytest.mark.timeout(1200)
def test_workers_slots_and_broker_killed_and_frozen_lose_no_number_and_write_none_twice(tmp_path: Path) -> None:
    """Exactly once at the source, at least once at the sink; `make chaos` has the source at least once as well."""
    said: list[str] = []
    plan = Plan(
        seed=SEED,
        duration_s=EVERY_S * (len(KINDS) + 1),
        every_s=EVERY_S,
        freeze_s=FREEZE_S,
        quiet_s=2.0,
        recover_s=RECOVER_S,
    )
    outcome = chaos(tmp_path, plan, Shape(exactly_once=True), said.append)
    story = "\n".join([*said, outcome.table()])
    assert outcome.harm == dict.fromkeys(KINDS, 1), story
    assert outcome.account.records > 1_000, story
    assert (outcome.account.lost, outcome.account.sink_lost) == (0, 0), story
    assert outcome.account.duplicates == 0, story
