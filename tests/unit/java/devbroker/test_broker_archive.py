"""Which brokers share a class archive: those whose JVM would load the same classes from the same jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.java.archives import recording
from kconnect.java.devbroker.dev_broker import broker_archive
from kconnect.java.installed import Java

_JAVA = Java(Path("/usr/bin/java"), 17, "17.0.1")
_DEFAULT = ("-Xmx512m", "-XX:+UseSerialGC")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "kafka.jar"
    path.write_bytes(b"classes")
    return path


def _place(jar: Path, *options: str) -> Path:
    """Where the archive would be written: its name tells what it is made for."""
    archive = broker_archive(jar.parent, _JAVA, [jar], options)
    assert archive is not None
    return archive.unfinished


@pytest.mark.parametrize("more", ["-XX:TieredStopAtLevel=1", "-Xms1g", "-Dfile.encoding=UTF-8"])
def test_what_does_not_change_the_classes_leaves_the_archive(jar: Path, more: str) -> None:
    assert _place(jar, *_DEFAULT, more) == _place(jar, *_DEFAULT)


def test_another_collector_or_jar_has_another_archive(jar: Path) -> None:
    before = _place(jar, *_DEFAULT)

    assert _place(jar, "-Xmx512m", "-XX:+UseG1GC") != before
    jar.write_bytes(b"other classes")
    assert _place(jar, *_DEFAULT) != before


def test_a_broker_that_writes_an_archive_uses_none(jar: Path) -> None:
    options = (*_DEFAULT, *recording(jar.parent / "new.jsa"))

    assert broker_archive(jar.parent, _JAVA, [jar], options) is None
