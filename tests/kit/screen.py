"""A terminal for tests: runs a command on a pty of a given size and keeps what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from types import TracebackType

from kit.pace import ended, now

__all__ = ["Terminal"]


class Terminal:
    """A command on a terminal. `text` is all it wrote so far, escapes and all; `until` waits for a word in it."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, cwd: str, columns: int = 100, lines: int = 24
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            list(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            # A run on several processes says how wide its own terminal is, which would win over this one's
            env={key: value for key, value in env.items() if key not in ("LINES", "COLUMNS")}
            | {"TERM": "xterm-256color"},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(slave)
        self._raw = b""
        self._taken = 0

    @property
    def text(self) -> str:
        return self._raw.decode(errors="replace")

    @property
    def raw(self) -> bytes:
        """All that it wrote so far."""
        return self._raw

    def taken(self) -> bytes:
        """What was written since the last call."""
        while self._read(0.0):
            pass
        found, self._taken = self._raw[self._taken :], len(self._raw)
        return found

    def resize(self, columns: int, lines: int) -> None:
        """As when a window is drawn larger; the program is reported."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def until(self, word: str, within_s: float = 20.0) -> str:
        """Everything written once `word` was; fails with it all when it was not in time."""
        deadline = now() + within_s
        while word not in self.text:
            # Looked at before it is read: what it wrote last is on the terminal when it has ended
            is_late, has_ended = now() > deadline, self.process.poll() is not None
            if self._read(0.1):
                continue
            assert not has_ended, f"ended with {self.process.returncode} without {word!r}:\n{self.text}"
            assert not is_late, f"no {word!r} within {within_s:g} s:\n{self.text}"
        return self.text

    def forget(self) -> None:
        """Look for later words only in what comes from now on."""
        self._raw, self._taken = b"", 0

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self, within_s: float = 20.0) -> int:
        deadline = now() + within_s
        while self.process.poll() is None:
            self._read(0.1)
            assert now() < deadline, f"it did not end within {within_s:g} s:\n{self.text}"
        while self._read(0.05):
            pass
        return self.process.returncode

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # Linux says EIO when the other end is closed
            return False
        self._raw += piece
        return bool(piece)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            ended(self.process, 10)
        os.close(self._master)
