"""What holds many cases together finds each that differs, and cannot be content with none."""

from __future__ import annotations

import pytest

from kit.differences import hold_alike, numbered


def even(number: int) -> str | None:
    return f"ours {number}, Java {number - 1}" if number % 2 else None


def reported(*args: object, **options: object) -> list[str]:
    with pytest.raises(AssertionError) as failed:
        hold_alike(*args, **options)
    return str(failed.value).splitlines()


def test_cases_that_are_alike_are_counted() -> None:
    assert hold_alike([("a", 0), ("b", 2)], even) == 2


def test_each_difference_is_reported_with_its_case_and_what_both_gave() -> None:
    assert reported([("a", 0), ("b", 1), ("c", 3)], even) == [
        "differences: 2, cases: 3",
        "- b: ours 1, Java 0",
        "- c: ours 3, Java 2",
    ]


def test_what_a_case_raises_is_its_difference_and_the_others_are_compared() -> None:
    def compare(number: int) -> None:
        assert number, "must not be zero"
        with pytest.raises(ZeroDivisionError):
            assert 1 // (number - 1)

    text = "\n".join(reported([("a", 0), ("b", 1), ("c", 2)], compare))
    assert "- a: must not be zero" in text
    assert "- b:" not in text
    assert "- c: DID NOT RAISE" in text


def test_an_error_is_reported_with_its_place() -> None:
    head, line = reported([("a", [])], lambda case: case[3])
    assert head == "differences: 1, cases: 1"
    assert line.startswith("- a: raised IndexError('list index out of range'), at test_differences.py:")


def test_a_known_difference_must_still_differ() -> None:
    assert hold_alike([("a", 0), ("b", 1)], even, {"b": "why"}) == 2
    assert reported([("a", 0), ("b", 2)], even, ["b"])[1:] == [
        "- b: is known to differ and agrees now: take it out of the list"
    ]


def test_a_known_difference_that_raises_is_none() -> None:
    assert "raised ZeroDivisionError" in reported([("a", 0)], lambda case: 1 // case, ["a"])[1]


def test_a_known_difference_must_be_a_case() -> None:
    assert reported([("a", 0)], even, ["b"])[1:] == ["- b: is known to differ, but there is no such case"]


def test_no_cases_are_a_failure() -> None:
    assert reported([], even) == ["there are no cases"]


def test_two_cases_of_one_name_are_a_failure() -> None:
    assert reported([("a", 0), ("a", 2)], even)[1:] == ["- a: two cases have this name"]


def test_after_the_most_differences_it_ends_and_says_so() -> None:
    seen = []

    def compare(number: int) -> str | None:
        seen.append(number)
        return even(number)

    lines = reported(numbered([1, 3, 5, 7]), compare, ["none"], most=2)
    assert lines[0] == "differences: 2, cases: 2, the rest was not compared"
    assert seen == [1, 3]


def test_the_time_limit_of_the_test_is_no_difference_of_a_case() -> None:
    class TooLate(pytest.fail.Exception):
        pass

    def compare(_: int) -> None:
        raise TooLate("outlived")

    with pytest.raises(TooLate):
        hold_alike([("a", 0), ("b", 0)], compare)


def test_cases_are_named_by_their_number_and_what_they_are() -> None:
    assert numbered(["x", "y"], str.upper) == [("0/X", "x"), ("1/Y", "y")]
