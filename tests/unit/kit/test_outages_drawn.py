"""Which outages a seed draws."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

from kit.outages.actions import KINDS, WHAT, drawn


def test_a_seed_draws_the_same_outages_again_each_kind_equally_often_and_each_victim_after_each() -> None:
    actions = drawn(7, 30)
    assert actions == drawn(7, 30)
    assert actions != drawn(8, 30)
    counts = Counter((action.what, action.how) for action in actions)
    assert set(counts) == set(KINDS)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert {(first.what, then.what) for first, then in pairwise(actions)} >= set(product(WHAT, WHAT))
