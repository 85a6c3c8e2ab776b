"""Folders of a user without a home, and of one process: what a killed one has left goes with the next."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from kconnect.errors import ConfigError
from kconnect.files.folders import cache_folder, config_folder, data_folder, made_temporary, state_folder


def test_folders_of_processes_that_are_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    gone, other, ours = (tmp_path / name for name in (f"kc-x-{ended.pid}-a", f"kc-y-{ended.pid}-a", "kc-x-notes-a"))
    for folder in (gone, other, ours):
        folder.mkdir()
    (gone / "s").touch()

    first = made_temporary("kc-x", str(tmp_path))
    second = made_temporary("kc-x", str(tmp_path))

    assert {*tmp_path.iterdir()} == {other, ours, first, second}
    assert first.name.startswith(f"kc-x-{os.getpid()}-")
    assert stat.S_IMODE(first.stat().st_mode) == 0o700


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This user is a number alone, as in containers: without HOME, and in no /etc/passwd. Its temporary folder."""

    def unknown(number: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("HOME", "KCONNECT_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_who_has_no_home_has_a_temporary_folder_of_its_own_and_none_for_data(homeless: Path) -> None:
    own = homeless / f"kconnect-{os.getuid()}"
    assert (cache_folder(), state_folder(), config_folder()) == (own / "cache", own / "state", own / "config")
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    with pytest.raises(ConfigError, match="has no home folder"):
        data_folder()


def test_a_temporary_folder_that_others_write_is_not_taken_for_a_home(homeless: Path) -> None:
    own = homeless / f"kconnect-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    with pytest.raises(ConfigError, match="alone writes"):
        cache_folder()
