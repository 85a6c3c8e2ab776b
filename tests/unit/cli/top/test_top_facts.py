"""Which workers there are, and under which URL each is asked."""

from __future__ import annotations

from kconnect_cli.top.facts import ClusterFacts, StatusLook, WorkerFacts, WorkerLook, with_look, worker_urls
from kit.top_world import connector

ASKED = "http://localhost:8083"


def statuses(*workers: str):
    return {str(number): connector(str(number), "RUNNING", worker=worker) for number, worker in enumerate(workers)}


def test_the_only_worker_is_the_one_that_was_asked_by_whatever_name():
    assert worker_urls({}, ASKED, {}) == {"localhost:8083": ASKED}
    assert worker_urls(statuses("connect:8083"), ASKED, {}) == {"connect:8083": ASKED}


def test_workers_that_run_nothing_are_known_to_the_others_and_the_asked_one_keeps_its_url():
    members = {"w1:8083": ASKED, "w3:8083": "http://w3:8083"}
    assert worker_urls(statuses("w1:8083", "w2:8083"), ASKED, members) == {
        "w1:8083": ASKED,
        "w2:8083": "http://w2:8083",
        "w3:8083": "http://w3:8083",
    }


def test_workers_of_java_are_asked_at_the_addresses_that_statuses_name():
    assert worker_urls(statuses("w1:8443", "w2:8443"), "https://lb:443", {}) == {
        "w1:8443": "https://w1:8443",
        "w2:8443": "https://w2:8443",
    }


def test_a_worker_that_turns_out_to_have_another_name_is_not_there_twice():
    facts = ClusterFacts(place=ASKED)
    facts = with_look(facts, WorkerLook(1.0, WorkerFacts(id="localhost:8083", url=ASKED, kind="kconnect")))
    facts = with_look(facts, WorkerLook(2.0, WorkerFacts(id="w1:8083", url=ASKED, kind="kconnect")))
    assert list(facts.workers) == ["w1:8083"]


def after_a_death(**status):
    """Ids on the screen some seconds after w2 has died."""
    facts = ClusterFacts(place=ASKED)
    for id_, problem in (("w1:8083", ""), ("w2:8083", ""), ("w2:8083", "w2:8083 does not answer")):
        facts = with_look(facts, WorkerLook(1.0, WorkerFacts(id=id_, url=f"http://{id_}", problem=problem)))
    return set(with_look(facts, StatusLook(at_s=5.0, **status)).workers)


def test_a_worker_that_does_not_answer_goes_once_the_group_has_dropped_it():
    alone = statuses("w1:8083")
    assert after_a_death(statuses=alone, members=frozenset({"w1:8083"})) == {"w1:8083"}
    both = frozenset({"w1:8083", "w2:8083"})
    assert after_a_death(statuses=alone, members=both) == both, "the group waits for it"
    assert after_a_death(statuses=alone, members=None) == both, "nobody tells who is in the group"
    assert after_a_death(statuses=statuses("w1:8083", "w2:8083"), members=frozenset({"w1:8083"})) == both, "it has work"
