"""Parts of the tests: what is long and rare, in named parts that a run takes when a change can reach them, or in turn.

`make test` runs all that is in no part (`core`), the parts that the change reaches, and one more, whose turn it is by
the number of the commit; `make test-all` runs all, `make test-NAME` one part. The change is what differs from
where this branch left its upstream, or from the commit before when there is none (`make test BASE=REV` says another),
with what is not committed.

A change reaches a part when it is in one of the part's tests, in what of the kit these import, in one of the part's
own files, or in what its subjects import, over however many steps. Parts are about subjects above which nothing
stands but the worker: that whole workers go on working is held by `core`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CORE", "PARTS", "TURNS_KEPT", "Part", "chosen", "module_of", "part_of", "reached"]

CORE: Final = "core"
TURNS_KEPT: Final = 10
"""A part that has not run for so many commits runs. There are no more parts than that, so each has its turn in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`tests`: files and folders below tests/. `subjects`: modules and packages of the product. `files`: patterns."""

    name: str
    about: str
    tests: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


PARTS: Final[tuple[Part, ...]] = ()


def part_of(path: str, parts: Sequence[Part] = PARTS) -> str:
    """The part that a test file is in. Shape: `path` is below tests/."""
    for part in parts:
        if any(path == place or path.startswith(f"{place}/") for place in part.tests):
            return part.name
    return CORE


def module_of(path: str) -> str | None:
    """The module that a file of the repository is, None for one that is none."""
    for folder in ("core/", "cli/", "tests/"):
        if path.startswith(folder) and path.endswith(".py"):
            return path.removeprefix(folder).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return None


def reached(
    changed: Iterable[str], imports_of: Callable[[Part], Collection[str]], parts: Sequence[Part] = PARTS
) -> dict[str, str]:
    """Parts that a change can reach, each with a file that shows it. `imports_of`: what a part's tests and subjects
    are and import, over however many steps.
    """
    found: dict[str, str] = {}
    for part in parts:
        modules = imports_of(part)
        for path in changed:
            is_own = path.startswith("tests/") and part_of(path.removeprefix("tests/"), parts) == part.name
            is_file = any(fnmatch.fnmatch(path, pattern) for pattern in part.files)
            if is_own or is_file or module_of(path) in modules:
                found[part.name] = path
                break
    return found


def chosen(
    why_reached: Mapping[str, str],
    commit_number: int,
    commits_since: Mapping[str, int],
    parts: Sequence[Part] = PARTS,
) -> dict[str, str]:
    """Which parts run, and why. `commits_since`: how long ago each ran here, as far as that is known."""
    why = {name: f"{path} was changed" for name, path in why_reached.items()}
    for part in parts:
        if part.name not in why and commits_since.get(part.name, 0) >= TURNS_KEPT:
            why[part.name] = f"it last ran {commits_since[part.name]} commits ago"
    if parts:
        turn = parts[commit_number % len(parts)]
        why.setdefault(turn.name, f"its turn at commit {commit_number}")
    return why


def missing(parts: Sequence[Part], tests: Path) -> list[str]:
    """Places of parts that do not exist."""
    return [f"{part.name}: {place}" for part in parts for place in part.tests if not (tests / place).exists()]
