"""Files that no connector reads or writes: by whatever name, in processes that the worker starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kconnect.files.guarded import guard, guarded_in, is_guarded

OPENS = """
import os, pathlib, sys
from kconnect.files.guarded import forbid_guarded
forbid_guarded()
for path in sys.argv[1:]:
    for way in (open, lambda path: os.open(path, os.O_WRONLY), lambda path: pathlib.Path(path).read_text()):
        try:
            way(path)
            print("opened")
        except PermissionError as err:
            print(err)
"""


@pytest.fixture
def roles(tmp_path):
    file = tmp_path / "roles.toml"
    file.write_text("x")
    end = guard([file])
    yield file
    end()


def test_a_guarded_file_is_known_by_all_of_its_names(roles, tmp_path, monkeypatch):
    (tmp_path / "soft").symlink_to(roles)
    (tmp_path / "hard").hardlink_to(roles)
    (tmp_path / "folder").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = ("roles.toml", "./roles.toml", "soft", "hard", "folder/roles.toml", f"{tmp_path}/x/../roles.toml")
    assert [name for name in names if not is_guarded(name)] == []
    assert is_guarded("roles.toml.1")  # a log that was rolled
    assert not is_guarded("roles.tom")
    for text in (f"file:{roles}", f"file://{roles}", f"SELECT * FROM text.`{roles}`", "soft", f"a,{roles}"):
        assert guarded_in(text) is not None
    for text in ("", "roles", "orders", "a\0b"):
        assert guarded_in(text) is None


def test_no_python_code_of_a_process_of_tasks_opens_one(roles, tmp_path):
    (tmp_path / "hard").hardlink_to(roles)
    (tmp_path / "free").write_text("x")
    paths = [str(tmp_path / name) for name in ("roles.toml", "hard", "free")]
    command = [sys.executable, "-c", OPENS, *paths]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    reported = [f"{path} is a file of the worker's security, which no connector reads or writes" for path in paths[:2]]
    assert found.stdout.splitlines() == [reported[0]] * 3 + [reported[1]] * 3 + ["opened"] * 3


def test_what_one_worker_guards_is_free_when_it_ends(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("x")
    second.write_text("x")
    end_first = guard([first])
    end_second = guard([second])
    assert is_guarded(first)
    assert is_guarded(second)
    end_second()
    assert not is_guarded(second)
    end_first()
    assert not is_guarded(first)
