"""Outages in a row, and nobody says what is not so: the short form of `make outages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.outages.run import Plan, outages

pytestmark = [pytest.mark.broker, pytest.mark.spark]

# Draws a broker that stands still twice with requests on their way, a worker whose network is cut, and one that is
# stopped; `make outages` has thirty, others each time
SEED = 119


@pytest.mark.timeout(600)
def test_while_parts_are_away_nobody_says_they_run_and_afterwards_all_agree_with_what_flows(tmp_path: Path) -> None:
    said: list[str] = []
    outcome = outages(tmp_path, Plan(seed=SEED, count=3, recover_s=90.0), said.append)
    story = "\n".join([*said, outcome.table()])
    assert len(outcome.done) == 3, story
    assert outcome.false == [], story
    assert (outcome.lost, outcome.sink_lost) == (0, 0), story
    assert outcome.records > 500, story
