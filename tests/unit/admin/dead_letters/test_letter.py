"""Dead letters taken apart: what was a record's own, what Connect and we added, and headers that say nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.dead_letters.letter import NO_PARTITION, dead_letter
from kconnect.api import ConsumerRecord
from kit.golden import load

PREFIX = "__connect.errors."
CONTEXT = [
    (f"{PREFIX}topic", b"orders"),
    (f"{PREFIX}partition", b"3"),
    (f"{PREFIX}offset", b"17"),
    (f"{PREFIX}connector.name", b"sink"),
    (f"{PREFIX}task.id", b"2"),
    (f"{PREFIX}stage", b"VALUE_CONVERTER"),
    (f"{PREFIX}class.name", b"org.apache.kafka.connect.json.JsonConverter"),
    (f"{PREFIX}exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    (f"{PREFIX}exception.message", b"Converting failed"),
    (f"{PREFIX}exception.stacktrace", b"x"),
]


def raw(headers: list[tuple[str, bytes | None]], **more: Any) -> ConsumerRecord:
    return ConsumerRecord("dlq", 0, 5, b"k", b"v", 1_700_000_000_000, headers=headers, **more)


def test_the_records_own_headers_stay_and_connects_are_distinguished() -> None:
    letter = dead_letter(raw([("a", b"1"), ("__connect.replays", b"2"), *CONTEXT]))
    assert letter.headers == (("a", b"1"),)
    assert (letter.replays, letter.connector, letter.stage, letter.place) == (2, "sink", "VALUE_CONVERTER", "dlq-0@5")
    assert (letter.context.place, letter.context.task) == ("orders-3@17", 2)
    read = letter.as_read()
    assert (read.topic, read.partition, read.offset, read.headers) == ("orders", 3, 17, [("a", b"1")])
    assert letter.problems == ()


def test_a_letter_that_was_read_from_a_dead_letter_topic_keeps_the_first_set_of_context_headers() -> None:
    first = [(f"{PREFIX}topic", b"older"), (f"{PREFIX}offset", b"1")]
    letter = dead_letter(raw([*first, *CONTEXT]))
    assert letter.context.topic == "orders"
    assert letter.headers == tuple(first)


def test_a_record_without_headers_is_a_letter_of_nobody() -> None:
    letter = dead_letter(raw([]))
    assert (letter.connector, letter.stage, letter.original_topic, letter.context.place) == (None, None, None, None)
    assert letter.as_read().partition == NO_PARTITION


def test_headers_that_cannot_be_read_are_reported_and_count_as_missing() -> None:
    broken = [(f"{PREFIX}partition", b"x"), (f"{PREFIX}offset", b"-1"), (f"{PREFIX}topic", b"\xff")]
    letter = dead_letter(raw([*broken, ("__connect.replays", b"many"), ("__connect.source", b"{}")]))
    assert (letter.context.partition, letter.context.offset, letter.original_topic, letter.replays) == (None,) * 3 + (
        0,
    )
    assert len(letter.problems) == 5


NAMES = st.sampled_from([name for name, _ in CONTEXT] + ["__connect.replays", "__connect.source", "a"])


@given(st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=12)), max_size=12))
def test_no_headers_make_it_raise_and_none_of_the_records_own_is_lost(headers: list[tuple[str, bytes | None]]) -> None:
    letter = dead_letter(raw(headers))
    assert [pair for pair in letter.headers if pair[0] == "a"][:-1] == [pair for pair in headers if pair[0] == "a"][:-1]
    assert letter.fingerprint == dead_letter(raw(headers)).fingerprint


def test_the_root_cause_is_javas_last_and_pythons_first() -> None:
    java = "a.B: outer\n\tat x\nCaused by: c.D: middle\n\tat y\nCaused by: e.F: inner\n\tat z\n"
    python = (
        'a.B: outer\nTraceback (most recent call last):\n  File "x", line 1, in f\nValueError: inner\n\nThe above exc'
    )
    for trace, cause in ((java, "e.F: inner"), (python, "ValueError: inner"), ("x", "a.B: outer")):
        named = [(f"{PREFIX}exception.class.name", b"a.B"), (f"{PREFIX}exception.message", b"outer")]
        letter = dead_letter(raw([*named, (f"{PREFIX}exception.stacktrace", trace.encode())]))
        assert letter.context.root_cause == cause


def test_javas_own_letters_are_read() -> None:
    import base64

    def decoded(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    cases = [case for case in load("topics/errors-dlq.json")["cases"] if case.get("dlq_topic")]
    letters = [
        dead_letter(raw([(name, decoded(value)) for name, value in record["headers"]]))
        for case in cases
        for record in case["dlq_topic"]
    ]
    with_context = [letter for letter in letters if letter.connector is not None]
    assert len(with_context) > 5
    assert all(letter.problems == () and letter.context.root_cause and letter.stage for letter in with_context)
    own = {pair for letter in with_context for pair in letter.headers if pair[0].startswith(PREFIX)}
    assert own <= {(f"{PREFIX}topic", b"mine")}, "one of the records had such a header before it failed"


def test_a_sources_letter_says_where_its_record_was_to_go() -> None:
    note = {
        "connector": "src",
        "topic": "t",
        "partition": None,
        "timestamp": 7,
        "stage": "TRANSFORMATION",
        "stepsDone": 1,
    }
    note |= {"sourcePartition": {"a": 1}, "sourceOffset": {"b": 2}, "lossy": ["value"]}
    letter = dead_letter(raw([("h", b"{}"), ("__connect.source", json.dumps(note).encode())]))
    assert letter.source is not None
    assert (letter.connector, letter.stage, letter.original_topic) == ("src", "TRANSFORMATION", "t")
    assert (letter.source.steps_done, letter.source.lossy, letter.as_read().timestamp) == (1, ("value",), 7)
    assert letter.headers == (("h", b"{}"),)


@pytest.mark.parametrize(
    "note", [b"[]", b"null", b"7", b'{"topic":1,"stage":"x"}', b'{"topic":"t","stage":"s","lossy":7}']
)
def test_a_note_of_another_form_is_a_problem(note: bytes) -> None:
    letter = dead_letter(raw([("__connect.source", note)]))
    assert letter.source is None
    assert len(letter.problems) == 1
