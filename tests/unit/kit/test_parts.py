"""Which parts of the tests a run takes: what a change reaches, whose turn it is, and what has not run for long."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from kit.parts import CORE, PARTS, TURNS_KEPT, Part, chosen, is_taken, missing, module_of, part_of, reached
from kit.places import ROOT, TESTS

MIRROR = Part(
    name="mirror",
    about="",
    tests=("system/worker/mirror",),
    subjects=("kconnect.worker.mirror",),
    files=("docs/mirror.md",),
)
FUZZ = Part(
    name="fuzz", about="", tests=("integration/runtime/rest/test_fuzz.py",), subjects=("kconnect.runtime.rest",)
)
BOTH = (FUZZ, MIRROR)
MODULES = {
    "mirror": {"kconnect.worker.mirror.settings", "kconnect.java.compat.properties", "kit.mirror"},
    "fuzz": {"kconnect.runtime.rest"},
}


def _reached(*paths: str) -> dict[str, str]:
    return reached(paths, lambda part: MODULES[part.name], BOTH)


def test_a_file_is_in_the_part_that_names_it_or_its_folder_and_else_in_none() -> None:
    assert part_of("system/worker/mirror/test_flows.py", BOTH) == "mirror"
    assert part_of("integration/runtime/rest/test_fuzz.py", BOTH) == "fuzz"
    assert part_of("integration/runtime/rest/test_fuzzy.py", BOTH) == CORE
    assert part_of("system/mirrors/test_flows.py", BOTH) == CORE


def test_a_file_of_core_that_a_part_shares_runs_with_either() -> None:
    pages = (Part(name="pages", about="", shared=("system/docs/test_pages.py",)),)
    assert is_taken("system/docs/test_pages.py", {"pages"}, pages)
    assert is_taken("system/docs/test_pages.py", {CORE}, pages)
    assert not is_taken("system/docs/test_blocks.py", {"pages"}, pages)
    assert reached(["tests/system/docs/test_pages.py"], lambda _: (), pages) == {
        "pages": "tests/system/docs/test_pages.py"
    }


def test_modules_are_reported_by_their_files() -> None:
    assert module_of("core/kconnect/worker/mirror/__init__.py") == "kconnect.worker.mirror"
    assert module_of("cli/kconnect_cli/app.py") == "kconnect_cli.app"
    assert module_of("tests/kit/waiting.py") == "kit.waiting"
    assert module_of("docs/mirror.md") is None


@pytest.mark.parametrize(
    "path",
    [
        "core/kconnect/java/compat/properties.py",
        "tests/kit/mirror.py",
        "tests/system/worker/mirror/test_flows.py",
        "docs/mirror.md",
    ],
)
def test_a_change_reaches_a_part_by_what_it_imports_by_its_tests_and_by_its_own_files(path: str) -> None:
    assert _reached("README.md", path) == {"mirror": path}


@pytest.mark.parametrize("path", ["tests/conftest.py", "requirements.lock", "requirements-dev.lock", "pyproject.toml"])
def test_what_every_test_stands_on_reaches_all(path: str) -> None:
    assert _reached(path) == {"fuzz": path, "mirror": path}


def test_what_no_part_imports_reaches_none() -> None:
    assert _reached("core/kconnect/runtime/herder/interface.py", "docs/other.md", "tests/unit/kit/test_parts.py") == {}


def test_one_more_part_runs_whose_turn_it_is_and_a_repeat_takes_the_same() -> None:
    runs = [chosen({}, number, {}, BOTH) for number in (7, 8, 9)]
    assert [list(run) for run in runs] == [["mirror"], ["fuzz"], ["mirror"]]
    assert chosen({}, 7, {}, BOTH) == runs[0] == {"mirror": "its turn at commit 7"}
    assert chosen({"mirror": "docs/mirror.md"}, 7, {}, BOTH) == {"mirror": "docs/mirror.md was changed"}


def test_a_part_that_has_not_run_for_ten_commits_runs() -> None:
    assert list(chosen({}, 7, {"fuzz": TURNS_KEPT - 1}, BOTH)) == ["mirror"]
    assert chosen({}, 7, {"fuzz": TURNS_KEPT}, BOTH)["fuzz"] == "it last ran 10 commits ago"
    assert len(PARTS) <= TURNS_KEPT, "each has its turn in so many commits"


def test_the_parts_are_there_are_apart_and_have_targets() -> None:
    assert missing(PARTS, TESTS) == []
    places = [place for part in PARTS for place in part.tests]
    assert len(set(places)) == len(places)
    for subject in (subject for part in PARTS for subject in part.subjects):
        assert find_spec(subject) is not None, subject
    (listed,) = re.findall(r"^PARTS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed.split() == sorted(part.name for part in PARTS), "make test-NAME"
