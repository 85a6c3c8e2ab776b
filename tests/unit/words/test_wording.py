"""What is said to people: one way to say each thing, wherever it is said."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kconnect
import kconnect_cli
from kconnect.logs.wording import pluralize
from kit.wording import TERMS, doubled, former_terms, fragments

# Bytes, characters, columns and the like are left out: a limit or a width is rarely 1
_NOUNS = "tasks|connectors|records|slots|statuses|times|errors|documents|lines|rows|attempts|requests|files|restarts"
# What stopped readers -> what is said instead; Java's own messages are as they are
_INSTEAD = {
    r"\bcan not\b(?! be supplied as the configuration value)": "cannot",
    r"\b(is|are) not there\b": "does not exist",
    r"\bis no (setting|level|type|state)\b": "Unknown setting: ..",
    r"\bstands? in no\b": "does not record ..",
    r"\bso already\b": "already up to date",
    r"\b(is|are|was|were) left behind\b": "was abandoned",
    r"\bmore like it\b": "repeated 2 times",
    r"\bThere are the\b": "Available ..",
    # A constant is not 1, and neither is a choice of words; `:.0f` is a rate
    rf"(?:\{{(?![A-Z_]+\}})[^}}:']*(?::,?d?)?\}}|%[ds]) (?:{_NOUNS})\b(?! of \{{|/s|[.=])": "pluralize(..)",
}
# Where a number before a word is no count of it, or is Java's own message
_NOT_COUNTED = {"connector_entry.py", "quickstart.py", "connector_history.py", "reader.py", "health.py"}


def messages() -> Iterator[tuple[str, str]]:
    """Place and text of every string but docstrings."""
    for package in (kconnect, kconnect_cli):
        root = Path(next(iter(package.__path__)))
        for path in sorted(root.rglob("*.py")):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if id(node) in docs:
                    continue
                if isinstance(node, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else _shown(part) for part in node.values)
                    yield f"{path.relative_to(root)}:{node.lineno}", "".join(str(part) for part in parts)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(root)}:{node.lineno}", node.value


def _shown(part: ast.expr) -> str:
    """`{size:,}` of an f-string, without what would end it for a pattern."""
    assert isinstance(part, ast.FormattedValue)
    form = "" if part.format_spec is None else ":" + ast.unparse(part.format_spec)[2:-1]
    return "{" + re.sub(r"[{}:]", "", ast.unparse(part.value)) + form + "}"


def test_no_message_has_words_that_made_readers_stop() -> None:
    any_of_them = re.compile("|".join(_INSTEAD))
    found = [
        f"{place}: {text!r}: say {better!r}"
        for place, text in messages()
        if any_of_them.search(text)
        for words, better in _INSTEAD.items()
        if re.search(words, text) and Path(place.partition(":")[0]).name not in _NOT_COUNTED
    ]
    assert found == []


def test_one_is_one_and_thousands_are_read_at_a_glance() -> None:
    assert [pluralize(number, "task") for number in (0, 1, 2, 1006)] == ["0 tasks", "1 task", "2 tasks", "1,006 tasks"]
    assert pluralize(2, "status", "statuses") == "2 statuses"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('def f():\n    """None for what no query has written."""', 2),
        ('class A:\n    """Has a field."""\n\n    name: str\n    """Of the last put."""', 5),
        ('"""\n    `Those` of several."""', 1),
        ('def f():\n    """Returns None if no query has written it."""\n    return "Of text"', 0),
    ],
)
def test_a_docstring_that_is_no_sentence_is_found(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    assert [int(place.split(":")[1]) for place in fragments([file], tmp_path)] == [line] * bool(line)


@pytest.mark.parametrize("text", ["a {}", "A {cap}", "is_{}", "{}_by", "X_{up}", "old{cap}Of", "{cap}Of"])
def test_a_term_that_has_a_better_one_is_found_in_names_too(tmp_path: Path, text: str) -> None:
    term = next(iter(TERMS)).split()[0]
    file = tmp_path / "a.py"
    file.write_text(f"fine\n{text.format(term, cap=term.capitalize(), up=term.upper())}\nx{term} {term}x")
    assert [place.split(":")[1] for place in former_terms([file], tmp_path)] == ["2"]


def test_a_word_that_stands_twice_in_a_document_is_found_over_the_end_of_a_line_too(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("It is the same same.\n```\nls ls\n```\nIt becomes a dead\ndead letter: --ca ca.pem\n")
    assert [place.split(":")[1] for place in doubled([file], tmp_path)] == ["1", "5"]
