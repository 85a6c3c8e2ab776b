"""The executor side: one process that hosts many Connect tasks and speaks with its worker over the link."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kconnect.errors import ConnectError, LinkError, LinkRefusedError, TimedOutError
from kconnect.files.guarded import forbid_guarded
from kconnect.logs.log_context import LogLevels
from kconnect.model import ConnectorOffset, RunState, TaskCondition, TaskId
from kconnect.runtime.config.slot_keys import SlotSettings
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline import TaskHost, TaskThread
from kconnect.spark.link import Link, connect
from kconnect.spark.messages import (
    ForgetTopics,
    Heartbeat,
    Hello,
    Message,
    OffsetsAck,
    OffsetsCommit,
    OffsetsRead,
    OffsetsReply,
    Quit,
    ReconfigureRequest,
    Refused,
    RunCheck,
    SetLogLevel,
    SetTargetState,
    SlotDemand,
    StartTask,
    StopTasks,
    TaskConditions,
    TaskMetrics,
    TaskReport,
    TasksStopped,
    TaskTopic,
)
from kconnect.spark.processes import ProcessCores, ThreadDemand
from kconnect.spark.slot_io import LinkLogHandler, StdoutForwarder, borrow_stdin
from kconnect.spark.slot_spec import SlotSpec

log = logging.getLogger(__name__)

EXIT_LEFTOVERS: Final = 71
EXIT_WORKER_LOST: Final = 72
# How long a slot that has lost its worker waits for its JVM, which ends at once unless it hangs. Its folder goes too
_PLUGINS_END_S: Final = 1.0
# More than the objects of one fetch of a sink: 5,000 messages. Python's own 700 has each looked at before it is gone.
# Measured on messages made and dropped without Kafka, all else frozen as in a slot: 0.34 us of CPU each with 700, 0.24
# with 10,000. It bounds how much garbage in circles may wait.
_YOUNG_OBJECTS: Final = 10_000


def slot_main(spec: SlotSpec) -> None:
    """Run a slot until its worker says quit or is gone.

    Returns when the slot ended cleanly, so that Spark may use the process again. Otherwise the process ends here
    and now: threads of plugins that never return, or that may already run elsewhere, go with it.
    Errors: LinkRefusedError when its worker does not want it, LinkError when it is not to be found; nothing runs then,
    and Spark hands the reason to whoever submitted the job.
    """
    link = connect(spec.host, spec.port, spec.token, spec.start_timeout_s)
    # Before the log goes over the link: looking for plugins may have something to say, and hello must come first.
    link.send(Hello(spec.slot, socket.gethostname(), os.getpid(), os.getppid()))
    root = logging.getLogger()
    handler, level = LinkLogHandler(link), root.level
    root.addHandler(handler)
    root.setLevel(spec.log_level)
    stdout = StdoutForwarder(link)
    stdout.start()
    borrow_stdin(spec.worker_host, spec.worker_pid)
    forbid_guarded()
    slot = _Slot(spec, link, stdout)
    exit_code = EXIT_WORKER_LOST
    try:
        with rare_collections():
            exit_code = slot.run()
    except LinkRefusedError:
        exit_code = 0
        raise
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        if exit_code != 0:
            sys.stderr.flush()
            os._exit(exit_code)
    link.close()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage in circles after more new objects than one fetch has; the process is Spark's again after it."""
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Slot:
    """The slot's threads: this one reads the link, one sends heartbeats, one a stop, and the host's own."""

    def __init__(self, spec: SlotSpec, link: Link, stdout: StdoutForwarder) -> None:
        from kconnect.java.plugins import JavaSettings
        from kconnect.runtime.plugins import PluginRegistry

        self._spec = spec
        self._link = link
        self._stdout = stdout
        self._offsets = _LinkOffsets(link, spec.offsets_timeout_s)
        self._ending = threading.Event()
        self._exit_code: int | None = None
        self._usage = _Usage()
        self._demand = ThreadDemand() if spec.tells_demand else None
        self._cores = ProcessCores(spec.slot)
        self._sent_counters: Mapping[tuple[TaskId, int], TaskCounters] = {}
        self._sent_conditions: Mapping[tuple[TaskId, int], TaskCondition] = {}
        # On the worker's machine the worker has reported what it skips; elsewhere the folders differ
        self._plugins = PluginRegistry.load(
            spec.plugin_path,
            tells_skipped=spec.worker_host != socket.gethostname(),
            java=JavaSettings.of(spec.java),
        )
        self._host = TaskHost(
            report=self._report,
            offsets=self._offsets,
            reconfigure=self._request_reconfiguration,
            topic_used=self._report_topic,
            may_run=self._offsets.check_run,
            plugins=self._plugins,
        )

    def run(self) -> int:
        """Serve the worker until it quits or is lost; gives the exit code, 0 when no task was abandoned.

        Errors: LinkRefusedError when the worker does not want this slot; no task was started.
        """
        beat = threading.Thread(target=self._beat, name="slot-heartbeat", daemon=True)
        beat.start()
        try:
            while True:
                message = self._link.receive(self._spec.heartbeat_interval_s)
                silent_s = time.monotonic() - self._link.last_received_s
                if message is not None:
                    self._handle(message)
                elif silent_s > self._spec.heartbeat_timeout_s:
                    raise LinkError(f"The worker has been silent for {silent_s:.1f} s")
        except LinkRefusedError as error:
            self._ending.set()
            self._host.close(0.0)
            self._stdout.stop(1.0)
            where = f"{self._spec.host}:{self._spec.port}"
            raise LinkRefusedError(f"Slot and worker at {where} do not match: {error}") from error
        except LinkError as error:
            self._ending.set()
            if self._exit_code is not None:  # we closed it ourselves after the last message
                beat.join(self._spec.heartbeat_interval_s + 1.0)
                return self._exit_code
            # At once: the worker may already have started these tasks elsewhere.
            self._host.close(0.0)
            self._plugins.close(_PLUGINS_END_S)
            sys.stderr.write(f"Slot {self._spec.slot} lost its worker and exits: {error}\n")
            return EXIT_WORKER_LOST

    def _handle(self, message: Message) -> None:
        match message:
            case StartTask(spec):
                self._cores.keep_to(SlotSettings.of_connector(spec.connector_config).cores)
                self._host.start(spec)
            case SetTargetState(ids, state):
                self._host.set_target_state(ids, state)
            case StopTasks():
                # Begun here, so that a StartTask behind it is another run. Waited for on a thread of its own: the last
                # commits of these tasks need answers that only this thread can read.
                tasks = self._host.begin_stop(message.ids, is_cut_off=message.is_cut_off)
                threading.Thread(target=self._await_end, args=(message, tasks), name="slot-stop", daemon=True).start()
            case ForgetTopics(connector):
                self._host.forget_topics(connector)
            case SetLogLevel(logger, level):
                LogLevels().set(logger, level)
            case OffsetsReply(request, offsets, error):
                self._offsets.answered(request, list(offsets), error)
            case OffsetsAck(request, error):
                self._offsets.answered(request, [], error)
            case Quit(timeout_ms):
                threading.Thread(target=self._quit, args=(timeout_ms / 1000,), name="slot-quit", daemon=True).start()
            case Heartbeat():
                pass
            case Refused(reason):
                raise LinkRefusedError(reason)
            case _:
                raise LinkError(f"A worker does not send {type(message).__name__}")

    def _await_end(self, message: StopTasks, tasks: Sequence[TaskThread]) -> None:
        left = self._host.await_end(tasks, message.timeout_ms / 1000)
        self._send(TasksStopped(message.request, tuple(sorted(left))))

    def _quit(self, timeout_s: float) -> None:
        self._host.close(timeout_s)
        leftovers = self._host.leftovers()
        self._plugins.close()
        self._stdout.stop(1.0)
        self._exit_code = EXIT_LEFTOVERS if leftovers else 0
        self._link.abort()

    def _beat(self) -> None:
        while not self._ending.wait(self._spec.heartbeat_interval_s):
            heartbeat = self._usage.heartbeat(self._host.leftovers(), self._plugins.java_ports())
            self._send(heartbeat)
            self._send_counters()
            if self._demand is not None:  # behind the counters, which have the backlog
                percent, tasks = self._demand.look(self._host.threads()) or (heartbeat.cpu_percent, {})
                self._send(SlotDemand(percent, tuple(tasks.items())))
            self._send_conditions()

    def _send_counters(self) -> None:
        """Send the counters that have changed since the last time; nothing while all tasks are idle."""
        counters = self._host.counters_by_run()
        sent, self._sent_counters = self._sent_counters, counters
        # An idle task returns the same object; comparing the values would cost more than everything else here
        new = {key: now for key, now in counters.items() if now is not sent.get(key)}
        changed = tuple((key[0], key[1], now) for key, now in new.items() if now != sent.get(key))
        if changed:
            self._send(TaskMetrics(changed))

    def _send_conditions(self) -> None:
        """Send the conditions that have changed since the last time."""
        conditions = self._host.conditions()
        sent, self._sent_conditions = self._sent_conditions, conditions
        changed = tuple((key[0], key[1], now) for key, now in conditions.items() if now != sent.get(key))
        if changed:
            self._send(TaskConditions(changed))

    def _report(self, task_id: TaskId, run: int, state: RunState, trace: str | None) -> None:
        self._send(TaskReport(task_id, run, state, trace))

    def _report_topic(self, task_id: TaskId, topic: str) -> None:
        self._send(TaskTopic(task_id, topic))

    def _request_reconfiguration(self, connector: str) -> None:
        self._send(ReconfigureRequest(connector))

    def _send(self, message: Message) -> None:
        try:
            self._link.send(message)
        except LinkError as error:
            # The reading thread sees the broken link too, and ends the slot.
            log.debug("%s was not sent: %s", type(message).__name__, error)


