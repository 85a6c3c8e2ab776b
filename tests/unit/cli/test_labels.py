"""Labels of connectors, selectors over them, what may be pruned, and when what was applied has arrived."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kconnect.errors import ConfigError, ConnectError
from kconnect.model import AutoRestart, ConnectorState, ConnectorStatus, ConnectorType, Restarts, RunState, TaskState
from kconnect.runtime.config.dropins import ConnectorFile
from kconnect.runtime.config.label_keys import label_problems
from kconnect.runtime.config.labels import LABELS, LabelSelector, labels_of, labels_text, parse_labels
from kconnect_cli.commands.connectors.apply import SETTLES_S, Rollout
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.selection import Selection, select_names
from kconnect_cli.settings.changes import Pruning, split_by_labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        ("  ", {}),
        ("team=x", {"team": "x"}),
        (" team = x , example.com/env=prod-1 ", {"team": "x", "example.com/env": "prod-1"}),
        ("on=", {"on": ""}),
        ("owner=ann@example.com", {"owner": "ann@example.com"}),
    ],
)
def test_labels_are_pairs_with_commas_between_them(text, labels):
    assert parse_labels(text) == labels
    assert parse_labels(labels_text(labels)) == labels
    assert label_problems({LABELS: text}) == []


@pytest.mark.parametrize(
    "text",
    ["team", "team=x,", ",", "=x", "te am=x", "team=x y", "team=a=b", "team=${env:TEAM}", "team=x,team=y", "-a=x"],
)
def test_what_is_no_label_is_refused_with_the_key_and_not_read_as_one(text):
    with pytest.raises(ConfigError):
        parse_labels(text)
    assert labels_of({LABELS: text}) is None
    [(key, message)] = label_problems({LABELS: text})
    assert key == LABELS
    assert message.startswith(f"Invalid value {text} for configuration {LABELS}: ")


CONNECTORS = {"a": {"team": "x", "env": "prod"}, "b": {"team": "x"}, "c": {"team": "y"}, "d": {}, "broken": None}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["team=x"], "a b"),
        (["team==x"], "a b"),
        (["team = x"], "a b"),
        (["team!=x"], "c d"),
        (["team"], "a b c"),
        (["!team"], "d"),
        (["team=x,env=prod"], "a"),
        (["team=x", "env!=prod"], "b"),
        (["team,!env"], "b c"),
        (["team=z"], ""),
        (["team="], ""),
    ],
)
def test_a_selector_matches_what_holds_all_its_parts_and_never_what_cannot_be_read(texts, names):
    selector = LabelSelector.parse(texts)
    assert [name for name, labels in CONNECTORS.items() if selector.matches(labels)] == names.split()


@pytest.mark.parametrize("text", ["", "team=x,", "=x", "!=x", "!", "team in (a,b)", "team=x y", "te*m", "!team=x"])
def test_a_selector_that_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError):
        LabelSelector.parse([text])
    with pytest.raises(UsageProblem, match="--labels"):
        Selection.of(None, False, False, False, None, labels=[text])


def test_a_selector_is_positive_when_it_asks_for_a_label():
    assert [LabelSelector.parse([text]).is_positive for text in ("a", "a=b", "a!=b", "!a", "!a,b")] == [
        True,
        True,
        False,
        False,
        True,
    ]


def status(state=RunState.RUNNING, task=RunState.RUNNING, trace=None, restarts=None):
    tasks = (TaskState(0, task, "w", trace, restarts=restarts),)
    return ConnectorStatus("a", ConnectorState(state, "w"), tasks, ConnectorType.SOURCE)


def test_labels_narrow_what_states_prefixes_and_expressions_choose():
    statuses = {name: replace(status(), name=name) for name in CONNECTORS}
    chosen = Selection.of(["a|c"], True, False, False, None, labels=["team"])
    assert select_names(chosen, statuses, CONNECTORS) == ["a", "c"]
    chosen = Selection.of(None, False, False, True, None, labels=["team"])
    assert select_names(chosen, {**statuses, "c": status(task=RunState.FAILED)}, CONNECTORS) == ["c"]
    chosen = Selection.of(None, False, False, False, None, ["b"], ["team!=y"])
    assert select_names(chosen, statuses, CONNECTORS) == ["b"]
    with pytest.raises(UsageProblem):
        Selection.of(["a"], False, False, False, None, labels=["team"])


def test_prune_deletes_only_what_prefix_and_labels_both_allow_and_nothing_without_either():
    mine = Pruning(prefixes=("a", "b"), selector=LabelSelector.parse(["team=x"]), kept=frozenset({"b"}))
    assert mine.allows("a", {LABELS: "team=x"})
    assert not mine.allows("b", {LABELS: "team=x"}), "a file that is not applied has it"
    assert not mine.allows("c", {LABELS: "team=x"})
    assert not mine.allows("a", {LABELS: "team=y"})
    assert not mine.allows("a", {LABELS: "team"})
    assert not mine.allows("a", {})
    assert not Pruning().allows("a", {LABELS: "team=x"})


def test_files_are_split_by_labels_and_unreadable_ones_name_the_file():
    def file(name, labels):
        return ConnectorFile(Path(f"{name}.json"), name, {"name": name, LABELS: labels})

    ours, theirs = file("a", "team=x"), file("b", "team=y")
    selector = LabelSelector.parse(["team=x"])
    assert split_by_labels([ours, theirs], selector) == ([ours], [theirs])
    assert split_by_labels([theirs, file("c", "?")], None) == ([theirs, file("c", "?")], [])
    with pytest.raises(ConfigError, match=r"c\.json: kconnect\.labels of c: \? is not key=value"):
        split_by_labels([ours, file("c", "?")], selector)


def test_what_was_created_arrives_when_its_tasks_run_and_a_failure_ends_the_wait():
    rollout = Rollout(["a"], set(), {}, 0.0)
    assert rollout.look({}, 0.0) == {}
    assert rollout.look({"a": status(task=RunState.UNASSIGNED)}, 0.1) == {}
    assert rollout.open_texts() == ["a is RUNNING, task 0 UNASSIGNED"]
    with pytest.raises(ConnectError, match="a task 0 FAILED: Boom"):
        rollout.look({"a": status(task=RunState.FAILED, trace="Boom")}, 0.2)
    assert rollout.look({"a": status()}, 0.3) == {"a": "RUNNING"}
    assert rollout.open == []


@pytest.mark.parametrize("rest", [RunState.PAUSED, RunState.STOPPED])
def test_what_is_paused_or_stopped_does_not_have_to_run(rest):
    assert Rollout(["a"], set(), {}, 0.0).look({"a": status(rest, rest)}, 0.1) == {"a": str(rest)}


def test_what_was_updated_has_to_run_for_a_while_as_its_status_is_the_old_one_at_first():
    rollout = Rollout(["a"], {"a"}, {"a": status()}, 0.0)
    assert rollout.look({"a": status()}, SETTLES_S - 0.1) == {}
    assert rollout.look({"a": status(task=RunState.UNASSIGNED)}, SETTLES_S) == {}
    assert rollout.look({"a": status()}, 2 * SETTLES_S - 0.1) == {}
    assert rollout.look({"a": status()}, 2 * SETTLES_S) == {"a": "RUNNING"}


def test_a_failure_that_an_update_may_repair_counts_only_when_it_stays_and_another_one_at_once():
    failed = status(task=RunState.FAILED, trace="Boom")
    rollout = Rollout(["a"], {"a"}, {"a": failed}, 0.0)
    assert rollout.look({"a": failed}, 0.1) == {}
    with pytest.raises(ConnectError, match="Other"):
        rollout.look({"a": status(task=RunState.FAILED, trace="Other")}, 0.2)
    with pytest.raises(ConnectError, match="Boom"):
        rollout.look({"a": failed}, SETTLES_S)


def test_a_failure_that_a_restart_follows_is_not_for_good():
    def failed(state):
        return {"a": status(task=RunState.FAILED, trace="Boom", restarts=Restarts(state, 1, 5))}

    rollout = Rollout(["a"], set(), {}, 0.0)
    assert rollout.look(failed(AutoRestart.WAITING), 0.1) == {}
    assert rollout.open_texts() == ["a is RUNNING, task 0 FAILED (restart 2 of 5 follows: Boom)"]
    with pytest.raises(ConnectError, match="Boom"):
        rollout.look(failed(AutoRestart.GIVEN_UP), 0.2)


def test_what_is_deleted_meanwhile_ends_the_wait():
    rollout = Rollout(["a"], set(), {"a": status()}, 0.0)
    with pytest.raises(ConnectError, match="a was deleted meanwhile"):
        rollout.look({}, 0.1)
