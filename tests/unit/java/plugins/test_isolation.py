"""Which connectors share a JVM once JVMs have ended."""

from __future__ import annotations

import pytest

from kconnect.java.plugins.isolation import Isolation


def together(isolation: Isolation, connectors: list[str], now_s: float) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for connector in connectors:
        found.setdefault(isolation.part_of(connector, now_s), []).append(connector)
    return found


@pytest.mark.parametrize("count", [2, 5, 16, 64])
def test_the_one_that_ends_its_jvm_is_alone_before_the_others_have_used_up_their_restarts(count: int) -> None:
    connectors = [f"c{number:02}" for number in range(count)]
    for bad in connectors:
        isolation, hurt = Isolation(), dict.fromkeys(connectors, 0)
        for end in range(6):
            part = isolation.part_of(bad, end)
            members = together(isolation, connectors, end)[part]
            for connector in members:
                hurt[connector] += 1
            isolation.note(part, members, None, end)
        assert max(times for connector, times in hurt.items() if connector != bad) <= 4
        assert members == [bad]


def test_ends_with_ten_minutes_between_them_part_nobody() -> None:
    isolation = Isolation()
    for now_s in (0, 601, 1202):
        assert isolation.note(None, ["a", "b"], None, now_s) is None
        assert together(isolation, ["a", "b"], now_s) == {None: ["a", "b"]}


def test_who_was_not_in_it_both_times_stays() -> None:
    isolation = Isolation()
    isolation.note(None, ["a", "b", "c"], None, 0)
    isolation.note(None, ["b", "c", "d"], None, 1)
    assert together(isolation, ["a", "b", "c", "d"], 2) == {None: ["a", "d"], "part 1": ["b"], "part 2": ["c"]}


def test_the_one_that_is_known_to_have_ended_it_is_alone_at_once() -> None:
    isolation = Isolation()
    assert isolation.note(None, ["a", "b", "c"], "b", 0) == "b ended the JVM that it shared, and gets one of its own"
    assert together(isolation, ["a", "b", "c"], 1) == {None: ["a", "c"], "part 1": ["b"]}
    assert isolation.note("part 1", ["b"], "b", 2) is None, "it is said once"


def test_who_is_alone_meets_nobody_else_until_an_hour_has_passed_since_the_last_end() -> None:
    isolation = Isolation()
    isolation.note(None, ["a"], "a", 0)
    assert isolation.note("part 1", ["a"], None, 1000) is None
    assert together(isolation, ["a", "b"], 4599) == {"part 1": ["a"], None: ["b"]}
    assert together(isolation, ["a", "b"], 4600) == {None: ["a", "b"]}


@pytest.mark.parametrize(
    ("connectors", "end"),
    [
        (["a"], ": a gets one of its own"),
        (
            ["b", "a"],
            ", and does not say by whose plugin: a, b get 2 JVMs, "
            "until the connector that ends its JVM is alone in one",
        ),
    ],
)
def test_who_is_parted_is_said(connectors: list[str], end: str) -> None:
    isolation = Isolation()
    assert isolation.note(None, connectors, None, 0) is None
    assert isolation.note(None, connectors, None, 1) == f"The JVM of Java's plugins ended again{end}"


def test_a_jvm_with_nobodys_plugins_parts_nobody() -> None:
    isolation = Isolation()
    for now_s in (0, 1, 2):
        assert isolation.note(None, [], None, now_s) is None
    assert isolation.part_of(None, 3) is None
