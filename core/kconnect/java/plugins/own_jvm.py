"""OwnJvm: the process of a JVM that this process has started: its start, what it prints, and why it ended."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from kconnect.errors import ConnectError, EnvironmentProblemError, TimedOutError
from kconnect.java.plugins.java_error import JavaHostDiedError
from kconnect.java.plugins.program import TakenOptions

log = logging.getLogger(__name__)

# A start reads a hundred jars, which takes longer than an answer. 0.4 s on a quiet machine.
_START_TIMES: Final = 2
_TIMEOUT: Final = "kconnect.java.timeout.ms"
END_TIMEOUT_S: Final = 5.0
_CRASH_LINES: Final = 12
# Paths of sockets have 103 bytes at most (macOS; Linux 107), of which folder and socket take 30.
_MOST_PATH_BYTES: Final = 73
# The exit code of -XX:+ExitOnOutOfMemoryError, which is anybody's: then standard output says so, too
_OUT_OF_MEMORY: Final = 3
_MOST_OUTPUT_BYTES: Final = 1 << 16
# What Ending.java writes of a plugin that calls System.exit
_EXIT: Final = "exit"


class OwnJvm:
    """Lifecycle: start() -> end(); or it ends by itself.

    Its end: it reads standard input, which ends when this process does, however that ends.
    Threads: any.
    """

    is_shared: Final = False

    def __init__(self, command: Sequence[str], *, silent_after_s: float, taken: TakenOptions) -> None:
        """`silent_after_s`: one that starts has twice as long. `taken`: its ports, which are released at its end."""
        self._command = [*command]
        self._taken = taken
        self._silent_after_s = silent_after_s
        # Mode 0700: nobody else reaches the socket
        self._folder = Path(tempfile.mkdtemp(prefix="kconnect-java-", dir=folder_for_a_socket(tempfile.gettempdir())))
        self._token = secrets.token_hex(32)
        self._ending = threading.Event()
        self._verdict: str | None = None
        """Why we killed it."""
        self._reading = threading.Lock()
        self._printed = b""

    # --- start ---

    def start(self, wants: Mapping[str, Any]) -> None:
        """Launch it and wait until it listens. `wants`: what its first line says beside socket and token.

        Errors: EnvironmentProblemError when it does not start, TimedOutError.
        """
        socket, token = self.address
        try:
            self._process = self._launch({"socket": socket, "token": token, **wants})
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def _launch(self, start: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        with (self._folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [self._command[0], f"-XX:ErrorFile={self._folder}/hs_err", *self._command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(start).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended at once: its output says why
        try:
            _await_ready(process, process.stdout, self._folder, self._silent_after_s * _START_TIMES, self._command)
        except BaseException:
            with contextlib.suppress(BrokenPipeError):  # what it did not read
                process.stdin.close()
            process.stdout.close()
            raise
        return process

    # --- state ---

    @property
    def address(self) -> tuple[str, str]:
        """Its socket, and the token that each connection begins with."""
        return str(self._folder / "socket"), self._token

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ports(self) -> tuple[int, ...]:
        """On which it listens, by its options."""
        return self._taken.ports

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def look(self) -> None:
        """Log what it has printed; to be called every few seconds."""
        self._output()

    def kill(self, why: str) -> None:
        """Its tasks learn why; what is said first counts."""
        log.error("The JVM that runs Java's plugins (pid %d) is killed: %s", self.pid, why)
        self._verdict = self._verdict or why
        self._process.kill()

    # --- end ---

    def death(self) -> ConnectError:
        """Why the JVM is gone, as far as it can be known."""
        if not self._ending.is_set() or self._verdict is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
        code = self._process.poll()
        if code is None:
            return JavaHostDiedError("The JVM that runs Java's plugins has closed the connection")
        said = _last_words(self._folder)
        reason = f": {self._verdict}" if self._verdict else self._reason(code)
        return JavaHostDiedError(
            f"The JVM that runs Java's plugins ended ({_how(code)}{reason})" + (f": {said}" if said else ""),
            hint="Its tasks can be restarted; the next start begins with a new JVM.",
        )

    def _reason(self, code: int) -> str:
        """What is known of an end that was not our doing."""
        if code == -signal.SIGKILL:
            return ": by somebody, or by the kernel when memory ran out"
        with contextlib.suppress(OSError):
            return f", as {(self._folder / _EXIT).read_text('utf-8', 'replace')}"
        reported = re.search(r"java\.lang\.OutOfMemoryError: (.*)", self._output() if code == _OUT_OF_MEMORY else "")
        if reported is None:
            return ""
        setting = "kconnect.java.heap" if "heap" in reported[1] else "its limit in kconnect.java.opts"
        return f", as it ran out of memory ({reported[1].strip()}): raise {setting}"

    def _output(self) -> str:
        """What the JVM itself, or C code of a plugin, writes to standard output: else it would block once that is full.

        The end of it; what is new is logged. Threads: the one that watches, then those that ask for its end.
        """
        new = b""
        with contextlib.suppress(OSError, ValueError), self._reading:  # nothing is there, or it is closed
            if self._process.stdout is not None:
                while more := os.read(self._process.stdout.fileno(), _MOST_OUTPUT_BYTES):
                    new += more
        if new:
            self._printed = (self._printed + new)[-_MOST_OUTPUT_BYTES:]
            log.info("The JVM that runs Java's plugins (pid %d) prints: %s", self.pid, new.decode("utf-8", "replace"))
        return self._printed.decode("utf-8", "replace")

    def end(self, timeout_s: float) -> None:
        """End it; kills it at the deadline. Idempotent."""
        self._ending.set()
        process = self._process
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_TIMEOUT_S)
        if process.stdout is not None:
            with self._reading:
                process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._taken.release()


def folder_for_a_socket(temporary: str) -> str:
    """Where the folder of a socket is made: /tmp where the usual place makes the socket's path too long."""
    return temporary if len(os.fsencode(temporary)) <= _MOST_PATH_BYTES else "/tmp"


