"""Folders that are columns: what is written is read again, and leads nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.builtin.stores.hive_paths import HIVE_NULL, folder_name, path_columns


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("x.parquet", {}),
        ("country=DE/dt=2026-01-02/x.parquet", {"country": "DE", "dt": "2026-01-02"}),
        ("a/country=__HIVE_DEFAULT_PARTITION__/x", {"country": None}),
        ("city=M%C3%BCnchen%2FS%C3%BCd/x", {"city": "München/Süd"}),
        ("a%3Db=1/x", {"a=b": "1"}),
        ("month=01/x=y.csv", {"month": "01"}),
        ("q=a=b/x", {"q": "a=b"}),
        ("empty=/x", {"empty": ""}),
        ("=x/y", {}),
        ("t/partition=3/t+3+00.jsonl", {}),
        ("partition=3/x.jsonl", {"partition": "3"}),
    ],
)
def test_folders_of_a_path_name_columns(path: str, wanted: dict[str, str | None]) -> None:
    assert path_columns(path) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("DE", "c=DE"),
        ("München/Süd", "c=München%2FSüd"),
        ("../x", "c=..%2Fx"),
        ("a=b%c\\d\n", "c=a%3Db%25c%5Cd%0A"),
        ("", f"c={HIVE_NULL}"),
        (None, f"c={HIVE_NULL}"),
        (True, "c=true"),
        (1.5, "c=1.5"),
    ],
)
def test_a_value_is_part_of_one_folder(value: Any, wanted: str) -> None:
    assert folder_name("c", value) == wanted


@given(st.text(min_size=1).filter(lambda text: text != HIVE_NULL), st.text(min_size=1))
def test_what_is_written_is_read_again(name: str, value: str) -> None:
    assert path_columns(f"{folder_name(name, value)}/x.parquet") in ({name: value}, {name: None})
    assert "/" not in folder_name(name, value)
