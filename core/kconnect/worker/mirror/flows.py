"""What runs a flow: FlowProcesses has a worker process for each, and FlowConnectors their connectors.

A process that ends is started again. The leader of a flow's workers creates its connectors; each worker tells how
they are.

Source: MirrorHerder (Kafka 4.3).
"""

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
from types import TracebackType
from typing import IO, Any, Final, Protocol, Self

from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorInfo, ConnectorStatus
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


# How soon a new leader, or a new state, is noticed: a look at what is in memory
_LOOK_S: Final = 1.0
_AGAIN_S: Final = (5.0, 15.0, 60.0)


class FlowHerder(Protocol):
    """What is needed of a worker's herder."""

    @property
    def is_leader(self) -> bool: ...
    def connector_config(self, name: str) -> Mapping[str, str]: ...
    def connector_status(self, name: str) -> ConnectorStatus: ...
    def put_connector(self, name: str, config: Mapping[str, str], *, replace: bool) -> tuple[bool, ConnectorInfo]: ...


class FlowConnectors:
    """A context manager, used while the worker is in its group: a thread looks after the connectors meanwhile.

    Only a leader writes, once each time it becomes one, and only what is different: a worker with an older file that
    joins changes nothing. Differs: what fails is tried again; Java's leader waits for the next election.
    """

    def __init__(self, flow: Flow, configs: Mapping[str, Mapping[str, str]], herder: FlowHerder) -> None:
        self._flow = flow
        self._configs = configs
        self._herder = herder
        self._stop = threading.Event()
        self._has_led = False
        self._failures = 0
        self._reported = ""
        self._thread = threading.Thread(target=self._run, name=f"mirror-{flow}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            wait_s = self.look()
            if self._stop.wait(wait_s):
                return

    def look(self) -> float:
        """One look: what a new leader has to write, and states that are new. Gives the seconds until the next."""
        if not self._herder.is_leader:
            self._has_led = False
        elif not self._has_led:
            try:
                self._configure()
            except ConnectError as err:
                wait_s = _AGAIN_S[min(self._failures, len(_AGAIN_S) - 1)]
                self._failures += 1
                log.error(
                    "The connectors of %s are not as the file has them: %s. Next try in %g s", self._flow, err, wait_s
                )
                return wait_s
            self._has_led, self._failures = True, 0
        self._tell()
        return _LOOK_S

    def _configure(self) -> None:
        for name, wanted in self._configs.items():
            try:
                if dict(self._herder.connector_config(name)) == wanted:
                    log.info("%s of %s is as the file has it", name, self._flow)
                    continue
            except NotFoundError:
                pass
            self._herder.put_connector(name, wanted, replace=True)
            log.info("This worker leads %s: it has configured %s", self._flow, name)

    def _tell(self) -> None:
        parts = []
        for name in self._configs:
            try:
                parts.append(_state(self._herder.connector_status(name)))
            except NotFoundError:
                return  # created just now, or by a leader that has not come to it yet
        message = "; ".join(parts)
        if message != self._reported:
            self._reported = message
            log.info("Flow %s: %s", self._flow, message)


def _state(status: ConnectorStatus) -> str:
    by_state: dict[str, int] = {}
    for task in status.tasks:
        by_state[str(task.state)] = by_state.get(str(task.state), 0) + 1
    tasks = ", ".join(f"{pluralize(count, 'task')} {state}" for state, count in sorted(by_state.items()))
    return f"{status.name} {status.connector.state} ({tasks or 'no tasks'})"
