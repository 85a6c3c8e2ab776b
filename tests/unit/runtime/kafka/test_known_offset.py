"""Answers of brokers to the question where a partition begins or ends."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID

from kconnect.errors import RetriableError
from kconnect.runtime.kafka.admin import known_offset


def test_an_answer_without_an_offset_is_none_and_is_asked_for_again() -> None:
    with pytest.raises(RetriableError, match="The offsets of t-0 cannot be read: there is none yet"):
        known_offset(OFFSET_INVALID, "The offsets of t-0 cannot be read")


@pytest.mark.parametrize("offset", [0, 42, -1])
def test_any_other_is_taken_as_it_is_minus_one_too_which_is_no_record_of_that_time(offset: int) -> None:
    assert known_offset(offset, "any") == offset
