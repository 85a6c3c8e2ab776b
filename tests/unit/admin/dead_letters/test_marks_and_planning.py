"""Which letters are meant, what was replayed of them, and what a replay makes of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kconnect.admin.dead_letters.letter import DeadLetter, dead_letter
from kconnect.admin.dead_letters.marks import (
    Marks,
    MarkState,
    Run,
    mark_entry,
    marks_of,
    outdated_entries,
    removal_entry,
    run_end_entry,
    run_entry,
)
from kconnect.admin.dead_letters.planning import (
    Outcome,
    ReplayRules,
    decide,
    isolation_level,
    outgoing,
    replay_headers,
    retention_warning,
)
from kconnect.admin.dead_letters.replay import Preparation
from kconnect.admin.dead_letters.selection import OffsetRange, Owner, Selection, summary
from kconnect.api import ConsumerRecord

PREFIX = "__connect.errors."


def letter(
    offset: int = 0, *, partition: int = 0, time: int | None = 1_000, value: bytes = b"v", **said: str
) -> DeadLetter:
    words = {"topic": "orders", "partition": "1", "offset": "9", "connector.name": "sink", "stage": "TASK_PUT"}
    words |= {"exception.class.name": "a.b.DataException", "exception.message": "no such table"}
    words |= {name.replace("_", "."): text for name, text in said.items()}
    headers: list[tuple[str, bytes | None]] = [(PREFIX + name, text.encode()) for name, text in words.items() if text]
    return dead_letter(ConsumerRecord("dlq", partition, offset, b"k", value, time, headers=headers))


def nobody(offset: int) -> DeadLetter:
    return dead_letter(ConsumerRecord("dlq", 0, offset, None, b"x", 1_000))


def marked(*letters: DeadLetter, state: str = MarkState.SENT) -> Marks:
    return marks_of(mark_entry(each, state, 5, "orders") for each in letters)


SELECTION = Selection(connector="sink")


@pytest.mark.parametrize(
    ("changes", "takes"),
    [
        ({}, True),
        ({"connector": "other"}, False),
        ({"connector": "other", "takes_all": True}, True),
        ({"stages": frozenset({"TASK_PUT"})}, True),
        ({"stages": frozenset({"VALUE_CONVERTER"})}, False),
        ({"exceptions": ("DataException",)}, True),
        ({"exceptions": ("a.b.DataException",)}, True),
        ({"exceptions": ("b.DataException",)}, False),
        ({"exceptions": ("no such",)}, True),
        ({"topics": frozenset({"orders"})}, True),
        ({"topics": frozenset({"other"})}, False),
        ({"from_ms": 1_000}, True),
        ({"from_ms": 1_001}, False),
        ({"to_ms": 1_000}, False),
        ({"to_ms": 1_001}, True),
        ({"offsets": (OffsetRange(0, 3, 5),)}, True),
        ({"offsets": (OffsetRange(0, 6),)}, False),
        ({"offsets": (OffsetRange(1, 0), OffsetRange(0, 5, 5))}, True),
    ],
)
def test_a_selection_takes_what_fits_all_of_it(changes: dict[str, Any], takes: bool) -> None:
    assert (letter(5) in replace(SELECTION, **changes)) is takes


def test_letters_that_name_nobody_are_its_own_only_where_it_writes_no_context_headers() -> None:
    assert nobody(0) not in SELECTION
    assert nobody(0) in replace(SELECTION, takes_unknown=True)
    assert letter(connector_name="other") not in replace(SELECTION, takes_unknown=True)


def test_a_summary_counts_by_kind_and_tells_what_it_left_out() -> None:
    letters = [letter(0), letter(1, time=3_000), letter(2, stage="VALUE_CONVERTER", time=None), nobody(3)]
    found = summary([*letters, letter(4, connector_name="x")], SELECTION, marked(letters[1]))
    assert [(group.stage, group.count, group.replayed) for group in found.groups] == [
        ("TASK_PUT", 2, 1),
        ("VALUE_CONVERTER", 1, 0),
    ]
    assert (found.groups[0].first_ms, found.groups[0].last_ms) == (1_000, 3_000)
    assert (found.count, found.replayed) == (3, 1)
    assert found.skipped == {Owner.UNKNOWN: 1, Owner.OTHERS: 1}


def test_a_mark_counts_for_its_letter_alone_and_not_for_another_at_its_place() -> None:
    marks = marked(letter(4))
    assert marks.is_replayed(letter(4))
    assert not marks.is_replayed(letter(5))
    assert not marks.is_replayed(letter(4, partition=1))
    assert not marks.is_replayed(letter(4, value=b"of a topic that was made anew"))


def test_marks_may_be_taken_back_and_foreign_records_are_counted() -> None:
    entries = [mark_entry(letter(4), MarkState.PUTTING, 5, "sink"), (b"foreign", b"x"), (None, None), (b"7", b"{}")]
    marks = marks_of(entries)
    assert marks.is_doubtful(letter(4))
    assert not marks.is_replayed(letter(4))
    assert marks.unread == 3
    assert not marks_of([*entries, removal_entry(letter(4))]).is_doubtful(letter(4))


def test_a_run_is_known_until_it_has_ended() -> None:
    run = Run("sink", 5, {"orders": {0: 7, 1: 0}})
    assert marks_of([run_entry(run)]).runs == {"sink": run}
    assert marks_of([run_entry(run), run_end_entry("sink")]).runs == {}


def test_marks_of_letters_that_were_deleted_become_tombstones_once_they_are_old() -> None:
    marks = marked(letter(3), letter(4), letter(1, partition=2))
    month_ms = 30 * 24 * 3_600_000
    assert outdated_entries(marks, {0: 4, 2: 0}, 5 + month_ms) == [], "an exported file may still have them"
    assert outdated_entries(marks, {0: 4, 2: 0}, 6 + month_ms) == [(b'{"partition":0,"offset":3}', None)]


RULES = ReplayRules()


@pytest.mark.parametrize(
    ("given", "marks", "arrived", "rules", "outcome"),
    [
        (letter(), Marks(), (), RULES, Outcome.REPLAY),
        (letter(), marked(letter()), (), RULES, Outcome.ALREADY),
        (letter(), Marks(), {"dlq-0@0"}, RULES, Outcome.ARRIVED),
        (letter(), marked(letter()), {"dlq-0@0"}, RULES, Outcome.ALREADY),
        (letter(), marked(letter(), state=MarkState.PUTTING), (), RULES, Outcome.IN_DOUBT),
        (letter(), marked(letter(), state=MarkState.PUTTING), (), ReplayRules(again=True), Outcome.REPLAY),
        (letter(), marked(letter(), state=MarkState.PUT), (), ReplayRules(again=True), Outcome.ALREADY),
        (letter(topic=""), Marks(), (), RULES, Outcome.NO_TOPIC),
        (letter(topic=""), Marks(), (), ReplayRules(to_topic="t"), Outcome.REPLAY),
    ],
)
def test_what_a_replay_decides(
    given: DeadLetter, marks: Marks, arrived: Any, rules: ReplayRules, outcome: Outcome
) -> None:
    assert decide(given, marks, arrived, rules)[0] is outcome


def test_a_record_that_failed_again_too_often_stays_and_is_reported() -> None:
    raw = letter(7).raw
    again = dead_letter(replace(raw, headers=[("__connect.replays", b"3"), *raw.headers]))
    assert decide(again, Marks(), (), RULES) == (Outcome.OVER_BUDGET, "dlq-0@7 has failed again after 3 replays")
    assert decide(again, Marks(), (), ReplayRules(max_replays=4))[0] is Outcome.REPLAY
    assert dict(replay_headers(again, again.headers)) == {"__connect.replays": b"4", "__connect.replay.of": b"dlq-0@7"}


def test_a_record_goes_to_its_partition_where_the_topic_has_it() -> None:
    given = letter()
    to = ReplayRules(to_topic="elsewhere")
    for rules, partitions, wanted in (
        (RULES, {"orders": 2}, ("orders", 1)),
        (RULES, {"orders": 1}, ("orders", None)),
        (to, {"elsewhere": 9}, ("elsewhere", None)),
    ):
        made = outgoing(given, given.as_read(), rules, partitions)
        assert made is not None
        assert (made.topic, made.partition) == wanted
        assert (made.key, made.value, made.timestamp) == (b"k", b"v", 1_000)
    assert outgoing(given, given.as_read(), RULES, {}) is None


def test_a_lossy_letter_of_a_source_needs_an_edit() -> None:
    note = {"topic": "t", "stage": "VALUE_CONVERTER", "lossy": ["value"], "connector": "src"}
    headers: list[tuple[str, bytes | None]] = [("__connect.source", json.dumps(note).encode())]
    given = dead_letter(ConsumerRecord("dlq", 0, 0, None, b"{}", 1, headers=headers))
    assert decide(given, Marks(), (), RULES)[0] is Outcome.LOSSY
    assert decide(given, Marks(), (), ReplayRules(is_edited=True))[0] is Outcome.REPLAY


def test_the_limit_counts_what_is_sent() -> None:
    letters = [letter(number) for number in range(6)]
    preparation = Preparation(ReplayRules(limit=2), marked(*letters[:2]), lambda topics: dict.fromkeys(topics, 4))
    outcomes = [each.outcome for each in preparation.prepared(letters)]
    assert outcomes == [Outcome.ALREADY, Outcome.ALREADY, Outcome.REPLAY, Outcome.REPLAY]


@pytest.mark.parametrize(
    ("connector", "worker", "level"),
    [
        ({}, {}, "read_uncommitted"),
        ({}, {"consumer.isolation.level": "read_committed"}, "read_committed"),
        ({"consumer.override.isolation.level": "READ_COMMITTED"}, {}, "read_committed"),
    ],
)
def test_how_a_sink_reads(connector: dict[str, str], worker: dict[str, str], level: str) -> None:
    assert isolation_level(connector, worker, is_source=False) == level


def test_a_source_and_a_sink_that_is_passed_by_do_not_read_what_is_sent() -> None:
    assert isolation_level({}, {}, is_source=True) is None
    assert isolation_level({}, {}, is_source=False, to_topic="elsewhere") is None


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        ({"retention.ms": "100"}, True),
        ({"retention.ms": "1000"}, False),
        ({"retention.ms": "-1"}, False),
        ({"retention.ms": "100", "cleanup.policy": "compact"}, False),
        ({"retention.ms": "100", "message.timestamp.type": "LogAppendTime"}, False),
    ],
)
def test_records_older_than_their_topic_keeps_them_are_reported(settings: dict[str, str], warns: bool) -> None:
    assert (retention_warning("t", settings, 9_500, 10_000) is not None) is warns
