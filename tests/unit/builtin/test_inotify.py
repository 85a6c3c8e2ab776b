"""Events of files: what wakes a source, and what leaves it alone."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kconnect.builtin.connectors.inotify import watch_file
from kit.pace import ample_s


def append(file: Path, text: str = "x\n") -> None:
    with file.open("a") as stream:
        stream.write(text)


CHANGES: dict[str, Callable[[Path], object]] = {
    "made": append,
    "appended to": lambda file: (append(file), append(file)),
    "truncated": lambda file: (append(file), os.truncate(file, 0)),
    "replaced": lambda file: (file.with_suffix(".new").write_text("n\n"), file.with_suffix(".new").rename(file)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is(change: str, tmp_path: Path) -> None:
    heard = threading.Event()
    watch = watch_file(str(tmp_path / "in.txt"), heard.set)
    assert watch is not None
    CHANGES[change](tmp_path / "in.txt")
    assert heard.wait(ample_s(5))
    watch.close()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    real = tmp_path / "b" / "real.txt"
    append(real)
    (tmp_path / "a" / "in.txt").symlink_to(real)
    heard = threading.Event()
    watch = watch_file(str(tmp_path / "a" / "in.txt"), heard.set)
    assert watch is not None
    append(real)
    assert heard.wait(ample_s(5))
    watch.close()


def test_other_files_of_the_folder_and_closed_watches_wake_nobody(tmp_path: Path) -> None:
    mine, others = threading.Event(), threading.Event()
    watch = watch_file(str(tmp_path / "in.txt"), mine.set)
    closed = watch_file(str(tmp_path / "other.txt"), mine.set)
    last = watch_file(str(tmp_path / "other.txt"), others.set)
    assert watch is not None
    assert closed is not None
    assert last is not None
    closed.close()
    closed.close()
    append(tmp_path / "other.txt")
    assert others.wait(ample_s(5))
    assert not mine.is_set()
    append(tmp_path / "in.txt")
    assert mine.wait(ample_s(5))
    watch.close()
    last.close()


def test_a_folder_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert watch_file(str(tmp_path / "later" / "in.txt"), lambda: None) is None


def test_a_process_with_more_than_a_thousand_open_files_hears_of_changes(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    heard = threading.Event()
    try:
        watch = watch_file(str(tmp_path / "in.txt"), heard.set)
        assert watch is not None
        append(tmp_path / "in.txt")
        assert heard.wait(ample_s(5))
        watch.close()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_only_of_a_file_system_of_this_machine_alone_is_everything_heard(tmp_path: Path) -> None:
    for file, hears_all in ((tmp_path / "in.txt", True), (Path("/proc/self/in.txt"), False)):
        watch = watch_file(str(file), lambda: None)
        assert watch is not None
        assert watch.hears_all is hears_all
        watch.close()


def test_a_link_to_another_file_system_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "in.txt").symlink_to("/proc/self/status")
    watch = watch_file(str(tmp_path / "in.txt"), lambda: None)
    assert watch is not None
    assert not watch.hears_all
    watch.close()
