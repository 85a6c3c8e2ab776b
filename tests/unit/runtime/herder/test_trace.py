"""The trace of a state machine: bounded, without values of configs, and enough to decide all of it once more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kconnect.errors import ConflictError
from kconnect.model import ConnectorOffset, TargetState, TaskId
from kconnect.runtime.herder.decisions.events import Started, Tick, Written
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.decisions.requests import AskOffsets, AskPut
from kconnect.runtime.herder.decisions.writes import ForKey
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kit.herder_state import Member
from kit.trace_replay import replay

SECRET = "s3cr3t-of-the-test"


def busy(member: Member, times: int = 1) -> Member:
    """Connectors come, change, stop and go; some of it is asked for."""
    for number in range(times):
        name = f"c{number % 3}"
        member.connector(name, tasks=2, password=f"{SECRET}-{number}")
        member.read()
        member.step(Joining())
        member.place([name], [TaskId(name, 0), TaskId(name, 1)])
        member.caught_up()
        member.ask(AskPut(name, {"password": SECRET}, None, replace=True))
        member.ask(AskOffsets(name, [ConnectorOffset({"file": SECRET}, {"line": 3})]))
        member.store.put_target_state(name, TargetState.STOPPED)
        member.read()
        member.wait(200)
        member.step(Lost("for the test"))
        if number % 3 == 2:
            member.store.remove_connector_config("c0")
            member.read()
    return member


def through_json(machine: HerderState) -> Any:
    return json.loads(json.dumps(machine.trace()))


def test_a_trace_decides_the_same_in_a_fresh_machine() -> None:
    member = busy(Member().settled(), times=4)

    document = through_json(member.state)

    assert replay(document) == len(document["entries"]) > 30


def test_what_was_forgotten_is_no_loss_as_a_checkpoint_stands_before_what_is_left() -> None:
    member = busy(Member().settled(), times=150)

    document = through_json(member.state)

    assert document["entries"][0]["number"] > 1, "the beginning is forgotten"
    assert 250 <= len(document["entries"]) <= 500
    assert replay(document) == len(document["entries"])


def test_a_replay_finds_what_was_decided_otherwise() -> None:
    document = through_json(busy(Member().settled()).state)
    entry = next(entry for entry in document["entries"] if entry["instructions"])
    entry["instructions"].pop()

    with pytest.raises(AssertionError, match=f"entry {entry['number']}"):
        replay(document)


def test_values_of_configs_and_keys_are_not_in_it_but_names_are() -> None:
    member = busy(Member().settled(), times=2)

    text = json.dumps(member.state.trace())

    assert SECRET not in text
    assert "kkkk" not in text, "the session key"
    assert "password" in text
    assert "c1" in text


def test_equal_values_have_equal_pseudonyms_in_one_trace_and_others_in_the_next() -> None:
    first, second = busy(Member().settled()).state, busy(Member().settled()).state

    def pseudonym(machine: HerderState) -> str:
        asked = next(e["event"] for e in machine.trace()["entries"] if e["event"]["type"] == "Asked")
        return str(dict(asked["request"]["config"]["map"])["password"])

    assert pseudonym(first) == pseudonym(first)
    assert pseudonym(first) != pseudonym(second)


def test_messages_lose_the_secrets_that_the_process_knows() -> None:
    member = Member().settled()
    member.step(Written(ForKey(), member.snapshot, ConflictError(f"no right with {SECRET}")))

    text = json.dumps(member.state.trace(clean=lambda said: said.replace(SECRET, "[hidden]")))

    assert "no right with [hidden]" in text
    assert SECRET not in text


def test_ticks_that_call_for_nothing_are_not_in_it() -> None:
    member = Member().settled()
    before = member.state.trace()["last"]
    member.wait(10)
    member.connector("c")
    member.read()
    member.wait(100)

    entries = member.state.trace(since=before)["entries"]

    assert [entry["event"]["type"] for entry in entries] == ["ConfigsChanged", "Tick"]


def test_an_event_that_breaks_the_machine_is_the_last_of_the_trace_and_breaks_it_again() -> None:
    machine = HerderState()
    machine.step(Tick(1))
    machine.step(Started(ClusterSnapshot()))
    with pytest.raises(AttributeError):
        machine.step(Written(ForKey(), None))  # type: ignore[arg-type] # a bug of the shell's

    document = json.loads(json.dumps(machine.trace()))

    assert document["entries"][-1]["error"] == "AttributeError"
    assert replay(document) == len(document["entries"])
