"""What `connect check` concludes from what brokers tell: groups, clocks, certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kconnect.admin.preflight.brokers import ClientIdentity
from kconnect.admin.preflight.checks import certificate_result
from kconnect.admin.preflight.cluster import QuorumTime, clock_probe, clock_result, group_result
from kconnect.admin.preflight.results import Verdict
from kconnect.admin.preflight.topics import existing, missing
from kconnect.runtime.herder.assignment.protocol import MemberState, encode_metadata
from kconnect.runtime.herder.group.admin_frames import GroupAnswer, GroupDescription, MemberDescription
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec
from kconnect.runtime.kafka.topic_facts import TopicFacts
from kit.pace import ample_s
from kit.played_broker import played_broker

SPEC = InternalTopicSpec(
    topic="c", setting="config.storage.topic", purpose="connector configurations", partitions=1, replication_factor=3
)


def workers(*offsets: int) -> GroupAnswer:
    states = [encode_metadata(MemberState(2, f"http://w{offset}:8083/", offset)) for offset in offsets]
    members = tuple(MemberDescription("m", "c", "h", state, b"") for state in states)
    return GroupAnswer(0, GroupDescription("g", "Stable", "connect", "sessioned", members), frozenset({"READ"}))


def test_workers_that_have_read_further_than_the_topic_goes_have_another_topic() -> None:
    found = group_result("g", workers(4, 17), 9, "worker")
    assert found.verdict is Verdict.FAILED
    assert found.message == (
        "its workers (http://w4:8083/, http://w17:8083/) have read another config topic, "
        "up to offset 17; this one ends at 9"
    )
    found = group_result("g", workers(4, 9), 9, "worker")
    assert (found.verdict, found.message) == (
        Verdict.OK,
        "the worker will join 2 workers: http://w4:8083/, http://w9:8083/",
    )
    assert group_result("g", workers(4), None, "worker").verdict is Verdict.OK


def test_an_empty_group_that_consumers_left_is_a_warning_and_a_new_one_is_fine() -> None:
    left = GroupAnswer(0, GroupDescription("g", "Empty", "consumer", ""))
    assert group_result("g", left, None, "worker").verdict is Verdict.WARNING
    assert (
        group_result("g", GroupAnswer(0, GroupDescription("g", "Dead", "", "")), None, "worker").verdict is Verdict.OK
    )


@pytest.mark.parametrize(
    ("reported_ms", "verdict", "words"),
    [
        (10_050, Verdict.OK, "differs by less than 0.1 s"),
        (8_500, Verdict.OK, "differs by less than 1.5 s"),
        (20_100, Verdict.WARNING, "this machine is 10.0 s behind the brokers"),
        (5_000, Verdict.WARNING, "this machine is 5.0 s ahead of the brokers"),
        (100_100, Verdict.FAILED, "this machine is 90.0 s behind the brokers"),
    ],
)
def test_clocks_are_compared_as_far_as_the_time_of_the_answer_lets_it_be_known(
    reported_ms: int, verdict: Verdict, words: str
) -> None:
    found = clock_result(QuorumTime(0, reported_ms), 10_000, 10_100, "worker")
    assert (found.verdict, found.message) == (verdict, words)


def test_a_clock_is_not_checked_where_brokers_do_not_tell_the_time() -> None:
    with played_broker() as old:  # has no DescribeQuorum, as Kafka before 3.3
        probe = clock_probe(ClientIdentity(("worker",), {"bootstrap.servers": old.bootstrap}))
        (found,) = probe.look(ample_s(5))
    assert found.verdict is Verdict.UNKNOWN
    assert found.message == "its time is not known: brokers tell it since Kafka 3.3, and not with ZooKeeper"


def test_certificates_by_their_dates() -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)

    def verdict(begin: int, end: int) -> Verdict:
        return certificate_result("s", "CN=x", now + timedelta(days=begin), now + timedelta(days=end), now).verdict

    assert [verdict(-9, -1), verdict(1, 9), verdict(-9, 5), verdict(-9, 90)] == [
        Verdict.FAILED,
        Verdict.FAILED,
        Verdict.WARNING,
        Verdict.OK,
    ]


def test_a_topic_that_has_lost_its_leader_or_has_fewer_replicas_than_were_wanted() -> None:
    fine = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    facts = TopicFacts(topic="c", partitions=1, replicas=1, in_sync=1, settings=fine)
    assert [one.verdict for one in existing(SPEC, facts)] == [Verdict.WARNING, Verdict.OK]
    lost = TopicFacts(topic="c", partitions=1, replicas=3, in_sync=1, leaderless=(0,), settings=fine)
    assert [one.message for one in existing(SPEC, lost)] == ["partitions without a leader: 0 (config.storage.topic)"]
    unread = TopicFacts(topic="c", partitions=1, replicas=3, in_sync=3, settings=None)
    assert [one.verdict for one in existing(SPEC, unread)] == [Verdict.WARNING, Verdict.OK]


def test_a_topic_that_cannot_be_created_says_what_the_broker_says() -> None:
    found = missing(SPEC, 1, ("POLICY_VIOLATION", "no topics on Mondays"))
    assert (found.verdict, found.message) == (
        Verdict.FAILED,
        "does not exist, and cannot be created: no topics on Mondays",
    )
