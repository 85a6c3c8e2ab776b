"""Java's topic patterns as librdkafka takes them."""

from __future__ import annotations

import re

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.kafka import topic_pattern

NAMES = ["orders", "orders-1", "orders-12", "orders.1", "orders_x", "Orders-1", "my-orders-1", "a", "-", "a.b-c_d"]


@pytest.mark.parametrize(
    "regex",
    ["orders", "orders-.*", r"orders-\d+", r"orders[-.]\d", r"(?:my-)?orders-\d", r"[\w.\-]+", r"[^\d]*", "a|orders",
     r"orders\.1", r"\w+", r"orders(\-|_).", "[a-z]{6}", r"\D+", r"a\Wb\Wc_d"],
)  # fmt: skip
def test_the_same_names_match_as_in_java(regex: str) -> None:
    pattern = topic_pattern(regex)
    found = [name for name in NAMES if re.search(pattern, name)]
    assert found == [name for name in NAMES if re.fullmatch(regex, name)]
    assert "\\d" not in pattern
    assert "\\w" not in pattern
    assert "(?" not in pattern


def test_the_pattern_is_known_to_the_client_by_its_leading_caret() -> None:
    assert topic_pattern("a|b") == "^(a|b)$"


@pytest.mark.parametrize(
    "regex", ["(?!a)b", "(?=a)b", "a*?", "a++", r"(a)\1", r"\bfoo", "[a-z&&[^b]]", "[abc", "(?i)a"]
)
def test_what_the_client_can_not_say_is_refused_by_name(regex: str) -> None:
    with pytest.raises(ConfigError, match=r"topics\.regex.*no counterpart"):
        topic_pattern(regex)
