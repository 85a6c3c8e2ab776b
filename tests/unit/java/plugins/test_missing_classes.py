"""A class that is missing is reported with the jar that needs it, and the folder in which it should be."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kconnect.java.plugins import java_error

_TRACE = """java.lang.NoClassDefFoundError: org/other/Thing
\tat com.a.Helper.help(Helper.java:3)
\tat com.a.Plugin.start(Plugin.java:9)
\tat app//kconnect.host.SourceCalls.start(SourceCalls.java:70)
Caused by: java.lang.ClassNotFoundException: org.other.Thing
\tat java.base/java.net.URLClassLoader.findClass(URLClassLoader.java:445)
"""


def jar(path: Path, **classes: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as made:
        for name, data in classes.items():
            made.writestr(f"{name.replace('.', '/')}.class", data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "plug"
    jar(place / "plugin.jar", **{"com.a.Plugin": b"", "com.a.Named": b"..Lorg/other/Thing;.."})
    jar(place / "lib" / "helper-1.0.jar", **{"com.a.Helper": b""})
    (place / "lib" / "broken.jar").write_bytes(b"no jar")
    return place


def reported(trace: str, root: str = "java.lang.ClassNotFoundException: org.other.Thing") -> dict[str, str]:
    kind = {"class": "java.lang.NoClassDefFoundError", "kind": "linkage", "message": "org/other/Thing"}
    return {**kind, "trace": trace, "root": root}


def test_the_jar_of_the_class_that_was_running_is_named(folder: Path) -> None:
    error = java_error(reported(_TRACE), str(folder))
    needs = "which helper-1.0.jar needs,"
    assert str(error) == f"NoClassDefFoundError: the class org.other.Thing, {needs} is missing in {folder}"
    assert error.hint is not None
    assert error.hint.startswith(f"Put the jar that has org.other.Thing into {folder}")


def test_where_no_class_of_the_plugin_was_running_it_is_a_jar_that_names_the_class(folder: Path) -> None:
    error = java_error(reported("\tat java.base/java.lang.Class.forName0(Native Method)\n"), str(folder))
    assert "org.other.Thing, which plugin.jar needs, is missing" in str(error)


@pytest.mark.parametrize("location", [None, "nowhere"])
def test_without_a_folder_no_jar_is_named(location: str | None) -> None:
    error = java_error(reported(_TRACE), location)
    where = location or "the plugin's folder"
    assert str(error) == f"NoClassDefFoundError: the class org.other.Thing is missing in {where}"


def test_a_class_that_failed_as_it_was_made_ready_is_not_called_missing(folder: Path) -> None:
    cause = "java.lang.ExceptionInInitializerError: Exception java.lang.IllegalStateException: no licence"
    found = {**reported(_TRACE, cause), "message": "Could not initialize class com.a.Helper"}
    error = java_error(found, str(folder))
    assert str(error) == f"NoClassDefFoundError: Could not initialize class com.a.Helper: {cause}"
    assert "missing, or broken" in (error.hint or "")


def test_a_driver_for_a_newer_java_is_named_with_its_jar_whatever_the_plugin_makes_of_it(folder: Path) -> None:
    jar(folder / "driver-9.jar", **{"org.db.Driver": b""})
    cause = (
        "java.lang.UnsupportedClassVersionError: org/db/Driver has been compiled by a more recent version of the "
        "Java Runtime (class file version 69.0), this version of the Java Runtime only recognizes "
        "class file versions up to 61.0"
    )
    thrown = {"class": "org.apache.kafka.connect.errors.ConnectException", "kind": "other", "message": "Cannot connect"}
    error = java_error({**thrown, "trace": "", "root": cause}, str(folder))
    assert str(error) == (
        f"Cannot connect: UnsupportedClassVersionError: the class org.db.Driver of driver-9.jar in {folder} needs "
        "Java 25, and plugins run in Java 17 (kconnect.java.home)"
    )


def test_a_part_of_javas_worker_that_is_not_here_is_reported_as_that(folder: Path) -> None:
    method = "'java.util.Map org.apache.kafka.connect.runtime.WorkerSinkTaskContext.offsets()'"
    lacks = {"class": "java.lang.NoSuchMethodError", "kind": "linkage", "message": method, "root": "", "trace": ""}
    field = "java.lang.NoSuchFieldException: sinkTask"
    trace = f"{field}\n\tat com.a.Plugin.reach(org.apache.kafka.connect.runtime.WorkerSinkTaskContext)\n"
    hidden = {
        "class": "java.lang.IllegalStateException",
        "kind": "other",
        "message": "No",
        "root": field,
        "trace": trace,
    }
    for one in (lacks, hidden):
        hint = java_error(one, str(folder)).hint or ""
        assert hint.startswith(f"The plugin in {folder} (connector.class) reaches for a part of Java's worker")