class _Usage:
    """CPU time and memory of this process. Threads: the heartbeat thread alone."""

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only starts the interval

    def heartbeat(self, leftovers: int, java_ports: tuple[int, ...]) -> Heartbeat:
        times = self._process.cpu_times()
        percent, memory = self._process.cpu_percent(), self._process.memory_info().rss
        return Heartbeat(leftovers, times.user + times.system, percent, memory, java_ports)


class _LinkOffsets:
    """OffsetPort over the link: each call waits for the worker's answer to its own number."""

    def __init__(self, link: Link, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # guards _waiting
        self._waiting: dict[int, queue.Queue[tuple[list[Mapping[str, Any] | None], str | None]]] = {}

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        number = next(self._numbers)
        failed = f"Offsets of connector {connector} were not read"
        return self._ask(number, OffsetsRead(number, connector, tuple(partitions)), failed)

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        number = next(self._numbers)
        failed = f"Offsets of connector {connector} were not committed"
        self._ask(number, OffsetsCommit(number, connector, tuple(offsets)), failed)

    def check_run(self, task_id: TaskId, run: int) -> None:
        """Errors: ConnectError when the worker says that this run is not wanted any more, or does not say."""
        number = next(self._numbers)
        self._ask(number, RunCheck(number, task_id, run), f"The worker did not confirm that task {task_id} may write")

    def answered(self, number: int, offsets: list[Mapping[str, Any] | None], error: str | None) -> None:
        with self._lock:
            answer = self._waiting.get(number)
        if answer is not None:
            answer.put((offsets, error))

    def _ask(
        self, number: int, message: OffsetsRead | OffsetsCommit | RunCheck, failed: str
    ) -> list[Mapping[str, Any] | None]:
        answer: queue.Queue[tuple[list[Mapping[str, Any] | None], str | None]] = queue.Queue(maxsize=1)
        with self._lock:
            self._waiting[number] = answer
        try:
            self._link.send(message)
            offsets, error = answer.get(timeout=self._timeout_s)
        except queue.Empty:
            raise TimedOutError(
                f"{failed}: no answer within {self._timeout_s:g} s (kconnect.offsets.request.timeout.ms)"
            ) from None
        finally:
            with self._lock:
                del self._waiting[number]
        if error is not None:
            raise ConnectError(error)
        return offsets
