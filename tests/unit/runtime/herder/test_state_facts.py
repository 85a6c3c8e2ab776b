"""What a state machine knows, as others see it: REST asks from its own threads."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.runtime.herder.assignment.protocol import Assignment
from kconnect.runtime.herder.decisions.facts import HerderFacts, HerderTimes

LEADING = Assignment(2, "me", "http://me/", 5)


class Changing(HerderFacts):
    """Facts of a member that loses its group just after it was looked at for the first time."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "assignment":
            self.assignment = None
        return value


def changing() -> HerderFacts:
    facts = Changing(HerderTimes(), member_id="me")
    facts.assignment = LEADING
    return facts


@pytest.mark.parametrize(
    ("question", "answer"), [("is_leader", True), ("leader_url", "http://me/"), ("is_eager", False)]
)
def test_who_asks_while_the_group_is_lost_gets_the_answer_of_before(question: str, answer: object) -> None:
    assert getattr(changing(), question) == answer


def test_a_request_that_meets_the_loss_of_the_group_must_still_be_signed() -> None:
    facts = changing()
    assert facts.signs_requests is True
    assert facts.signs_requests is None, "out of the group: the worker's own setting decides"
