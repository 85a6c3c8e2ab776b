"""FlowProcesses: one worker process for each flow, and what is done when one ends."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError
from kconnect.worker.mirror.settings import Flow

log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
# A worker stops its tasks, its slots and its Spark application in this time, on a busy machine
_STOP_S: Final = 60.0
_BACKOFF: Final = Backoff(first_s=1.0, most_s=60.0)
# One that has run for so long failed by some new cause: it is started again at once
_RAN_WELL_S: Final = 300.0

Tell = Callable[[Flow, str], None]
"""Gets each line of a worker's log. Threads: one of each worker."""


class FlowProcesses:
    """The workers of all flows. States: made -> started -> stopped.

    Each gets its settings on standard input, so that no file has them; the input stays open, and a worker stops when it
    ends: nothing outlives this process, however it ends. A worker that ends by itself is started again, after a pause
    that grows; one that cannot even start the first time ends all.
    Threads: one at a time; `request_stop` from any, but no signal handler, which could interrupt `wait`.
    """

    def __init__(self, command: Sequence[str], settings: Mapping[Flow, Mapping[str, Any]], tell: Tell) -> None:
        """`command` starts a worker; `settings`: what it reads, as one line of JSON."""
        self._workers = [_FlowWorker(flow, command, reported, tell) for flow, reported in settings.items()]
        self._stop = threading.Event()

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def request_stop(self) -> None:
        self._stop.set()

    def wait(self) -> None:
        """Until a stop is requested. Errors: ConnectError when a worker cannot start."""
        while not self._stop.wait(_POLL_S):
            for worker in self._workers:
                worker.heal()

    def stop(self) -> None:
        """Stop all workers, side by side; kills those that take too long. Idempotent."""
        for worker in self._workers:
            worker.end()
        deadline_s = time.monotonic() + _STOP_S
        for worker in self._workers:
            worker.await_end(deadline_s)


class _FlowWorker:
    """The process of one flow, and its successors."""

    def __init__(self, flow: Flow, command: Sequence[str], reported: Mapping[str, Any], tell: Tell) -> None:
        self._flow = flow
        self._command = list(command)
        self._reported = reported
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []
        self._was_ready = threading.Event()  # set by a reader
        self._began_s = 0.0
        self._pauses = Pauses(_BACKOFF)
        self._starts_at_s: float | None = None

    def start(self) -> None:
        self._began_s = time.monotonic()
        self._starts_at_s = None
        process = self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C comes to this process, which stops the workers in order
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError):  # it ended at once: its log and its code say why
            process.stdin.write(json.dumps(self._reported).encode() + b"\n")
            process.stdin.flush()
        self._readers = [
            threading.Thread(target=self._read, args=(process.stderr,), name=f"log-{self._flow}"),
            threading.Thread(target=self._hear, args=(process.stdout,), name=f"ready-{self._flow}"),
        ]
        for reader in self._readers:
            reader.start()

    def heal(self) -> None:
        """Start it again if it ended and its pause is over. Errors: ConnectError if it has never run."""
        now_s = time.monotonic()
        if self._starts_at_s is not None:
            if now_s >= self._starts_at_s:
                self.start()
            return
        assert self._process is not None
        code = self._process.poll()
        if code is None:
            return
        self._close()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if not self._was_ready.is_set():
            raise ConnectError(f"The worker of {self._flow} could not start: it {how}", hint="Its log says why.")
        if now_s - self._began_s > _RAN_WELL_S:
            self._pauses.reset()
        pause_s = self._pauses.next_s()
        self._starts_at_s = now_s + pause_s
        log.error("The worker of %s %s; it is started again in %g s", self._flow, how, pause_s)

    def end(self) -> None:
        self._starts_at_s = None
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def await_end(self, deadline_s: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("The worker of %s did not stop in %g s, and is killed", self._flow, _STOP_S)
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._close()

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for reader in self._readers:
            reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what it did not read any more
                    stream.close()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._tell(self._flow, line.decode("utf-8", "replace").rstrip("\n"))

    def _hear(self, stream: IO[bytes]) -> None:
        for line in stream:
            log.info("The worker of %s is in its group; REST at %s", self._flow, line.decode().strip())
            self._was_ready.set()
