"""Which files of a folder are data: pure decisions."""

from __future__ import annotations

import re

import pytest

from kconnect.builtin.connectors.objects.object_source import chosen, glob_regex, is_hidden
from kconnect.builtin.stores.file_store import Found


def names(*paths: str, pattern: str = "**", hidden: bool = False) -> list[str]:
    found = [Found(f"/in/{path}", "1", 1, 0.0) for path in paths]
    return [one.path.removeprefix("/in/") for one in chosen(found, "/in/", pattern, hidden=hidden).files]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a.csv", False),
        ("_SUCCESS", True),
        (".part-0.csv.crc", True),
        ("x/_started_123", True),
        ("_delta_log/0.json", True),
        ("a.csv.tmp", True),
        ("a.csv._COPYING_", True),
        ("part-0.inprogress", True),
        ("part-0-1.inprogress.5c6b", True),
        ("a.CSV.PART", True),
        ("a.csv.crc", True),
        (".hidden/a.csv", True),
        ("_day=1/a.csv", False),
        ("tmp/a.csv", False),
        ("a_b.csv", False),
        ("orders.part-00000.csv", False),
        ("template.csv", False),
    ],
)
def test_what_is_no_data_is_known_by_its_name(path: str, wanted: bool) -> None:
    assert is_hidden(path) is wanted


@pytest.mark.parametrize("pattern", ["**", "*.csv", "**/*.csv"])
def test_any_sign_may_be_in_a_name(pattern: str) -> None:
    odd = ("a b.csv", "a%20b.csv", "a\nb.csv", "a\\b.csv", "ü.csv", "[x]*.csv")
    assert names(*odd, pattern=pattern) == [*odd]


def test_hidden_files_are_left_out_unless_they_are_asked_for() -> None:
    assert names("a.csv", "_SUCCESS", "empty/") == ["a.csv"]
    assert names("a.csv", "_SUCCESS", hidden=True) == ["a.csv", "_SUCCESS"]
    assert names("a.csv", "_in/b.csv", pattern="_in/*.csv") == ["_in/b.csv"]


def test_a_folder_waits_while_a_job_writes_into_it() -> None:
    listing = [Found(f"/in/{path}", "1", 1, 0.0) for path in ("x/a.csv", "x/y/b.csv", "x/_temporary/0/", "z/c.csv")]
    found = chosen(listing, "/in/", "**/*.csv")
    assert ([one.path for one in found.files], found.written) == (["/in/z/c.csv"], ("x/",))
    assert names("a.csv", "_temporary/0/_temporary/a/part-0.csv") == []
    assert names("x_temporary/a.csv") == ["x_temporary/a.csv"]


def test_a_table_of_delta_lake_is_reported() -> None:
    listing = [Found(f"/in/{path}", "1", 1, 0.0) for path in ("t/a.parquet", "t/_delta_log/0.json")]
    assert chosen(listing, "/in/", "**").delta == ("t/",)


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("**", "a/b.csv", True),
        ("*.csv", "a.csv", True),
        ("*.csv", "a/b.csv", False),
        ("**/*.csv", "b.csv", True),
        ("**/*.csv", "a/x/b.csv", True),
        ("in/*.{csv,json}", "in/b.json", True),
        ("[ab]?.txt", "b1.txt", True),
        ("a+b.txt", "aab.txt", False),
    ],
)
def test_patterns_match_as_in_a_shell(pattern: str, path: str, is_match: bool) -> None:
    assert bool(re.fullmatch(glob_regex(pattern), path)) is is_match
