"""Guarantees in tests/README.md: each test that is named exists, and no file that starts something real is left out."""

from __future__ import annotations

import ast
import re

from kit.parts import PARTS
from kit.places import TESTS

_PAGE = (TESTS / "README.md").read_text("utf-8")
_SECTIONS = ["Levels", "Running", "Costs", "Guarantees"]
# A test as it is named there: a file below tests/, and maybe a function of it
_NAMED = re.compile(r"`((?:unit|integration|system)/[\w/]+\.py)(?:::(\w+))?`")


def rows() -> list[tuple[str, str]]:
    """Each guarantee with the cell that says what holds it."""
    lines = _PAGE[_PAGE.index("## Guarantees") :].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [(guarantee, held_by) for guarantee, held_by in cells if guarantee != "guarantee"]


def names_in(path: str) -> set[str]:
    """Functions, classes, and what is assigned, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((TESTS / path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def missing_of(page: str) -> list[str]:
    """Tests that a page names and that are not there."""
    missing = []
    for path, function in _NAMED.findall(page):
        if not (TESTS / path).is_file():
            missing.append(path)
        elif function and function not in names_in(path):
            missing.append(f"{path}::{function}")
    return missing


def test_every_test_that_is_named_exists() -> None:
    assert missing_of(_PAGE) == []


def test_every_file_that_starts_something_real_holds_a_guarantee_that_is_named() -> None:
    files = {str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")}
    files = {path for path in files if path.startswith(("integration/", "system/"))}
    assert sorted(files - {path for path, _ in _NAMED.findall(_PAGE)}) == []


def test_a_test_that_does_not_exist_is_noticed() -> None:
    named = "unit/docs/test_tests_readme.py"
    page = f"`{named}`, `{named}::missing_of`, `{named}::no_such_test`, `unit/docs/test_no_such_file.py`"
    assert missing_of(page) == [f"{named}::no_such_test", "unit/docs/test_no_such_file.py"]


def test_every_guarantee_is_a_sentence_that_a_test_holds() -> None:
    assert len(rows()) > 100
    assert [guarantee for guarantee, held_by in rows() if not _NAMED.search(held_by)] == []
    assert [guarantee for guarantee, _ in rows() if not re.match(r"[A-Z`].*\.$|docs/.*\.$|https.*\.$", guarantee)] == []


def test_nothing_that_looks_like_a_file_of_tests_escapes() -> None:
    """A place in another form than the check reads would be looked at by nobody."""
    files = set(re.findall(r"[\w/]*test_\w+\.py", _PAGE))
    assert files == {path for path, _ in _NAMED.findall(_PAGE)}


def test_the_sections_are_there_in_their_order() -> None:
    assert re.findall(r"^## (.+)$", _PAGE, re.MULTILINE) == _SECTIONS


def test_the_page_tells_each_part_as_the_kit_does() -> None:
    running = _PAGE[_PAGE.index("## Running") : _PAGE.index("## Costs")]
    reported = dict(re.findall(r"^\| `([a-z]+)` \| (.*) \|$", running, re.MULTILINE))
    assert reported == {part.name: part.about for part in PARTS}
