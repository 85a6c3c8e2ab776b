"""Topics by pattern: Java's expressions, whole names, and Kafka's own topics only where they are asked for."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.topic_pattern import TopicPattern

TOPICS = ["a.b", "orders", "Z5", "_hidden", "__consumer_offsets", "__transaction_state", "__share_group_state"]


def matched(regex: str, worker: dict[str, str] | None = None, **overrides: str) -> list[str]:
    connector = {"topics.regex": regex} | {f"consumer.override.{key}": value for key, value in overrides.items()}
    pattern = TopicPattern.of_sink(worker or {}, connector)
    assert pattern is not None
    return pattern.of(TOPICS)


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        (".*", ["a.b", "orders", "Z5", "_hidden"]),
        ("^(?!_).*", ["a.b", "orders", "Z5"]),
        ("(?i)z5.*", ["Z5"]),
        (r"\p{Alpha}+", ["orders"]),
        (r"\Qa.b\E", ["a.b"]),
        ("[a-z&&[^x]]+", ["orders"]),
        ("order", []),
        ("__consumer_offsets", []),
    ],
)
def test_a_pattern_matches_whole_names_as_java_does(regex: str, expected: list[str]) -> None:
    assert matched(regex) == expected


def test_kafkas_own_topics_are_taken_where_the_user_says_so() -> None:
    assert matched("__.*") == []
    assert matched("__.*", **{"exclude.internal.topics": "false"}) == TOPICS[-3:]
    assert matched("__.*", {"consumer.exclude.internal.topics": "false"}) == TOPICS[-3:]
    of_worker = {"consumer.exclude.internal.topics": "false"}
    assert matched("__.*", of_worker, **{"exclude.internal.topics": "true"}) == []


def test_a_sink_whose_topics_are_named_has_no_pattern() -> None:
    assert TopicPattern.of_sink({}, {"topics": "a"}) is None
    assert TopicPattern.of_sink({}, {"topics": "a", "topics.regex": " "}) is None


def test_what_cannot_be_read_names_its_setting() -> None:
    with pytest.raises(ConfigError, match=r"topics\.regex: Invalid regex: Unclosed group"):
        matched("(")
    with pytest.raises(ConfigError, match=r"for configuration exclude\.internal\.topics: Expected value to be either"):
        matched("a", **{"exclude.internal.topics": "sometimes"})
