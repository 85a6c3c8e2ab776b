"""The parts that this run takes: asks git what has changed and the import graph what that reaches (kit.parts decides).

`--parts auto`, `all`, `core`, or names with commas between them; without it pytest runs what it is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import grimp
import pytest

from kit.parts import CORE, PARTS, TURNS_KEPT, Part, chosen, is_taken, reached
from kit.places import ROOT, TESTS

__all__ = ["PartChoice", "add_options", "is_chosen"]

_CHOSEN: Final = "KCONNECT_TEST_PARTS"
_RECORD: Final = "kconnect-test-parts.json"
_GIT_S: Final = 30


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("parts")
    group.addoption("--parts", help="auto, all, core, or names of parts with commas between them")
    group.addoption("--parts-base", default="", help="what the change is compared with, for --parts auto")


def is_chosen(part: str) -> bool:
    """Whether this run takes a part, for a file that is in a part as far as some of its tests are."""
    reported = os.environ.get(_CHOSEN)
    return reported is None or part in reported.split(",")


class PartChoice:
    """The plugin. The run's first process chooses; those of xdist are reported by their environment."""

    def __init__(self, config: pytest.Config) -> None:
        self._why: dict[str, str] = {}
        self._is_first = not hasattr(config, "workerinput")
        wanted = config.getoption("--parts")
        if self._is_first:
            os.environ.pop(_CHOSEN, None)
            if wanted:
                self._why = _wanted(wanted, config.getoption("--parts-base"))
                os.environ[_CHOSEN] = ",".join(self._why)
        reported = os.environ.get(_CHOSEN)
        self._names = None if reported is None else frozenset(reported.split(","))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Tells which and why, also where pytest is asked to be quiet."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not self._why:
            return
        for name, why in self._why.items():
            reporter.write_line(f"part {name}: {why}")
        if left := [part.name for part in PARTS if part.name not in self._why]:
            reporter.write_line(f"not this time: {', '.join(left)}")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Files of other parts are not even imported."""
        if self._names is None or collection_path.suffix != ".py" or not collection_path.is_relative_to(TESTS):
            return None
        return not is_taken(collection_path.relative_to(TESTS).as_posix(), self._names) or None

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._is_first and self._why and exitstatus == pytest.ExitCode.OK:
            _note_run(self._why)


def _wanted(wanted: str, base: str) -> dict[str, str]:
    if wanted == "all":
        return dict.fromkeys([CORE, *(part.name for part in PARTS)], "all were asked for")
    if wanted != "auto":
        names = wanted.split(",")
        if unknown := [name for name in names if name not in (CORE, *(part.name for part in PARTS))]:
            known = ", ".join([CORE, *(part.name for part in PARTS)])
            raise pytest.UsageError(f"Unknown part of the tests: {', '.join(unknown)}. There are: {known}")
        return dict.fromkeys(names, "asked for")
    always = {CORE: "always"}
    number = _git("rev-list", "--count", "HEAD")
    since = _base(base)
    if number is None or since is None:
        return always | {part.name: "no history tells what was changed" for part in PARTS}
    differing = (_git("diff", "--name-only", since) or "").splitlines()
    unknown_yet = (_git("ls-files", "--others", "--exclude-standard") or "").splitlines()
    return always | chosen(reached([*differing, *unknown_yet], _Imports()), int(number), _commits_since())


def _base(asked: str) -> str | None:
    """The commit that the change is compared with; None when there is no history."""
    if asked:
        if (found := _git("rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}")) is None:
            raise pytest.UsageError(f"Unknown revision: {asked}")
        return found
    upstream = _git("merge-base", "HEAD", "@{upstream}")
    if upstream is not None and upstream != _git("rev-parse", "HEAD"):
        return upstream
    return _git("rev-parse", "--verify", "--quiet", "HEAD~1^{commit}")


class _Imports:
    """What a part's tests and subjects import."""

    def __init__(self) -> None:
        sys.path.insert(0, str(TESTS))  # grimp looks for kit there
        try:
            self._graph = grimp.build_graph("kconnect", "kconnect_cli", "kit", cache_dir=None)
        finally:
            sys.path.remove(str(TESTS))

    def __call__(self, part: Part) -> Collection[str]:
        found: set[str] = set()
        for subject in part.subjects:
            found |= {subject, *self._graph.find_descendants(subject)}
            found |= self._graph.find_upstream_modules(subject, as_package=True)
        ahead = {module for path in _files_of(part) for module in _kit_imports(path)}
        while ahead:
            module = ahead.pop()
            found.add(module)
            direct = self._graph.find_modules_directly_imported_by(module)
            ahead |= {each for each in direct if each.startswith("kit.")} - found
        return found


def _files_of(part: Part) -> list[Path]:
    places = [TESTS / place for place in (*part.tests, *part.shared)]
    return [path for place in places for path in (place.rglob("*.py") if place.is_dir() else [place])]


def _kit_imports(path: Path) -> list[str]:
    lines = path.read_text("utf-8").splitlines()
    return [line.split()[1] for line in lines if line.startswith("from kit.")]


def _record() -> Path | None:
    folder = _git("rev-parse", "--git-path", _RECORD)
    return None if folder is None else ROOT / folder


def _commits_since() -> dict[str, int]:
    """part -> how many commits ago it last ran here; nothing in a clone where nothing ran yet."""
    record = _record()
    if record is None or not record.exists():
        return {}
    found = {}
    for name, commit in json.loads(record.read_text()).items():
        count = _git("rev-list", "--count", f"{commit}..HEAD")
        found[name] = TURNS_KEPT if count is None else int(count)  # a commit that is gone was long ago
    return found


def _note_run(ran: Collection[str]) -> None:
    """Which parts ran at this commit; the first run of a clone begins to count for all."""
    record, head = _record(), _git("rev-parse", "HEAD")
    if record is None or head is None:
        return
    known = json.loads(record.read_text()) if record.exists() else {part.name: head for part in PARTS}
    known.update({part.name: head for part in PARTS if part.name in ran})
    record.write_text(json.dumps(known, indent=1))


def _git(*arguments: str) -> str | None:
    """What git prints; None when it fails, as without a repository or without git."""
    command: Sequence[str] = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
