"""The data folder of a development server: who holds it, what the server printed, and what is wrong with it.

NAME.lock   held (flock) by the server's own process for as long as it lives; its text has pid, port and address
NAME.log    what the server prints; NAME.log.old is that of the start before

BrokerFolder is that of the dev broker:

broker.lock         locked (flock) by the broker's process for as long as it lives; contains pid and port
broker.log          what the broker prints; broker.log.old is that of the start before
server.properties   written at each start
log4j2.properties
kafka/              Kafka's own: logs of topics, meta.properties
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
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
        self._own = {self.lock.name}

    @property
    def mark(self) -> str:
        """What only the command line of a server on this folder has."""
        return str(self.path)

    def prepare(self) -> None:
        """Create the folder, and check that it is ours and writable.

        Errors: EnvironmentProblemError, with one message for each possible problem.
        """
        other = "Name another folder with --data."
        if self.path.exists() and not self.path.is_dir():
            raise EnvironmentProblemError(f"The {self.title}'s data folder {self.path} is a file.", hint=other)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise self.not_writable(err) from err
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise self.not_writable(PermissionError(0, "no permission"))
        names = {entry.name for entry in self.path.iterdir()}
        if names and not names & self._own:
            raise EnvironmentProblemError(
                f"{self.path} is not empty and no data folder of this {self.title} (it holds {min(names)}).", hint=other
            )

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
        """The server that holds the folder now, None if none does (or it is just being started, or ends)."""
        found = self.holder()
        return found if found and self._is_ours(found.pid) else None

    def holder(self) -> RunningServer | None:
        """Who holds the folder's lock, as far as its text says; None if nobody does, or nothing is written yet."""
        if not self.is_held():
            return None
        try:
            content = json.loads(self.lock.read_text("utf-8"))
            return RunningServer(**{name: content[name] for name in RunningServer.__slots__})
        except (OSError, ValueError, TypeError, KeyError):
            return None

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


NODE_ID = 1


class BrokerFolder(ServerFolder):
    """One data folder. All methods are cheap and may be called from any process."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "broker", "broker")
        self._own = {self.lock.name, "kafka"}
        self.settings = self.path / "server.properties"
        self.log_settings = self.path / "log4j2.properties"
        self.kafka = self.path / "kafka"
        self.scratch = self.path / "tmp"  # native libraries a JVM unpacks: a killed one leaves them behind
        self.meta = self.kafka / "meta.properties"

    @property
    def mark(self) -> str:
        return str(self.settings)

    @property
    def is_formatted(self) -> bool:
        return self.meta.exists()

    def prepare(self) -> None:
        """The same, and check that it is complete."""
        if os.access(self.path, os.X_OK) and (self.path / "meta.properties").exists():
            raise EnvironmentProblemError(
                f"{self.path} holds the data of another Kafka broker (there is a meta.properties in it).",
                hint="Name another folder with --data.",
            )
        super().prepare()
        try:
            self.kafka.mkdir(exist_ok=True)
        except OSError as err:
            raise self.not_writable(err) from err
        if not os.access(self.kafka, os.R_OK | os.W_OK | os.X_OK):
            raise self.not_writable(PermissionError(0, "no permission"))
        self._check_meta()

    def cluster_id(self) -> str | None:
        """The cluster id of a formatted folder, None before."""
        return self._meta().get("cluster.id")

    def clear_scratch(self) -> None:
        """An empty folder for the JVM's temporary files."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True, exist_ok=True)

    def _meta(self) -> dict[str, str]:
        try:
            text = self.meta.read_text("utf-8")
        except FileNotFoundError:
            return {}
        pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        return {key.strip(): value.strip() for key, _, value in pairs}

    def _check_meta(self) -> None:
        hint = "Delete the folder to start empty, or name another one with --data."
        try:
            meta = self._meta()
        except (OSError, UnicodeDecodeError) as err:
            raise EnvironmentProblemError(
                f"The broker's data folder {self.path} is broken: {self.meta} cannot be read ({err}).", hint=hint
            ) from err
        if not self.is_formatted:
            return
        for key in ("version", "cluster.id", "node.id", "directory.id"):
            if not meta.get(key):
                raise EnvironmentProblemError(
                    f"The broker's data folder {self.path} is broken: {self.meta} has no {key}.", hint=hint
                )
        if meta["node.id"] != str(NODE_ID):
            raise EnvironmentProblemError(
                f"The data folder {self.path} belongs to another cluster: node.id is {meta['node.id']}, not {NODE_ID}.",
                hint=hint,
            )
