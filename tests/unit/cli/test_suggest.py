"""The command that somebody most likely meant."""

from __future__ import annotations

import pytest

from kconnect_cli.options.suggest import hint_of_extra, hint_of_option, likely_commands

COMMANDS = [
    tuple(line.split())
    for line in """
quickstart
standalone
connectors list
connectors show
connectors create
connectors delete
connectors apply
connectors status
connectors resume
config get
config set
offsets show
offsets alter
cluster members
topics doctor
topics config show
topics config get
topics config put
topics status get
broker status
broker start
contexts use
contexts remove
loggers list
plugins list
slots
""".strip().splitlines()
]
ALIASES = {"connector": "connectors", "topic": "topics"}


def first(here: str, line: str) -> str:
    word, *rest = line.split()
    found = likely_commands(tuple(here.split()), word, rest, COMMANDS, ALIASES)
    return " ".join(found[0]) if found else ""


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("status", "connectors status"),
        ("statsu", "connectors status"),
        ("describe", "connectors show"),
        ("doctor", "topics doctor"),
        ("get", "connectors list"),
        ("get connectors", "connectors list"),
        ("get offsets lines", "offsets show"),
        ("describe connector lines", "connectors show"),
        ("delete connector lines", "connectors delete"),
        ("apply -f lines.json", "connectors apply"),
        ("patch", "config set"),
        ("logs", "connectors status"),
        ("conectors", "connectors"),
        ("standalnoe", "standalone"),
        ("members", "cluster members"),
        ("LIST", "connectors list"),
        ("frobnicate", ""),
    ],
)
def test_without_a_noun_it_is_the_command_of_a_group_or_a_verb_of_kubectl(line: str, meant: str) -> None:
    assert first("", line) == meant


@pytest.mark.parametrize(
    ("here", "line", "meant"),
    [
        ("connectors", "statsu", "connectors status"),
        ("connectors", "describe", "connectors show"),
        ("connectors", "get", "connectors list"),
        ("connectors", "logs", "connectors status"),
        ("contexts", "delete", "contexts remove"),
        ("offsets", "set", "offsets alter"),
        ("topics", "get", "topics config get"),
        ("topics config", "ls", "topics config show"),
        ("topics config", "patch", "topics config put"),
        ("connectors", "members", "cluster members"),
        ("connectors", "frobnicate", ""),
    ],
)
def test_within_a_group_its_own_commands_come_first(here: str, line: str, meant: str) -> None:
    assert first(here, line) == meant


def test_three_at_most_are_named_each_once() -> None:
    found = likely_commands((), "show", [], [*COMMANDS, ("tasks", "show"), ("slots", "show")], ALIASES)
    assert len(set(found)) == len(found) <= 3


def test_a_kind_before_the_name_as_of_kubectl_is_one_word_too_many():
    hint = hint_of_extra("connect describe", {"name": "connector", "show_secrets": False})
    assert hint == "connect describe takes no kind of thing, only the connector's name: connect describe NAME."
    assert "connect connectors status NAME" in str(hint_of_extra("connect status", {}))
    assert hint_of_extra("connect describe", {"name": "orders"}) is None


def test_an_option_before_the_command_of_a_group_names_the_commands_that_take_it():
    assert hint_of_option("connect broker", "--port", ["start"]) == "connect broker start takes --port."
    assert (
        hint_of_option("connect topics", "--timeout", ["import", "doctor"])
        == "connect topics import and connect topics doctor take --timeout."
    )
    assert hint_of_option("connect", "--nope", []) is None
    assert hint_of_option("connect", "-o", ["a", "b", "c", "d"]) is None
