"""Who says RUNNING of what does not run, and who does not agree with the rest."""

from __future__ import annotations

from kit.outages.judge import Claims, disagreements, side_by_side
from kit.outages.words import Word

A, B = ("source", 0), ("source", 1)
BOUND = {A: 5.0, B: 5.0}
IDS = {"worker-0": "h:1", "worker-1": "h:2"}
RUNS = {A: "RUNNING", B: "RUNNING"}
AGREED = [
    Word("worker-0 slots", 0, {A: "HELD"}),
    Word("worker-1 slots", 0, {B: "HELD"}),
    Word("worker-0 REST", 0, RUNS, {A: "h:1", B: "h:2"}),
    Word("worker-0 /health", 0, note="200", says_well=True),
    Word("cluster members", 0, dict.fromkeys((A, B), "PLACED"), {A: "h:1", B: "h:2"}),
]


def at(moment: float, states=RUNS, **more: bool) -> Word:
    return Word("REST", moment, states, **more)


def test_running_may_be_said_as_long_as_the_bound_after_the_last_record_and_no_longer():
    claims, last = Claims(), {A: 10.0, B: 14.0}
    assert claims.false(at(9.0), last, BOUND) == []
    assert claims.false(at(15.0), last, BOUND) == []
    assert claims.false(at(15.5), last, BOUND) == [
        "REST says RUNNING of source-0, of which nothing has come for 5.5 s (allowed: 5 s)"
    ]


def test_who_begins_to_say_it_may_be_ahead_of_the_first_record_by_as_much():
    claims, last = Claims(), {A: 10.0, B: 10.0}
    claims.false(at(12.0), last, BOUND)
    assert claims.false(at(14.0, {A: "UNASSIGNED"}), last, BOUND) == []
    assert claims.false(at(30.0), last, BOUND) == []
    assert claims.false(at(35.5), last, BOUND)


def test_a_worker_that_stood_still_begins_anew_with_what_it_says():
    claims, last = Claims(), {A: 10.0, B: 10.0}
    claims.false(Word("worker-0 REST", 9.0, RUNS), last, BOUND)
    claims.forget("worker-0")
    assert claims.false(Word("worker-0 REST", 40.0, RUNS), last, BOUND) == []
    assert len(claims.false(Word("worker-0 REST", 45.5, RUNS), last, BOUND)) == 2


def test_who_says_that_kafka_is_away_does_not_claim_that_anything_runs():
    claims, last = Claims(), {A: 10.0, B: 10.0}
    claims.false(at(12.0), last, BOUND)
    assert claims.false(at(100.0, says_away=True), last, BOUND) == []


def test_who_is_asked_rarely_is_held_to_what_those_say_who_are_asked_often():
    claims, last = Claims(), {A: 10.0, B: 10.0}
    direct = Word("status --direct", 30.0, RUNS, is_rare=True)
    claims.false(at(29.0), last, BOUND)
    assert claims.false(direct, last, BOUND) == [], "the others have just begun to say it: the tasks begin"
    claims.false(at(29.5, {}), last, BOUND)
    assert len(claims.false(direct, last, BOUND)) == 2, "nobody else says it"


def test_all_agree_when_everything_moves_and_everybody_names_the_slot_that_holds_it():
    assert disagreements(AGREED, {A, B}, [A, B], IDS) == []


def test_each_way_to_disagree_is_named():
    def reported(*changed: Word, moving=(A, B)) -> list[str]:
        by_source = {word.source: word for word in (*AGREED, *changed)}
        return disagreements(list(by_source.values()), moving, [A, B], IDS)

    assert reported(moving=[A]) == ["nothing comes of source-1"]
    assert reported(Word("worker-1 slots", 0)) == ["no slot holds source-1"]
    assert reported(Word("worker-0 REST", 0, {A: "RUNNING", B: "UNASSIGNED"})) == [
        "worker-0 REST says UNASSIGNED of source-1"
    ]
    assert reported(Word("cluster members", 0, {B: "PLACED"}, {B: "h:1"})) == [
        "cluster members says that source-1 is at h:1, the slot that holds it is at h:2"
    ]
    assert reported(Word("worker-0 /health", 0, note="503 starting")) == ["worker-0 /health says 503 starting"]
    assert reported(Word("worker-0 REST", 0, RUNS, says_away=True)) == ["worker-0 REST says that Kafka is away: "]
    assert reported(Word("worker-0 REST", 0, is_answer=False, note="refused")) == [
        "worker-0 REST says nothing: refused"
    ]


def test_words_stand_side_by_side_with_the_count():
    table = side_by_side(AGREED[2:4], {A: 7}, [A, B]).splitlines()
    assert table[0].split() == ["source-0", "source-1", "and"]
    assert table[1].split() == ["records", "so", "far", "7", "0"]
    assert table[2].split() == ["worker-0", "REST", "RUNNING", "1", "RUNNING", "2"]
    assert table[3].split() == ["worker-0", "/health", "-", "-", "200"]
