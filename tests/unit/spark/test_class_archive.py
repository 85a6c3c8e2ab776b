"""The class archive: used only when whole, thrown away otherwise."""

from __future__ import annotations

import os
import zlib

from kconnect.spark.archive import ClassArchive


def _store(archive: ClassArchive, folder, content: bytes):
    path = folder / f"{archive._stem}-{zlib.crc32(content):08x}.jsa"
    path.write_bytes(content)
    return path


def test_a_whole_archive_is_used(tmp_path):
    path = _store(ClassArchive(tmp_path, ["17"]), tmp_path, b"classes" * 100)

    assert ClassArchive(tmp_path, ["17"]).flags() == [f"-XX:SharedArchiveFile={path}"]


def test_a_cut_archive_is_not_used_and_goes(tmp_path):
    path = _store(ClassArchive(tmp_path, ["17"]), tmp_path, b"classes" * 100)
    path.write_bytes(path.read_bytes()[:-1])

    assert ClassArchive(tmp_path, ["17"]).flags() == []
    assert not path.exists()


def test_another_java_has_another_archive(tmp_path):
    _store(ClassArchive(tmp_path, ["17"]), tmp_path, b"classes")

    assert ClassArchive(tmp_path, ["21"]).path is None


def test_a_cache_that_can_not_be_read_costs_only_time(tmp_path):
    (tmp_path / "jvm").write_text("not a folder")

    assert ClassArchive(tmp_path / "jvm", ["17"]).path is None


def test_one_process_makes_it_at_a_time(tmp_path):
    with ClassArchive(tmp_path, ["17"]).sole_maker() as first, ClassArchive(tmp_path, ["17"]).sole_maker() as second:
        assert (first, second) == (True, False)
    with ClassArchive(tmp_path, ["17"]).sole_maker() as later:
        assert later


def test_the_claim_of_a_dead_process_is_void(tmp_path):
    archive = ClassArchive(tmp_path, ["17"])
    dead = _dead_pid()
    (tmp_path / f".{archive._stem}.maker").write_text(str(dead))

    with archive.sole_maker() as mine:
        assert mine


def _dead_pid() -> int:
    pid = os.posix_spawnp("true", ["true"], os.environ)
    os.waitpid(pid, 0)
    return pid
