"""What Java threw, as errors of ours: the cause first, then Java's stack."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kconnect.errors import ConfigError, ConnectError, DataError, RetriableError
from kconnect.java.plugins.folders import folder_at


class JavaHostDiedError(ConnectError):
    """The JVM that ran a plugin is gone. Its tasks fail; those of Python run on."""


class JavaTraced:
    """What the errors below have in common: what Java says of itself, as dead letters have it in their headers."""

    java_class = ""
    java_message: str | None = None
    java_trace = ""
    java_step: tuple[str, str, str] | None = None
    """Class, method and place of the step that threw it as a task was started: it is to blame, not the task."""


class JavaPluginError(JavaTraced, ConnectError):
    """A Java plugin threw something that no retry repairs."""


class JavaRetriableError(JavaTraced, RetriableError):
    """A Java plugin threw a RetriableException."""


class JavaDataError(JavaTraced, DataError):
    """A Java plugin threw a DataException."""


class JavaConfigError(JavaTraced, ConfigError):
    """A Java plugin threw a ConfigException."""


_CLASSES: Mapping[str, type[Any]] = {
    "retriable": JavaRetriableError,
    "data": JavaDataError,
    "config": JavaConfigError,
}
# Class files of Java 17 have version 61, and so on
_FIRST_CLASS_FILE = 44
_NEWER = "UnsupportedClassVersionError"
_VERSIONS = re.compile(rf"{_NEWER}: ([\w/$.]+) .*class file version (\d+).* up to (\d+)", re.DOTALL)
_LINKAGE = "NoClassDefFoundError", "ClassNotFoundException"
_NOT_INITIALIZED = "Could not initialize class "


def java_error(reported: Mapping[str, Any], location: str | None = None) -> ConnectError:
    """The error of what `Errors.describe` (Java) reported. `location`: the plugin's folder, for what it lacks."""
    java_class, message = str(reported["class"]), reported.get("message")
    text = message or java_class.rpartition(".")[2]
    root = str(reported.get("root") or "")
    hint = None
    kind = reported.get("kind")
    newer = _newer_java(f"{java_class}: {message}\n{root}", location)
    if newer is not None:
        lead = "" if message is None or java_class.endswith(_NEWER) else f"{text}: "
        text, hint = f"{lead}{newer}", "Install that Java and name it in kconnect.java.home, or take an older jar."
    elif kind in ("linkage", "missing"):
        text, hint = _missing(java_class, text, root, location, str(reported.get("trace") or ""))
    elif kind == "fatal":
        simple = java_class.rpartition(".")[2]
        text = f"{simple}: {message}" if message else simple
        if simple == "OutOfMemoryError":
            hint = "Raise the limit that it names in kconnect.java.opts, such as -XX:MaxDirectMemorySize."
    else:
        if message and java_class.startswith("java."):  # of an UnknownHostException it is the name of the host alone
            text = f"{java_class.rpartition('.')[2]}: {message}"
        if root and message and root.partition(": ")[2] not in message:
            text = f"{text}: {root}"
    if root.startswith("java.lang.NoSuchFieldException") and _WORKERS_OWN in str(reported.get("trace") or ""):
        hint = hint or _not_given(location or "the plugin's folder")
    error: Any = _CLASSES.get(str(kind), JavaPluginError)(text, hint=hint)
    error.is_fatal = kind in ("linkage", "fatal")
    error.java_class = java_class
    error.java_message = message
    error.java_trace = str(reported.get("trace") or "")
    if step := reported.get("step"):
        error.java_step = step["class"].rpartition(".")[2], step["method"], step["place"] or ""
    # The trace of a status shows it below ours, with the cause first as in all our traces
    error.add_note(error.java_trace.rstrip())
    return error  # type: ignore[no-any-return]


