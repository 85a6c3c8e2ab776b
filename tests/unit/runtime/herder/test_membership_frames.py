"""Requests of a group member, beside the bytes that another client (kafka-python 3.0.12) makes of the same ones."""

from __future__ import annotations

import struct

import pytest

from kconnect.runtime.herder.group.admin_frames import OffsetFetch
from kconnect.runtime.herder.group.frames import (
    ApiVersions,
    Authenticate,
    FindCoordinator,
    Handshake,
    Heartbeat,
    JoinGroup,
    KnownBrokers,
    LeaveGroup,
    SyncGroup,
    frame_of,
    opened,
)

JOIN = JoinGroup("g", "m-1", 6000, 9000, "connect", [("sessioned", b"ab"), ("default", b"")], "why")
JOINED_8 = "00000007 00 00000000 0000 00000004 08636f6e6e656374 0a73657373696f6e6564 046d2d31 046d2d31"
JOINED_5 = "00000007 00000000 0000 00000004 000973657373696f6e6564 00036d2d31 00036d2d31"


@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (
            JOIN,
            8,
            "00000042000b00080000000700026d650002670000177000002328046d2d310008636f6e6e656374030a73657373696f6e6564"
            "036162000864656661756c7401000477687900",
        ),
        (
            JOIN,
            5,
            "00000049000b00050000000700026d65000167000017700000232800036d2d31ffff0007636f6e6e6563740000000200097365"
            "7373696f6e6564000000026162000764656661756c7400000000",
        ),
        (LeaveGroup("g", "m-1", "why"), 5, "0000001b000d00050000000700026d6500026702046d2d3100047768790000"),
        (LeaveGroup("g", "m-1", "why"), 1, "00000014000d00010000000700026d6500016700036d2d31"),
        (Heartbeat("g", 3, "m-1"), 3, "0000001a000c00030000000700026d650001670000000300036d2d31ffff"),
        (
            SyncGroup("g", 3, "m-1", {"m-1": b"xy"}),
            3,
            "00000029000e00030000000700026d650001670000000300036d2d31ffff0000000100036d2d31000000027879",
        ),
        (FindCoordinator("g"), 1, "00000010000a00010000000700026d6500016700"),
        (Handshake("PLAIN"), 1, "00000013001100010000000700026d650005504c41494e"),
        (Authenticate(b"tok"), 1, "00000013002400010000000700026d6500000003746f6b"),
        (ApiVersions(), 0, "0000000c001200000000000700026d65"),
        (KnownBrokers(), 1, "00000010000300010000000700026d6500000000"),
        (OffsetFetch("g"), 2, "00000013000900020000000700026d65000167ffffffff"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | int) else str(value)[:3],
)
def test_a_request_is_written_as_other_clients_do(request_, version, expected):
    assert frame_of(request_, version, 7, "me").hex() == expected


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        (8, JOINED_8 + "03 046d2d31 00 036162 00 046d2d32 00 01 00 00"),
        (5, JOINED_5 + "00000002 00036d2d31 ffff 00000002 6162 00036d2d32 ffff 00000000"),
    ],
)
def test_the_answer_to_a_join_is_read_in_both_forms(version, answer):
    correlation_id, joined = opened(JOIN, version, bytes.fromhex(answer))

    assert correlation_id == 7
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (0, 4, "sessioned", "m-1")
    assert joined.members == {"m-1": b"ab", "m-2": b""}


def test_tags_that_are_not_known_are_skipped():
    tagged = bytes.fromhex("00000007 01 05 02 aabb 00000000 0000 02 046d2d31 00 0019 00 00")
    assert opened(LeaveGroup("g", "m-1", ""), 5, tagged) == (7, 25)


def test_an_answer_that_ends_too_early_is_no_answer():
    with pytest.raises(struct.error):
        opened(JOIN, 8, bytes.fromhex(JOINED_8 + "03 046d"))


def test_a_long_reason_is_cut_as_java_does():
    frame = frame_of(LeaveGroup("g", "m", "x" * 999), 5, 1, "me")
    assert frame.count(b"x") == 255


def test_nothing_secret_is_shown():
    assert "tok" not in repr(Authenticate(b"tok"))
