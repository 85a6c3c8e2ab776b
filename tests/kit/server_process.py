"""The process of a server that tests start, kill and start again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kit.pace import ended
from kit.waiting import eventually

__all__ = ["ServerProcess"]

_START_S = 60.0


class ServerProcess:
    """One server: started, stopped and killed again and again. Threads: one.

    `answers` tells whether the server is up; it raises AssertionError or gives False while it is not.
    """

    def __init__(self, title: str, log: Path, answers: Callable[[], bool]) -> None:
        self._title, self._log, self._answers = title, log, answers
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, user: int | None = None
    ) -> None:
        """Start, as another user by number if need be, and wait until it answers.

        Errors: RuntimeError with the end of its log when it ends instead.
        """
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=user,
            )
        try:
            eventually(self._is_up, _START_S, f"{self._title} answers")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            ended(self._process, 30)
            self._process = None

    def kill(self) -> None:
        """SIGKILL: what it was doing breaks off, and whoever asked for it gets no answer."""
        if self._process is not None:
            self._process.kill()
            ended(self._process, 10)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            end = self._log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{self._title} ended with {self._process.returncode}\n{end}")
        return self._answers()
