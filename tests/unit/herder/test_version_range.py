"""Versions of plugins that a request asks for."""

from __future__ import annotations

import pytest

from kconnect.errors import BadRequestError
from kconnect.herder.version_range import VersionRange


@pytest.mark.parametrize(
    ("wanted", "holds", "refuses"),
    [
        ("4.3.0", ["4.3.0", "4.3"], ["4.3.1", "4.2"]),
        ("[4.3]", ["4.3.0"], ["4.3.1"]),
        ("[4.0,5.0)", ["4.0", "4.3.0", "5.0-rc1"], ["5.0", "3.9"]),
        ("(4.0,]", ["4.0.1", "10.0"], ["4.0"]),
        ("(,1.0],[2.0,)", ["0.9", "1.0", "2.0", "2.0.1"], ["1.5"]),
        ("[1.9,1.10]", ["1.9", "1.10"], ["1.11", "1.8"]),
        ("[1.0-rc1,1.0)", ["1.0-rc2"], ["1.0-beta", "1.0", "1.0.final"]),
    ],
)
def test_a_requirement_holds_some_versions(wanted: str, holds: list[str], refuses: list[str]) -> None:
    span = VersionRange.parse(wanted)
    assert span is not None
    assert [version for version in (*holds, *refuses) if span.holds(version)] == holds


@pytest.mark.parametrize("wanted", ["latest", "", " Latest "])
def test_any_version_will_do(wanted: str) -> None:
    assert VersionRange.parse(wanted) is None


@pytest.mark.parametrize("wanted", ["[", "[1.0", "(1,2,3)", "[]", "[1.0]x", "[(1,2)]"])
def test_what_is_no_range_is_refused(wanted: str) -> None:
    with pytest.raises(BadRequestError, match="is no range of versions"):
        VersionRange.parse(wanted)
