"""A request to join a group that will have no answer: when it is found, and when the member is left alone."""

from __future__ import annotations

from kconnect.errors import UnreachableError
from kconnect.runtime.kafka.consumer_additions import LostJoins


class Group:
    """A group, and the time in which it is looked at."""

    def __init__(self, *members):
        self.members = members
        self.now_s = 0.0
        self.asked_at = []
        self.joins = LostJoins(self._members, lambda: self.now_s)

    def _members(self):
        self.asked_at.append(self.now_s)
        if self.members is None:
            raise UnreachableError("Kafka is away")
        return self.members

    def lost_within(self, seconds, own="me"):
        """When it is found, by looks twice a second; None: it is not."""
        for _ in range(seconds * 2):
            self.now_s += 0.5
            if self.joins.is_lost(lambda: own):
                return self.now_s
        return None


def test_a_member_that_its_group_does_not_have_twice_is_lost_within_half_a_minute():
    assert Group("another").lost_within(30) == 15.0


def test_a_member_that_others_keep_waiting_is_asked_about_less_and_less_often():
    group = Group("me", "another")
    assert group.lost_within(300) is None
    assert group.asked_at == [10.0, 30.0, 70.0, 130.0, 190.0, 250.0]


def test_one_that_has_not_asked_to_join_yet_is_not_lost():
    group = Group()
    assert group.lost_within(60, own="") is None
    assert group.asked_at == []


def test_a_group_that_cannot_be_asked_does_not_lose_anybody():
    group = Group()
    group.members = None
    assert group.lost_within(60) is None


def test_a_member_with_an_id_of_its_own_since_the_last_look_is_looked_at_again():
    group = Group()
    assert group.lost_within(11, own="first") is None
    assert group.lost_within(5, own="second") is None
    assert group.lost_within(5, own="second") == 20.0


def test_one_that_has_joined_is_not_asked_about_until_it_waits_again():
    group = Group()
    group.joins.joined()
    assert group.lost_within(60) is None
    group.joins.waits()
    assert group.lost_within(30) == 75.0
