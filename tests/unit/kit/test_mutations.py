"""Small faults that are put into the product: each is another program that still compiles, and the same for a seed."""

from __future__ import annotations

import ast

from kit.mutations import ROOMS, drawn, faults_of
from kit.places import ROOT

TEXT = """
import logging

log = logging.getLogger(__name__)


def ready(seen: int, wanted: int = 3, *, quiet: bool = False) -> bool | None:
    log.info("it was %d", 7)
    note(seen)
    if not quiet and seen >= wanted:
        return seen is not None
    return wanted if quiet else seen  # ü in a comment
"""


def test_conditions_numbers_results_and_statements_are_changed_and_what_is_only_said_is_not() -> None:
    faults = faults_of("ready.py", TEXT)
    assert [(fault.old, fault.new) for fault in faults] == [
        ("3", "4"),
        ("False", "True"),
        ("note(seen)", "pass"),
        ("not quiet", "bool(quiet)"),
        ("not quiet and seen >= wanted", "((not quiet) or (seen >= wanted))"),
        ("seen >= wanted", "(seen > wanted)"),
        ("return seen is not None", "return None"),
        ("seen is not None", "(seen is None)"),
        ("return wanted if quiet else seen", "return None"),
        ("wanted if quiet else seen", "(seen if quiet else wanted)"),
    ]
    for fault in faults:
        changed = fault.put_into(TEXT)
        assert changed != TEXT
        ast.parse(changed)


def test_a_seed_draws_the_same_faults_as_many_from_each_room() -> None:
    rooms = ("runtime/storage", "runtime/webhooks")  # small ones: each is parsed as a whole
    faults = drawn(5, 4, rooms)
    assert faults == drawn(5, 4, rooms) != drawn(5, 5, rooms)
    assert [fault.path.split("/")[3] for fault in faults] == ["storage"] * 3 + ["webhooks"] * 2
    for fault in faults:
        ast.parse(fault.put_into((ROOT / fault.path).read_text("utf-8")))


def test_the_rooms_are_there() -> None:
    assert all((ROOT / "core" / "kconnect" / room).is_dir() for room in ROOMS)
