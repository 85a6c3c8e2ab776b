"""Turns of phrase that make native readers stop, in code, comments, docstrings and documents. `make lint` runs it.

Docstrings that are no sentence, by how they begin, are found too. Prints each place with what to say instead, and ends
with 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kit.places import DOCS, ROOT

INSTEAD = {
    r"\bcan not\b(?! be supplied as the configuration value)": "cannot",  # Java's own words
    r"\banew\b": "again; new",
    r"\bis no use\b": "will not help",
    r"\b(?:do|does) not go together\b": "are incompatible",
    r"\bcounts? with --\S+ only\b": "is only valid with",
    r"\bleft behind\b": "abandoned",
    r"\bhanded on\b": "forwarded, passed on",
    r"\bin good order\b": "cleanly",
    r"\bthere and then\b": "immediately",
    r"\bmany an? (?!one)\w+": "many",
    r"\b(?:stand|stands|stood) (?:in|behind) (?:the|a|its|no|it)\b": "is in, follows",
    r"\bhow (?:a|the|its|their|each|this) \w+ fares?\b": "the condition of",
    r"\bcomes? of it\b": "results",
    r"\bgets? to know\b|\bcomes? to know\b": "learns",
    r"\ball there is\b": "everything; all",
    r"\bthere is to be\b|\bthere are to be\b|\b(?:is|are) to be (?!found)\w+": "must be; should be",
    r"\bawaited\b(?! by)": "expected",
    r"\bmore like it\b": "repeated",
    r"\bto be had\b|\bbe had\b|\bwere had\b": "available; obtained",
    r"\b(?:is|are) so already\b": "is already up to date",
    r"\bis no (?:setting|level|type|state|number|text)\b": "is not a ..; Unknown ..",
    r"\bBoth ends prove\b": "authenticate each other",
    r"\bthat knows nothing\b": "unaware",
    r"\bby (?:him|her|it)self then\b": "on its own",
    r"\bso often\b": "that many times",
    r"\bnor does it\b": "and does not",
    r"\bwhat is otherwise\b": "other differences",
    r"\b(?:is|are|was|were) told (?:of|where|at|in|by|with|once|before|when|the|as|so)\b": "is reported, is shown",
    r"\b(?:in|of|for) so many\b": "in that many",
    r"(?<!\.)\bcounted\((?!self|scope)": "pluralize(",
    r"\bthe road\b": "the way; how to",
    r"\b(?:its|their|whose|our|a) past\b": "history",
}

_ABOUT_WORDS = {Path(__file__).resolve(), DOCS / "style.md", ROOT / "core/kconnect/runtime/config/former_names.py"}
_WRITTEN = {".py", ".md", ".rst", ".html", ".js", ".css", ".toml", ".yaml", ".yml", ".java", ".properties"}

# Words of this code's own making, and the word of the field for each: not in names either, of modules, files and tests
TERMS = {
    "deed deeds": "action",
    "standing": "health, status",
    "mend mends mended mending mender menders mendable": "auto-restart, recover, repair, edit, fix",
    "figure figures": "metric, value, number",
    "desk desks": "reader, world",
    "told": "reported, answered, distinguished, asked",
    "resting rests": "idle-closing, is closed while idle, is paused or stopped",
    "sick sickness sicknesses": "degraded, fault",
    "seal seals sealed sealing vouch vouched vouches vouching": "sign, signature",
    "visit visits": "page request",
}

# First words of docstrings that lean on a name instead of saying what it does, and what a sentence begins with there
FRAGMENTS = {
    "None": "Returns None if; Is None where",
    "Of": "Gives the .. of; Reads; Counts",
    "As": "Works as; Gives it as",
    "Those": "Gives those; Holds those",
    "Itself": "Returns self",
}


def sources() -> Iterator[Path]:
    """Python files of the two packages, and the documents that are written by hand."""
    for folder in ("core", "cli"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted((ROOT / "docs").glob("*.md"))
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))


def tracked() -> Iterator[Path]:
    """Every text file of the repository that people wrote, without recorded data and what lists the words."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        path = ROOT / name
        if (
            path.suffix in _WRITTEN
            and not name.startswith("tests/golden/")
            and "/vendor/" not in name
            and path not in _ABOUT_WORDS
            and path.is_file()
        ):
            yield path


def former_terms(files: Iterable[Path], root: Path = ROOT) -> Iterator[str]:
    """`file:line: 'word': say 'better'` for each term that has a better one, in words, identifiers and file names."""
    better = {word: say for words, say in TERMS.items() for word in words.split()}
    term = _term(better)
    for path in files:
        name, text = path.relative_to(root).as_posix(), path.read_text("utf-8")
        if not any(word in f"{name}{text}".lower() for word in better):  # most files, in a tenth of the time
            continue
        for number, line in enumerate([name, *text.splitlines()]):
            if found := term.search(line):
                yield f"{name}:{number}: {found[0]!r}: say {better[found[0].lower()]!r}"


def _term(words: Iterable[str]) -> re.Pattern[str]:
    """Finds the words, as parts of names too, where `_` and a capital begin the next word."""
    small = "|".join(words)
    title = "|".join(word.capitalize() for word in words)
    return re.compile(
        rf"(?<![A-Za-z])(?:{small})(?![a-z])|(?<![A-Z])(?:{title})(?![a-z])|(?<![A-Za-z])(?:{small.upper()})(?![A-Za-z])"
    )


def findings() -> Iterator[str]:
    """`file:line: 'phrase': say 'better'` for each phrase."""
    phrases = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in INSTEAD.items()]
    for path in sources():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        there = [(phrase, better) for phrase, better in phrases if phrase.search(text)]
        for number, line in enumerate(text.splitlines() if there else (), 1):
            for phrase, better in there:
                if found := phrase.search(line):
                    yield f"{name}:{number}: {found[0]!r}: say {better!r}"


def fragments(files: Iterable[Path], root: Path = ROOT) -> Iterator[str]:
    """`file:line: 'word': say 'better'` for each docstring, of attributes too, that begins as no sentence does."""
    for path in files:
        if path.suffix == ".py":
            name = path.relative_to(root).as_posix()
            for number, text in docstrings(ast.parse(path.read_text("utf-8"))):
                word = re.match(r"\W*(\w*)", text)
                if word and (better := FRAGMENTS.get(word[1])):
                    yield f"{name}:{number}: a docstring that begins with {word[1]!r} is no sentence: say {better!r}"


def doubled(files: Iterable[Path], root: Path = ROOT) -> Iterator[str]:
    """`file:line: 'word' stands twice` for each word of a document that follows itself, over the end of a line too."""
    for path in files:
        if path.suffix == ".md":
            text = re.sub(
                r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), path.read_text("utf-8"), flags=re.S | re.M
            )
            for found in re.finditer(r"\b([A-Za-z]{2,})\s+\1\b(?!\.\w|[-=])", text):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{path.relative_to(root).as_posix()}:{line}: {found[1]!r} stands twice"


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string that stands alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


if __name__ == "__main__":
    found = [*findings(), *fragments(sources()), *former_terms(tracked()), *doubled(tracked())]
    sys.stdout.writelines(f"{place}\n" for place in found)
    sys.exit(bool(found))
