"""What a state machine knows, as others see it: REST asks from its own threads, and debuggers read its ring."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.herder.assignment.protocol import Assignment
from kconnect.herder.decisions.events import ConfigsChanged, Tick
from kconnect.herder.decisions.facts import HerderFacts, HerderTimes
from kconnect.herder.membership import Joining
from kconnect.model import TaskId
from kit.herder_state import Member

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


def test_the_ring_tells_what_happened_without_keeping_configs_alive() -> None:
    member = Member()
    member.connector("c", tasks=1)
    member.settled(["c"], [TaskId("c", 0)])
    member.connector("c", topic="other")
    member.read()
    member.step(Joining())
    member.place()
    held = [thing for event, told in member.state.ring for thing in (event, *told) if hasattr(thing, "snapshot")]
    assert {type(thing).__name__ for thing in held} >= {"ConfigsChanged", "Placed", "StartWork", "CleanUp"}
    assert all(not thing.snapshot.configs and not thing.snapshot.task_configs for thing in held)
    (changed,) = [thing for thing in held if isinstance(thing, ConfigsChanged)]
    assert changed.snapshot.offset == member.snapshot.offset


def test_ticks_that_call_for_nothing_are_not_in_the_ring() -> None:
    member = Member().settled()
    before = len(member.state.ring)
    member.wait(10)
    member.connector("c")
    member.read()
    member.wait(100)
    assert [type(event) for event, _ in list(member.state.ring)[before:]] == [ConfigsChanged, Tick]
