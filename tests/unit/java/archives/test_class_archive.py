"""The class archive: used only when whole, made by one process at a time, and not again and again where it fails."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from kconnect.java.archives import ClassArchive
from kit.pace import ample_s


@pytest.fixture(autouse=True)
def _makers_are_allowed(monkeypatch):
    monkeypatch.delenv("KCONNECT_MAKE_CLASS_ARCHIVE", raising=False)


def _archive(folder: Path, *identity: str) -> ClassArchive:
    return ClassArchive(folder, "spark", identity or ("17",))


def _store(folder: Path, content: bytes, *identity: str) -> Path:
    archive = _archive(folder, *identity)
    with archive.sole_maker(0.0) as mine:
        assert mine
        archive.unfinished.write_bytes(content)
        archive.finish()
    assert archive.path is not None
    return archive.path


def test_a_whole_archive_is_used(tmp_path):
    path = _store(tmp_path, b"classes" * 100)

    assert f"{zlib.crc32(b'classes' * 100):08x}" in path.name
    assert _archive(tmp_path).flags()[:1] == [f"-XX:SharedArchiveFile={path}"]


def test_a_cut_archive_is_not_used_and_goes(tmp_path):
    path = _store(tmp_path, b"classes" * 100)
    path.write_bytes(path.read_bytes()[:-1])

    assert _archive(tmp_path).flags() == []
    assert not path.exists()


def test_another_java_has_another_archive(tmp_path):
    _store(tmp_path, b"classes", "17")

    assert _archive(tmp_path, "21").path is None


def test_a_cache_that_cannot_be_read_costs_only_time(tmp_path):
    (tmp_path / "jvm").write_text("not a folder")

    archive = _archive(tmp_path / "jvm")
    assert archive.path is None
    assert not archive.should_be_made()


def test_one_process_makes_it_at_a_time(tmp_path):
    with _archive(tmp_path).sole_maker(0.0) as first, _archive(tmp_path).sole_maker(60.0) as second:
        assert (first, second) == (True, False)
        assert not _archive(tmp_path).should_be_made()
    with _archive(tmp_path).sole_maker(0.0) as later:
        assert later


def test_one_maker_runs_at_a_time_whatever_it_makes(tmp_path):
    """The second waits for the first; here not at all."""
    with _archive(tmp_path, "17").sole_maker(0.0), _archive(tmp_path, "21").sole_maker(0.0) as second:
        assert not second
        assert _archive(tmp_path, "21").should_be_made()  # a maker that is begun now would wait


def test_what_another_made_in_the_meantime_is_not_made_again(tmp_path):
    late = _archive(tmp_path)
    path = _store(tmp_path, b"classes")

    with late.sole_maker(0.0) as mine:
        assert not mine
    assert late.path == path


def test_the_lock_and_the_leftovers_of_a_killed_maker_are_gone_with_it(tmp_path):
    killed = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path; from kconnect.java.archives import ClassArchive\n"
            "archive = ClassArchive(Path(sys.argv[1]), 'spark', ['17'])\n"
            "with archive.sole_maker(0.0) as mine:\n"
            "    archive.unfinished.write_bytes(b'half'); print(mine, flush=True); time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "True\n"
        assert not _archive(tmp_path).should_be_made()
        killed.kill()

    archive = _archive(tmp_path)
    assert archive.should_be_made()
    with archive.sole_maker(0.0) as mine:
        assert mine
        assert not archive.unfinished.exists()


def test_a_failed_attempt_is_not_repeated_for_a_day(tmp_path):
    archive = _archive(tmp_path)
    with archive.sole_maker(0.0):
        archive.fail("this JVM writes none")

    assert not _archive(tmp_path).should_be_made()
    assert _archive(tmp_path).failure() == "this JVM writes none"
    with _archive(tmp_path).sole_maker(0.0) as asked_for:  # by an installation, say
        assert asked_for

    yesterday = time.time() - 25 * 3600
    for note in tmp_path.glob("*.failed"):
        os.utime(note, (yesterday, yesterday))
    assert _archive(tmp_path).should_be_made()


def test_none_is_made_where_the_environment_forbids_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KCONNECT_MAKE_CLASS_ARCHIVE", "no")

    assert not _archive(tmp_path).should_be_made()


def test_archives_that_nobody_uses_go_and_those_in_use_stay(tmp_path):
    paths = [_store(tmp_path, str(number).encode(), str(number)) for number in range(6)]
    long_ago = time.time() - 30 * 24 * 3600
    for path in (paths[0], paths[1]):
        os.utime(path, (long_ago, long_ago))

    _store(tmp_path, b"one more", "one more")

    assert [path.exists() for path in paths] == [False, False, True, True, True, True]


@pytest.mark.parametrize("background", [True, False])
def test_a_maker_that_hangs_ends_itself_at_its_deadline(background, tmp_path):
    """With a deadline of its own, and a program that never ends instead of a JVM.

    An installation that gives up on a busy machine leaves it to the first worker, which has more time.
    """
    script = (
        "import sys, time; from pathlib import Path; from kconnect.java.archives import ClassArchive, maker\n"
        "class Hanging:\n"
        "    title = 'Nobody\\'s'\n"
        "    archive = ClassArchive(Path(sys.argv[1]), 'spark', ['17'])\n"
        "    def make(self): time.sleep(600)\n"
        "    def abort(self): print('aborted', flush=True)\n"
        "maker.FOREGROUND_TIMEOUT_S = maker.BACKGROUND_TIMEOUT_S = 0.2\n"
        "maker._DELAY_S = 0.0\n"
        f"maker.run_maker(Hanging(), background={background})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=ample_s(60)
    )

    assert done.returncode == 1
    assert done.stdout == "aborted\n"
    assert done.stderr == "Nobody's class archive was not ready within 0.2 s. Starts work without it.\n"
    assert _archive(tmp_path).failure() == ("not ready within 0.2 s" if background else None)
    assert _archive(tmp_path).should_be_made() is not background
    with (tmp_path / ".maker").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # is free
