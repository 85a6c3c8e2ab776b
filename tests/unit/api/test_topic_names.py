"""Names of topics: what Kafka takes, and the renaming of what it does not take."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api.topic_names import MOST_LETTERS, topic_name_problem, topic_renaming


@pytest.mark.parametrize("name", ["orders", "a.b_c-1", "A" * MOST_LETTERS, "...", "_"])
def test_what_kafka_takes_is_no_problem(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lines with space", "' ' is not a letter"),
        (
            "Mixed Case",
            "'Mixed Case' cannot be the name of a topic: ' ' is not a letter (a-z), a digit, '.', '_' or '-'",
        ),
        ("café", "'é' is not a letter"),
        ("a/b", "'/' is not a letter"),
        (".", "'.' cannot be the name"),
        ("..", "'..' cannot be the name"),
        ("", "'' cannot be the name"),
        ("a" * 250, "it has 250 letters, 249 are the most"),
    ],
)
def test_what_kafka_refuses_is_reported_with_the_letter(name: str, said: str) -> None:
    assert said in (topic_name_problem(name) or "")


@given(st.text(min_size=1, max_size=300))
def test_the_renaming_matches_the_name_and_gives_one_that_a_topic_may_have(name: str) -> None:
    settings = topic_renaming(name)
    found = re.search(r"regex=(.*), transforms\.rename\.replacement=(.*)$", settings, re.DOTALL)
    assert found is not None
    assert re.fullmatch(found[1], name)
    assert topic_name_problem(found[2]) is None
