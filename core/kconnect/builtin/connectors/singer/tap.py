"""A running tap: its lines, what it says on stderr, and its end."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from kconnect.api import ConnectError
from kconnect.builtin.connectors.singer import guard

log = logging.getLogger(__name__)

_SECRET = re.compile(r"(?i)pass|secret|token|key|credential|auth|private|signature|dsn|connection")
_SHORTEST_SECRET = 4
_MOST_WAITING = 10_000
_TAIL_LINES = 8
# Above the grace that the guard gives the tap
_STOP_S = 4.0


class Tap:
    """One run of a tap. States: start() -> take()* -> ended -> stop().

    Threads: the caller's, and two that read its output. It must be started on a thread that lives as long as it should:
    when that thread ends, the tap is ended.
    """

    def __init__(
        self, command: Sequence[str], files: Mapping[str, str], secrets: Sequence[str], wake: Callable[[], None]
    ) -> None:
        """`files`: options that name a file, with the text that goes into it."""
        self.name = os.path.basename(command[0])
        self._command, self._files, self._wake = list(command), dict(files), wake
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: deque[bytes] = deque()
        self._room = threading.Condition()  # notified when lines were taken, and by stop()
        self._is_stopping = False
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._threads: list[threading.Thread] = []
        self._last_s = time.monotonic()

    def start(self) -> None:
        """Errors: ConnectError when the settings cannot be written."""
        try:
            folder = Path(tempfile.mkdtemp(prefix="kconnect-singer-"))  # for its owner alone
            options: list[str] = []
            for option, text in self._files.items():
                file = folder / f"{option.lstrip('-')}.json"
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                    out.write(text)
                options += [option, str(file)]
        except OSError as err:
            raise ConnectError(f"The settings of {self.name} cannot be written: {err}") from err
        watch = [sys.executable, "-I", "-S", str(guard.__file__), str(folder), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [*watch, *self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as err:
            shutil.rmtree(folder, ignore_errors=True)
            raise ConnectError(f"{self.name} cannot be run: {err}") from err
        for title, read, stream in (
            ("out", self._read_lines, self._process.stdout),
            ("log", self._read_log, self._process.stderr),
        ):
            thread = threading.Thread(target=read, args=(stream,), name=f"singer-{title}-{self.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self, most: int) -> list[bytes]:
        """Lines that it wrote since."""
        lines = self._lines
        found = [lines.popleft() for _ in range(min(most, len(lines)))]
        if found:
            with self._room:
                self._room.notify_all()
        return found

    def silent_s(self) -> float:
        """How long it has not written a line, though it could."""
        return 0.0 if self._lines else time.monotonic() - self._last_s

    def ended(self) -> int | None:
        """Its exit code, once all its lines were taken; None before."""
        assert self._process is not None
        if self._threads[0].is_alive() or self._lines:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_STOP_S)
        return None

    def tail(self) -> str:
        """The last that it said on stderr, without secrets."""
        self._threads[1].join(1.0)
        return "\n".join(self._tail)

    def stop(self) -> None:
        """End it, with what it has started, and remove its settings."""
        with self._room:
            self._is_stopping = True
            self._room.notify_all()
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                log.warning("%s does not end, and is killed", self.name)
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join(_STOP_S)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _read_lines(self, stream: IO[bytes]) -> None:
        for line in stream:
            if len(self._lines) >= _MOST_WAITING:
                with self._room:
                    self._room.wait_for(lambda: self._is_stopping or len(self._lines) < _MOST_WAITING)
            if self._is_stopping:
                break
            self._last_s = time.monotonic()
            self._lines.append(line)
            if len(self._lines) == 1:
                self._wake()
        self._last_s = time.monotonic()
        self._wake()

    def _read_log(self, stream: IO[bytes]) -> None:
        for raw in stream:
            line = raw.decode(errors="replace").rstrip()
            for secret in self._secrets:
                line = line.replace(secret, "[hidden]")
            if line:
                self._tail.append(line)
                log.info("%s: %s", self.name, line)


def secrets_of(config: Any) -> list[str]:
    """The texts in a tap's settings that may be secret, by the names of their fields."""
    found: list[str] = []

    def look(value: Any, is_secret: bool) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                look(part, is_secret or bool(_SECRET.search(name)))
        elif isinstance(value, list):
            for part in value:
                look(part, is_secret)
        elif is_secret and isinstance(value, str) and len(value) >= _SHORTEST_SECRET:
            found.extend({value, json.dumps(value)[1:-1]})

    look(config, False)
    return found
