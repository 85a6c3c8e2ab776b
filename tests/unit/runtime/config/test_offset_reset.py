"""`auto.offset.reset`: Java's words, librdkafka's, and how long ago."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.client_config import offset_reset
from kconnect.runtime.config.offset_reset import OffsetReset, parse_offset_reset


@pytest.mark.parametrize(
    ("text", "to", "back_ms", "of_client"),
    [
        ("earliest", "begin", 0, "earliest"),
        ("LATEST", "end", 0, "latest"),
        ("none", "fail", 0, "error"),
        ("smallest", "begin", 0, "earliest"),
        ("by_duration:PT1H", "time", 3_600_000, "earliest"),
        ("by_duration:P2DT3H4M5.25S", "time", ((2 * 24 + 3) * 3600 + 4 * 60 + 5) * 1000 + 250, "earliest"),
        ("By_Duration:pt90s", "time", 90_000, "earliest"),
        ("by_duration:P7D", "time", 604_800_000, "earliest"),
        ("by_duration:PT0S", "time", 0, "earliest"),
    ],
)
def test_each_word_says_where_a_sink_begins(text: str, to: str, back_ms: int, of_client: str) -> None:
    found = parse_offset_reset(text)
    assert (found.to, found.back_ms, found.of_client) == (to, back_ms, of_client)


@pytest.mark.parametrize(
    "text", ["first", "by_duration:", "by_duration:1h", "by_duration:P", "by_duration:PT", "by_duration:-PT1H"]
)
def test_what_is_none_of_these_is_refused_in_javas_words(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offset_reset(text)
    assert str(caught.value) == (
        f"Invalid value {text} for configuration auto.offset.reset: Invalid value `{text}` for configuration "
        "auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format "
        "'by_duration:<PnDTnHnMn.nS.>'."
    )


def test_the_connectors_word_counts_before_the_workers() -> None:
    worker = {"consumer.auto.offset.reset": "latest"}
    assert offset_reset({}, {}) == OffsetReset("begin")
    assert offset_reset(worker, {}) == OffsetReset("end")
    assert offset_reset(worker, {"consumer.override.auto.offset.reset": "none"}) == OffsetReset("fail")
