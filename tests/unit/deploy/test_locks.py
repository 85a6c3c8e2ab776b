"""What `make install` brings is what a user needs; what tests need comes on top, in the same versions."""

from __future__ import annotations

import re
import tomllib

from kit.places import ROOT


def _locked(name: str) -> dict[str, str]:
    """Package to its whole entry, hashes included."""
    entries = re.split(r"^(?=[\w.-]+==)", (ROOT / name).read_text("utf-8"), flags=re.MULTILINE)
    return {entry.partition("==")[0]: entry.strip() for entry in entries if "==" in entry}


def test_the_two_locks_agree_on_versions_and_hashes():
    small, whole = _locked("requirements.lock"), _locked("requirements-dev.lock")

    assert {name: whole.get(name) for name in small} == small
    assert all("--hash=sha256:" in entry for entry in whole.values())


def test_an_installation_has_every_dependency_and_no_tool_of_ours():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    small = _locked("requirements.lock").keys()
    named = {re.match(r"[\w.-]+", text)[0].lower() for text in project["project"]["dependencies"]}  # type: ignore[index]
    tools = [text for text in project["dependency-groups"]["dev"] if isinstance(text, str)]
    tools = {re.match(r"[\w.-]+", text)[0].lower() for text in tools}  # type: ignore[index]

    assert named <= small
    assert not tools & small
