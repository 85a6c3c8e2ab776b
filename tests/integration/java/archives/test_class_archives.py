"""Class archives of real JVMs: made once by a process that outlives what asked for it, and gone with nothing left."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from kconnect.api import SourceConnector
from kconnect.java.devbroker import DevBroker, cache_folder
from kconnect.java.plugins import JavaIndex, JavaPlugins, JavaSettings
from kconnect.spark import SparkLauncher, SparkSettings
from kconnect.spark.application import SparkApplication
from kit.launchers import SeenEvents, await_slots
from kit.pace import ample_s
from kit.ports import free_port
from kit.processes import below, living, named
from kit.waiting import eventually

_MADE_S = 100.0
_START_S = 60.0
_SPARKS, _BROKERS = "kconnect.spark.make_archive", "kconnect.java.devbroker.make_archive"


@pytest.fixture
def makers_are_allowed(monkeypatch):
    monkeypatch.delenv("KCONNECT_MAKE_CLASS_ARCHIVE")


def _makers(cache: Path) -> list[psutil.Process]:
    """Processes that make archives in this folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if str(cache) in command and any(".make_archive" in word for word in command):
            found.append(process)
    return found


def _archives(cache: Path, program: str) -> list[Path]:
    return list((cache / "jvm").glob(f"{program}-*.jsa"))


def _await_made(cache: Path, program: str) -> None:
    eventually(lambda: _archives(cache, program), _MADE_S, f"{program}'s archive is made")
    eventually(lambda: not _makers(cache), _MADE_S, "the maker ended by itself")


def _make(module: str, cache: Path) -> subprocess.Popen[str]:
    """As by `python -m MODULE CACHE`, with more time than the minute for which an installation waits."""
    program = (
        "import runpy\n"
        "from kconnect.java.archives import maker\n"
        f"maker.FOREGROUND_TIMEOUT_S = {ample_s(60)}\n"
        f"runpy.run_module({module!r}, run_name='__main__')\n"
    )
    return subprocess.Popen([sys.executable, "-c", program, str(cache)], stderr=subprocess.PIPE, text=True)


def _cache_with_jars(folder: Path) -> Path:
    """A cache without archives, whose jars are those that all tests share."""
    DevBroker().find_archive(cache_folder())  # fetches the jars, where no test has
    cache = folder / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(cache_folder() / "jars")
    return cache


@pytest.mark.spark
@pytest.mark.usefixtures("makers_are_allowed")
def test_a_worker_that_ends_at_once_leaves_the_next_one_an_archive(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="kconnect.spark")
    settings = SparkSettings(slots=2, cache=tmp_path)

    for _ in range(2):  # the second comes while the archive is being made, and begins no other maker
        launcher = SparkLauncher(settings)
        launcher.start(SeenEvents())
        try:
            await_slots(launcher)
        finally:
            launcher.stop(10.0)
    assert len(_makers(tmp_path)) <= 1
    _await_made(tmp_path, "spark")

    reported = [record.getMessage() for record in caplog.records if "class archive" in record.getMessage()]
    assert reported == ["Preparing Spark's class archive once, in the background; starts get 2 s faster after it"]
    archive = SparkApplication(settings).archive
    assert archive.path is not None
    assert archive.path.stat().st_size > 10_000_000
    assert not archive.should_be_made()
    assert sorted(path.name for path in (tmp_path / "jvm").iterdir()) == [".maker", archive.path.name]


@pytest.mark.broker
def test_of_two_makers_one_makes_it(tmp_path, monkeypatch):
    cache = _cache_with_jars(tmp_path)
    monkeypatch.setenv("KCONNECT_CACHE", str(cache))
    makers = [_make(_BROKERS, cache) for _ in range(2)]

    reported = [maker.communicate(timeout=ample_s(_MADE_S))[1] for maker in makers]

    assert [maker.returncode for maker in makers] == [0, 0]
    assert len(_archives(cache, "broker")) == 1
    assert sum("Kafka's class archive was made in" in text for text in reported) == 1


@pytest.mark.spark
def test_a_maker_that_is_killed_leaves_no_jvm(tmp_path):
    maker = _make(_SPARKS, tmp_path)
    with maker:
        jvms = eventually(
            lambda: named(below(maker.pid, deep=False), "java"),
            _MADE_S,
            "its JVM runs",
        )
        maker.kill()

    eventually(lambda: not living(jvms), 30.0, "the JVM ended with its maker")
    assert not _archives(tmp_path, "spark")
    assert SparkApplication(SparkSettings(cache=tmp_path)).archive.failure() is None
    # Its temporary folder goes when Spark is started next, which may not be in this run
    for folder in Path(tempfile.gettempdir()).glob(f"kconnect-spark-{maker.pid}-*"):
        shutil.rmtree(folder)


@pytest.mark.broker
@pytest.mark.usefixtures("makers_are_allowed")
def test_the_first_broker_has_its_archive_made_and_the_next_one_uses_it(tmp_path, monkeypatch):
    cache = _cache_with_jars(tmp_path)
    monkeypatch.setenv("KCONNECT_CACHE", str(cache))
    broker = DevBroker(free_port(), tmp_path / "data")

    broker.start(ample_s(_START_S))
    try:
        assert broker.prepares_archive
    finally:
        broker.stop()
    _await_made(cache, "broker")

    again = DevBroker(free_port(), tmp_path / "data")
    again.start(ample_s(_START_S))
    try:
        assert not again.prepares_archive
        assert again.pid is not None
        archive = _archives(cache, "broker")[0]
        assert f"-XX:SharedArchiveFile={archive}" in psutil.Process(again.pid).cmdline()
        os.kill(again.pid, signal.SIGTERM)
        assert again.wait(ample_s(30)) == 143
    finally:
        again.stop()


@pytest.mark.usefixtures("makers_are_allowed")
def test_the_first_jvm_of_javas_plugins_has_its_archive_made_and_the_next_one_maps_it(tmp_path, monkeypatch):
    cache = _cache_with_jars(tmp_path)
    monkeypatch.setenv("KCONNECT_CACHE", str(cache))

    def maps_of_a_jvm() -> str:
        with closing(JavaPlugins(JavaIndex(), JavaSettings())) as plugins:
            (made,) = plugins.find("java:org.apache.kafka.connect.file.FileStreamSourceConnector", SourceConnector)
            assert made().task_class().__name__ == "FileStreamSourceTask"
            return Path(f"/proc/{plugins.pid}/maps").read_text()

    assert str(cache / "jvm") not in maps_of_a_jvm()
    _await_made(cache, "host")

    (archive,) = _archives(cache, "host")
    assert str(archive) in maps_of_a_jvm()
    assert not list((cache / "jvm").glob("*.failed"))
