"""Versions of plugins that a request asks for."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.java.compat.maven_version_range import VersionRange


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


def test_any_version_will_do_where_the_latest_is_wanted() -> None:
    assert VersionRange.parse("latest") is None


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [
        ("[", "Unbounded range: ["),
        ("[1.0", "Unbounded range: [1.0"),
        ("(1.0)", "Single version must be surrounded by []: (1.0)"),
        ("[1.0]x", "Only fully-qualified sets allowed in multiple set scenario: [1.0]x"),
        ("1.0]", "Only fully-qualified sets allowed in multiple set scenario: [1.0]]"),
        ("[2,1]", "Range defies version ordering: [2,1]"),
        ("[1,3],[2,4]", "Ranges overlap: [1,3],[2,4]"),
    ],
)
def test_what_is_no_range_is_refused_in_mavens_words(wanted: str, reported: str) -> None:
    with pytest.raises(ConfigError) as refused:
        VersionRange.parse(wanted)
    assert str(refused.value) == reported


@pytest.mark.parametrize("wanted", ["", " ", "[]", "Latest", " latest "])
def test_what_names_no_version_holds_none(wanted: str) -> None:
    span = VersionRange.parse(wanted)
    assert span is not None
    assert not span.holds("4.3.0")