def _newer_java(reported: str, location: str | None) -> str | None:
    """Which class of which jar is compiled for a newer Java; None if that is not what was thrown."""
    found = _VERSIONS.search(reported)
    if found is None:
        return None
    folder = None if location is None else folder_at(Path(location))
    entry = f"{found[1].replace('.', '/')}.class"
    jar = next((jar.name for jar in (folder.jars if folder else ()) if entry in _entries(jar)), None)
    wants, has = (int(version) - _FIRST_CLASS_FILE for version in found.groups()[1:])
    where = f"{f' of {jar}' if jar else ''} in {location or 'the plugin folder'}"
    name = found[1].replace("/", ".")
    return f"{_NEWER}: the class {name}{where} needs Java {wants}, and plugins run in Java {has} (kconnect.java.home)"


def _missing(java_class: str, text: str, root: str, location: str | None, trace: str) -> tuple[str, str | None]:
    simple = java_class.rpartition(".")[2]
    where = location or "the plugin's folder"
    if text.startswith(_NOT_INITIALIZED):  # Java's NoClassDefFoundError of a class that is there
        return f"{simple}: {text}{f': {root}' if root else ''}", f"What {where} needs may be missing, or broken."
    if any(name in f"{java_class} {root}" for name in _LINKAGE):
        named = (root.partition(": ")[2] or text).replace("/", ".")
        jar = needed_by(named, trace, location)
        needs = f", which {jar.name} needs," if jar else ""
        return (
            f"{simple}: the class {named}{needs} is missing in {where}",
            f"Put the jar that has {named} into {where}, or install the plugin with all its dependencies.",
        )
    if _WORKERS_OWN in text.replace("/", "."):
        return f"{simple}: {text}", _not_given(where)
    if simple == "ExceptionInInitializerError":  # which says nothing itself
        return f"{simple}: {root}", f"A class of {where} needs what is missing here, or is broken."
    return f"{simple}: {text}", f"Jars in {where} do not fit each other, or not Kafka's."


# Classes of Java's worker, of which plugins get a few
_WORKERS_OWN: Final = "org.apache.kafka.connect.runtime."


def _not_given(where: str) -> str:
    return (
        f"The plugin in {where} (connector.class) reaches for a part of Java's worker that is not here: What plugins "
        "reach for, in docs/java-plugins.md, lists those that are."
    )


_FRAME: Final = re.compile(r"^\s*at (?:[^\s(]*/)?([\w.$]+)\.[\w$<>]+\(", re.MULTILINE)
# Of an uber jar of 100 MB; a folder of hundreds of jars is not read to its end for a message
_MOST_BYTES: Final = 200 << 20


def needed_by(missing: str, trace: str, location: str | None) -> Path | None:
    """The jar of the class that was running when `missing` was looked for, or else one whose classes name it.

    None when it is not known: the plugin is none of a folder's, or the class is asked for by name alone.
    """
    folder = None if location is None else folder_at(Path(location))
    if folder is None:
        return None
    jars = [jar for jar in folder.jars if zipfile.is_zipfile(jar)]
    return _jar_of_a_frame(jars, trace) or _jar_that_names(jars, missing)


def _jar_of_a_frame(jars: list[Path], trace: str) -> Path | None:
    """Finds the first frame that is of the plugin in the cause that Java gives last."""
    listed = {jar: _entries(jar) for jar in jars}
    for part in reversed(trace.split("\nCaused by: ")):
        for frame in _FRAME.findall(part):
            for jar, entries in listed.items():
                if frame.replace(".", "/") + ".class" in entries:
                    return jar
    return None


def _jar_that_names(jars: list[Path], missing: str) -> Path | None:
    name = missing.replace(".", "/").encode()
    left = _MOST_BYTES
    for jar in jars:
        for data in _classes(jar):
            if name in data:
                return jar
            left -= len(data)
            if left < 0:
                return None
    return None


def _entries(jar: Path) -> set[str]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
        return set(archive.namelist())
    return set()


def _classes(jar: Path) -> Iterator[bytes]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(".class"):
                yield archive.read(name)