def _await_ready(
    process: subprocess.Popen[bytes], output: IO[bytes], folder: Path, within_s: float, command: Sequence[str]
) -> None:
    late = threading.Timer(within_s, process.kill)
    late.start()
    try:
        line = output.readline()
    finally:
        is_late = not late.is_alive()
        late.cancel()
    if line == b"ready\n":
        return
    if not line:  # its end: what ended it counts, not our signal
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
    process.kill()
    code = process.wait(END_TIMEOUT_S)
    if is_late:
        raise TimedOutError(
            f"The JVM for Java's plugins was not ready within {within_s:.0f} s ({_START_TIMES} times {_TIMEOUT})"
        )
    said = _last_words(folder) or line.decode("utf-8", "replace").strip()
    raise EnvironmentProblemError(
        f"The JVM for Java's plugins did not start ({_how(code)}{_blamed(said, command)})"
        + (f": {said}" if said else ""),
        hint="Correct kconnect.java.opts, kconnect.java.heap or kconnect.java.home.",
    )


def _blamed(said: str, command: Sequence[str]) -> str:
    """The option that the JVM names, if it is one of those that a worker's settings give."""
    for option in command:
        if option.startswith("-") and option.removeprefix("-XX:").lstrip("+-") in said:
            return f", option {option} of {'kconnect.java.heap' if option.startswith('-Xmx') else 'kconnect.java.opts'}"
    return ""


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _last_words(folder: Path) -> str:
    """The head of hs_err, or else what it wrote last."""
    for name, is_head in (("hs_err", True), ("errors", False)):
        with contextlib.suppress(OSError):
            lines = [line for line in (folder / name).read_text("utf-8", "replace").splitlines() if line.strip("# ")]
            if lines:
                return "\n".join(lines[:_CRASH_LINES] if is_head else lines[-_CRASH_LINES:])
    return ""
