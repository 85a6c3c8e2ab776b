"""What `connect standalone` and `connect distributed` share: the run itself, signals, exit codes, a broker beside."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from kconnect.errors import ConnectError
from kconnect.logs.timeline import note_step
from kconnect_cli.exits import ExitError, UsageProblem
from kconnect_cli.session import session_of

if TYPE_CHECKING:
    from kconnect.worker import DistributedWorker, StandaloneWorker
    from kconnect_cli.processes.start_timings import StartTimings
    from kconnect_cli.screen.live_view import LiveView

    Worker = DistributedWorker | StandaloneWorker


class Stoppable(Protocol):
    """What a signal stops."""

    def request_stop(self) -> None: ...


EXIT_WORKER = 2
_DEFAULT_PORT = 9092
_STOPPING = {
    signal.SIGINT: "Stopping; press Ctrl-C again to quit now",
    signal.SIGTERM: "Stopping (SIGTERM); a second signal quits now",
}

log = logging.getLogger(__name__)
Made = TypeVar("Made", bound="Worker")


def shows_live(no_live: bool) -> bool:
    """Whether there is a terminal to draw on."""
    return not no_live and sys.stderr.isatty() and sys.stdout.isatty()


def run_worker(
    make: Callable[[], Made],
    signals: StopSignals,
    view: AbstractContextManager[LiveView | None],
    *,
    exit_code: int,
    timings: StartTimings | None = None,
    beside: Callable[[Made], AbstractContextManager[object]] = lambda _worker: nullcontext(),
) -> None:
    """Make the worker, start it, wait for a signal, stop it.

    `make` is called inside of the view: a worker's code takes a busy machine seconds to load. `beside`: what goes on
    while it runs. Errors: ExitError with Java's code, `exit_code` once it has started.
    """
    with view as shown:
        from kconnect.worker import StartupError

        worker = make()
        note_step("The worker's code is loaded")
        signals.stop_on_signal(worker)
        if shown is not None:
            shown.show(worker)
        try:
            worker.start()
            log.info("REST answers at %s; Ctrl-C stops the worker", worker.rest_url)
            with beside(worker), nullcontext() if timings is None else timings.printed(worker):
                worker.wait()
        except StartupError as err:
            if not signals.received:
                raise ExitError(err, err.exit_code) from err
        except ConnectError as err:
            raise ExitError(err, exit_code) from err
        finally:
            worker.stop()


def live_view(
    properties: Mapping[str, str], handler: logging.Handler | None
) -> AbstractContextManager[LiveView | None]:
    """The live view in place of the lines of `handler`; None: plain lines."""
    if handler is None:
        return nullcontext()
    from kconnect_cli.screen.live_view import LiveView

    return LiveView(handler, sys.stderr, properties.get("bootstrap.servers", ""))


def start_broker(stack: ExitStack, properties: Mapping[str, str], ctx: typer.Context) -> None:
    from kconnect.java.devbroker import DevBroker
    from kconnect_cli.processes.broker_progress import PREPARING, FetchTalk

    port = broker_port(properties.get("bootstrap.servers", ""))
    running = stack.enter_context(DevBroker(port, progress=FetchTalk(session_of(ctx))))
    log.info("Kafka is ready at %s, its data in %s", running.bootstrap, running.folder.path)
    if running.prepares_archive:
        log.info("%s", PREPARING)


def broker_port(bootstrap: str) -> int:
    """The port the dev broker must have so that the worker finds it. Errors: UsageProblem if it cannot be there."""
    host, _, port = bootstrap.split(",")[0].strip().rpartition(":")
    if host not in ("localhost", "127.0.0.1") or not port.isdecimal():
        raise UsageProblem(
            f"--broker starts a broker on this machine, and bootstrap.servers is {bootstrap}",
            hint=f"Leave --broker out, or set bootstrap.servers=localhost:{_DEFAULT_PORT}.",
        )
    return int(port)


class StopSignals:
    """SIGINT and SIGTERM: the first asks the worker to stop, the second quits at once (offsets stay as committed).

    A handler interrupts the main thread wherever that is, also while it holds a lock that a stop needs, such as that of
    the event it waits for. So the handler takes none: it writes to a pipe, and a thread asks the worker.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._worker: Stoppable | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopSignals:
        self._reader, self._writer = os.pipe()
        self._thread = threading.Thread(target=self._ask, name="stop-signals", daemon=True)
        self._thread.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() gave us
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def stop_on_signal(self, worker: Stoppable) -> None:
        self._worker = worker
        if self.received is not None:
            worker.request_stop()

    def exit_code(self) -> int:
        return 0 if self.received is None else 128 + self.received

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number
        os.write(self._writer, bytes([number]))
        if self._worker is None:
            raise SystemExit(128 + number)

    def _ask(self) -> None:
        """On a thread of its own, until the pipe is closed."""
        while written := os.read(self._reader, 1):
            log.info(_STOPPING[signal.Signals(written[0])])
            if self._worker is not None:
                self._worker.request_stop()


@contextmanager
def exit_code(code: int) -> Iterator[None]:
    """What goes wrong inside ends the command with this code."""
    try:
        yield
    except UsageProblem:
        raise
    except ConnectError as err:
        raise ExitError(err, code) from err
