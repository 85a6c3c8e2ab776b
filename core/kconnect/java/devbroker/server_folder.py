"""The data folder of a development server: who holds it, what the server printed, and what is wrong with it.

NAME.lock   held (flock) by the server's own process for as long as it lives; its text has pid, port and address
NAME.log    what the server prints; NAME.log.old is that of the start before
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from kconnect.errors import ConflictError, EnvironmentProblemError


@dataclass(frozen=True, slots=True)
class RunningServer:
    """What the process that holds a data folder wrote about itself."""

    pid: int
    port: int
    bootstrap: str


class ServerFolder:
    """One data folder. All methods are cheap and may be called from any process.

    `name` is that of its files and commands (`broker`), `title` is the server in a sentence (`broker`).
    """

    def __init__(self, path: Path, name: str, title: str) -> None:
        self.path = Path(os.path.abspath(path))  # without `..`: it is what tells a server by its command line
        self.name = name
        self.title = title
        self.lock = self.path / f"{name}.lock"
        self.log = self.path / f"{name}.log"

    @property
    def mark(self) -> str:
        """What only the command line of a server on this folder has."""
        return str(self.path)

    def new_log(self) -> IO[bytes]:
        """A fresh log for a start; the one before is kept beside it."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.old"))
        return self.log.open("wb")

    def not_writable(self, err: OSError) -> EnvironmentProblemError:
        return EnvironmentProblemError(
            f"The {self.title}'s data folder {self.path} cannot be written: {err.strerror or err}.",
            hint="Make it writable, or name another folder with --data.",
        )

    def hold(self) -> IO[str]:
        """Take the folder's lock; the server's process gets the open file, and so holds it as long as it lives.

        Errors: ConflictError when another server runs on this folder.
        """
        try:
            file = self.lock.open("a+", encoding="utf-8")
        except OSError as err:
            raise self.not_writable(err) from err
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            running = self.running()
            where = f"pid {running.pid}, {running.bootstrap}" if running else "it is starting"
            raise ConflictError(
                f"A {self.title} already runs on the data folder {self.path} ({where}).",
                hint=f"Use that one, stop it with `connect {self.name} stop`, or name another folder with --data.",
            ) from None
        file.truncate(0)  # a server that was killed left its pid behind
        return file

    def running(self) -> RunningServer | None:
        """The server that holds the folder now, None if none does (or it is just being started)."""
        if not self.is_held():
            return None
        try:
            content = json.loads(self.lock.read_text("utf-8"))
            found = RunningServer(**{name: content[name] for name in RunningServer.__slots__})
        except (OSError, ValueError, TypeError, KeyError):
            return None  # not yet written
        return found if self._is_ours(found.pid) else None

    def is_held(self) -> bool:
        """Whether a process holds the folder's lock."""
        try:
            with self.lock.open("r", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    def write_running(self, file: IO[str], running: RunningServer) -> None:
        """Tell others who holds the folder; `file` is what `hold()` gave."""
        file.seek(0)
        file.truncate(0)
        file.write(json.dumps(asdict(running)))
        file.flush()

    def log_tail(self, lines: int = 5) -> list[str]:
        """The last lines of the server's log that say what went wrong."""
        with contextlib.suppress(OSError):
            return telling_lines(self.log.read_text("utf-8", errors="replace"), lines)
        return []

    def _is_ours(self, pid: int) -> bool:
        """Whether the process is a server on this folder: the lock may be held beyond this pid namespace."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            if Path("/proc/self/cmdline").exists():
                return False
            listed = subprocess.run(
                ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, timeout=10, check=False
            )
            command = listed.stdout
        return self.mark in command


def telling_lines(text: str, lines: int = 5) -> list[str]:
    """The lines of a JVM's output that say what went wrong: the last errors, each once, else the last lines."""
    own = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "... "))]
    loud = [
        line for line in own if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error", "Unrecognized"))
    ]
    return list(dict.fromkeys(loud or own))[-lines:]
