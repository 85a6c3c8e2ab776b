"""Waits of tests: for what must come, and while something must not."""

from __future__ import annotations

import ast

import pytest

from kit.places import TESTS
from kit.waiting import eventually, stays


def test_what_comes_in_time_is_given_and_what_does_not_is_named() -> None:
    looks = iter([0, None, 7])
    assert eventually(lambda: next(looks), 5, pause_s=0) == 7
    with pytest.raises(AssertionError, match=r"not within 0\.01 s.*: the ship; last seen: 0"):
        eventually(lambda: 0, 0.01, "the ship", pause_s=0)


def test_what_lasts_is_looked_at_until_the_end_and_what_does_not_is_named() -> None:
    looks: list[int] = []
    stays(lambda: looks.append(1) is None, 0.01, "the calm")
    assert len(looks) >= 2
    with pytest.raises(AssertionError, match=r"did not last for 5 s: the calm"):
        stays(lambda: looks.pop() if len(looks) > 1 else False, 5, "the calm")


def test_tests_sleep_nowhere_but_in_the_kit_which_says_what_for() -> None:
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))) if "sleep(" in path.read_text("utf-8") else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sleep", "time.sleep", "asyncio.sleep"):
                found.append(f"{path.relative_to(TESTS)}:{node.lineno}")
    assert found == [], "use kit.waiting.eventually or stays"
