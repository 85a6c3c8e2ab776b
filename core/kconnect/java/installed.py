"""Find a Java that is new enough, or say in one sentence what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kconnect.errors import EnvironmentProblemError

MINIMUM_JAVA = 17
_ASK_TIMEOUT_S = 20.0
_HINT = f"Install a JDK or JRE of version {MINIMUM_JAVA} or newer, or set JAVA_HOME to one."


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation and its version."""

    executable: Path
    major: int
    version: str


def find_java(
    purpose: str = "the Kafka broker", *, env: Mapping[str, str] | None = None, home: str | None = None
) -> Java:
    """The Java of `home` (kconnect.java.home) or JAVA_HOME, else the one on the PATH; Java 17 or newer.

    Errors: EnvironmentProblemError, in one sentence, if none is found, it cannot be run or it is too old.
    """
    env = os.environ if env is None else env
    needed = f"Java {MINIMUM_JAVA} or newer is needed for {purpose}"
    setting = "kconnect.java.home" if home else "JAVA_HOME"
    home = home or env.get("JAVA_HOME", "").strip()
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise EnvironmentProblemError(
                f"{needed}; {setting} is {home}, but there is no program at {executable}.", hint=_HINT
            )
    else:
        found = shutil.which("java", path=env.get("PATH", ""))
        if found is None:
            raise EnvironmentProblemError(
                f"{needed}; none was found on the PATH, and JAVA_HOME is not set.", hint=_HINT
            )
        executable = Path(found)
    java = _said_by_release(executable) or _ask(executable, needed)
    if java.major < MINIMUM_JAVA:
        raise EnvironmentProblemError(f"{needed}; found {java.version} at {executable}.", hint=_HINT)
    return java


def parse_version(text: str) -> tuple[int, str] | None:
    """(major, version) from the output of `java -version`, None if it names no version."""
    match = re.search(r'version "((\d+)(?:\.(\d+))?[^"]*)"', text)
    if match is None:
        return None
    major = int(match[2])
    if major == 1 and match[3] is not None:  # 1.8.0_402: the numbering before Java 9
        major = int(match[3])
    return major, match[1]


def _said_by_release(executable: Path) -> Java | None:
    """What the file `release` of the installation says; None without one. To ask Java itself takes 0.1 s."""
    try:
        text = (executable.resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        return None
    version = parse_version(text.replace("JAVA_VERSION=", "version "))
    return None if version is None else Java(executable, *version)


def _ask(executable: Path, needed: str) -> Java:
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise EnvironmentProblemError(f"{needed}; {executable} cannot be run: {err}", hint=_HINT) from err
    version = parse_version(answer.stderr + answer.stdout)
    if version is None:  # the java stub of macOS only says where to get one
        said = (answer.stderr + answer.stdout).strip().splitlines()
        raise EnvironmentProblemError(
            f"{needed}; {executable} does not print its version: {said[0] if said else 'no output'}", hint=_HINT
        )
    return Java(executable, *version)
