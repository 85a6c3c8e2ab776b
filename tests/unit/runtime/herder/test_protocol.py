"""The bytes of the connect group protocol, beside what Java's classes made (tests/golden/protocol, Kafka 4.3)."""

from __future__ import annotations

import base64
import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import DataError
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import (
    Assignment,
    MemberState,
    Work,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    owned_work,
)
from kit.differences import hold_alike, numbered
from kit.golden import load

CASES = load("protocol/connect-protocol.json")
ASSIGNMENTS = [case for case in CASES if case["kind"] == "assignment v1/v2"]
METADATA = [case for case in CASES if case["kind"].startswith("metadata")]
MEMBERS = [
    (f"{name}: {point}", member)
    for name in ("disabled", "enabled")
    for point, group in load(f"topics/group-protocol-{name}.json").items()
    for member in group["members"]
]


def task_ids(texts):
    return tuple(TaskId(text.rpartition("-")[0], int(text.rpartition("-")[2])) for text in texts)


def test_assignments_are_read_and_written_as_java_does():
    cases = numbered(ASSIGNMENTS, lambda case: f"{case['sessioned']}-{case['toString']}")
    assert hold_alike(cases, compare_assignment) == 16


def compare_assignment(case):
    data = base64.b64decode(case["b64"])
    expected = Assignment(
        version=2 if case["sessioned"] else 1,
        leader=case["leader"],
        leader_url=case["leaderUrl"],
        offset=case["offset"],
        work=Work(tuple(case["connectors"]), task_ids(case["tasks"])),
        revoked=Work(tuple(case["revokedConnectors"]), task_ids(case["revokedTasks"])),
        delay_ms=case["delay"],
        error=case["error"],
    )
    assert decode_assignment(data) == expected
    assert encode_assignment(expected) == data


def test_metadata_is_read_and_written_as_java_does():
    cases = numbered(METADATA, lambda case: f"{case['kind']}-{case.get('sessioned')}-{case['b64'][-30:]}")
    assert hold_alike(cases, compare_metadata) == 11


def compare_metadata(case):
    data = base64.b64decode(case["b64"])
    state = decode_metadata(data)
    assert (state.url, state.offset) == (case["url"], case["offset"])
    assert encode_metadata(state) == data


def test_an_eager_assignment_has_neither_revocation_nor_delay():
    (case,) = [case for case in CASES if case["kind"] == "assignment v0"]
    data = base64.b64decode(case["b64"])
    assignment = decode_assignment(data)
    assert assignment.work == Work(("c1", "c2"), (TaskId("c1", 0), TaskId("c1", 1), TaskId("c2", 0)))
    assert encode_assignment(assignment) == data


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("javas", [(), ("j:8083", "k:8083")])
def test_a_leader_of_ours_says_behind_what_java_reads_which_workers_are_not(version, javas):
    javas_own = Assignment(version, "l", "http://l:8083/", 3, Work(("a",), (TaskId("a", 0),)))
    ours = replace(javas_own, javas=javas)
    assert encode_assignment(ours).startswith(encode_assignment(javas_own))
    assert decode_assignment(encode_assignment(ours)) == ours
    assert decode_assignment(encode_assignment(javas_own)) == javas_own
    member = MemberState(2, "http://w:8083/", 7, ours)
    assert encode_metadata(member) == encode_metadata(replace(member, assignment=javas_own)), "it is nobody else's"
    held = replace(ours, delay_ms=5, held=Work(("b",), (TaskId("b", 1), TaskId("c", 0))))
    assert encode_assignment(held).startswith(encode_assignment(replace(ours, delay_ms=5))), (
        "older ones of ours read it"
    )
    assert decode_assignment(encode_assignment(held)) == held
    assert encode_metadata(replace(member, assignment=held)) == encode_metadata(
        replace(member, assignment=replace(javas_own, delay_ms=5))
    )


def test_what_live_workers_wrote_is_read_and_written_the_same():
    assert hold_alike([(f"{n} {point}", member) for n, (point, member) in enumerate(MEMBERS)], compare_member) == 18


def compare_member(member):
    metadata, assignment = base64.b64decode(member["metadata_b64"]), base64.b64decode(member["assignment_b64"])
    assert encode_metadata(decode_metadata(metadata)) == metadata
    assert encode_assignment(decode_assignment(assignment)) == assignment


def test_a_member_owns_what_it_had_less_what_was_revoked_and_what_was_added():
    had = Assignment(2, "l", "u", 3, Work(("a", "b"), (TaskId("a", 0), TaskId("b", 0))))
    given_now = Assignment(2, "l", "u", 4, Work((), (TaskId("c", 1),)), Work(("b",), (TaskId("b", 0),)))
    owned = owned_work(MemberState(2, "u", 3, had), given_now)
    assert owned == Work(("a",), (TaskId("a", 0), TaskId("c", 1)))


def test_an_eager_member_owns_just_what_it_was_given():
    assert owned_work(MemberState(0, "u", 3), Assignment(0, "l", "u", 4, Work(("c",)))) == Work(("c",))


def test_a_member_without_an_assignment_owns_what_it_had():
    had = Assignment(1, "l", "u", 3, Work(("a",)))
    assert owned_work(MemberState(1, "u", 3, had), None) == Work(("a",))
    assert owned_work(None, None) == Work()


def test_no_bytes_are_no_assignment():
    assert decode_assignment(b"") is None
    assert decode_assignment(None) is None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused_and_never_raise_otherwise(data):
    for decode in (decode_metadata, decode_assignment):
        with contextlib.suppress(DataError):
            decode(data)


def test_bytes_of_a_consumer_group_are_refused_by_name():
    with pytest.raises(DataError, match="connect group protocol"):
        decode_metadata(b"\x00\x01\x00\x05topic")
