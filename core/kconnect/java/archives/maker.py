"""The process that makes a class archive: at the end of an installation, or in the background of a first start.

In the background it is detached, so that it outlives a short-lived worker, runs at low priority and exits at a
deadline. It never leaves a JVM running: each of ours ends with its standard input or is killed at the deadline.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kconnect.errors import ConnectError
from kconnect.java.archives.cached_archive import ClassArchive

BACKGROUND_TIMEOUT_S = 300.0
"""How long a maker in the background may work, and before that wait for another one.

Spark's takes 6 s on quiet cores, 20 s with a load of 5 on two.
"""

FOREGROUND_TIMEOUT_S = 60.0
"""The same for an installation, which waits for it."""

# The first records of a fresh worker should not share their cores with it.
_DELAY_S = 3.0
# At 19 it gets no CPU at all on a busy machine.
_NICENESS = 10
# The shell that starts a maker exits at once.
_SHELL_TIMEOUT_S = 10.0


_started: set[str] = set()


class Making(Protocol):
    """How to make one archive."""

    @property
    def title(self) -> str:
        """Whose archive, as `Spark's`."""

    @property
    def archive(self) -> ClassArchive: ...

    def make(self) -> None:
        """Run the program once and have its JVM write `archive.unfinished`. Errors: ConnectError, OSError."""

    def abort(self) -> None:
        """End what `make` started, now, from another thread; this process ends next."""


def make_in_background(module: str, folder: Path) -> None:
    """Start `python -m MODULE --background FOLDER` detached: it outlives this process, and exits by itself.

    Errors: OSError when no process can be started.
    """
    command = [sys.executable, "-P", "-m", module, "--background", str(folder)]
    # The shell exits at once, so the maker needs no parent; its own session shields it from Ctrl-C
    subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        timeout=_SHELL_TIMEOUT_S,
        check=False,
    )
    _started.add(module)


def has_started_makers() -> bool:
    """Whether this process has started a maker, which may outlive it."""
    return bool(_started)


def run_maker(making: Making, *, background: bool) -> int:
    """Make the archive unless there is one, and report it on standard error; gives the exit code of the process.

    Errors: none; without an archive later starts are slower, which is reported.
    """
    timeout_s = BACKGROUND_TIMEOUT_S if background else FOREGROUND_TIMEOUT_S
    if background:
        os.nice(_NICENESS)
        time.sleep(_DELAY_S)
    try:
        with making.archive.sole_maker(timeout_s) as mine:
            if mine:
                _make(making, timeout_s, background=background)
            elif making.archive.path is None:
                _say(f"{making.title} class archive is being made by another process")
    except (ConnectError, OSError) as error:
        _say(f"{making.title} class archive was not made: {str(error).rstrip('.')}. Starts work without it.")
        return 1
    return 0


def _make(making: Making, timeout_s: float, *, background: bool) -> None:
    began_s = time.monotonic()
    watch = threading.Timer(timeout_s, _give_up, (making, timeout_s, background))
    watch.name, watch.daemon = "deadline", True
    watch.start()
    try:
        making.make()
        if not making.archive.unfinished.exists():
            raise ConnectError("the JVM wrote none")
        making.archive.finish()
    except ConnectError as error:
        making.archive.fail(str(error))
        raise
    finally:
        watch.cancel()
    _say(f"{making.title} class archive was made in {time.monotonic() - began_s:.1f} s: starts are faster with it")


def _give_up(making: Making, timeout_s: float, background: bool) -> None:
    making.abort()
    if background:
        making.archive.fail(f"not ready within {timeout_s:g} s")
    # else the machine may only be busy with an installation: the first worker has it tried again, with more time
    _say(f"{making.title} class archive was not ready within {timeout_s:g} s. Starts work without it.")
    os._exit(1)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def arguments(given: Sequence[str], default: Path) -> tuple[bool, Path]:
    """What `[--background] [FOLDER]` says: whether in the background, and the folder of the archives."""
    rest = [argument for argument in given if argument != "--background"]
    return len(rest) < len(given), Path(rest[0]) if rest else default
