"""Hands what slots report to the herder: states in order on one thread, offset requests on a few of their own."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kconnect.errors import ConnectError, with_hint
from kconnect.runtime.herder.interface import LauncherEvents
from kconnect.spark.messages import (
    Message,
    OffsetsAck,
    OffsetsCommit,
    OffsetsRead,
    OffsetsReply,
    ReconfigureRequest,
    RunCheck,
    TaskReport,
    TaskTopic,
)

log = logging.getLogger(__name__)

# Enough that one slow read does not hold up the commits of other tasks.
_OFFSET_THREADS = 4

Notice = TaskReport | ReconfigureRequest | TaskTopic
OffsetRequest = OffsetsRead | OffsetsCommit | RunCheck


class EventRelay:
    """Lifecycle: constructed -> start -> stop. Threads: `post` and `answer` from any."""

    def __init__(self) -> None:
        self._events: LauncherEvents | None = None
        # Unbounded: at most a handful for each task, and the herder must return quickly by contract.
        self._notices: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._offset_threads = ThreadPoolExecutor(_OFFSET_THREADS, thread_name_prefix="slot-offsets")
        self._thread = threading.Thread(target=self._deliver_all, name="launcher-events", daemon=True)

    def start(self, events: LauncherEvents) -> None:
        self._events = events
        self._thread.start()

    def post(self, notice: Notice) -> None:
        """Deliver it after all that were posted before. Never blocks."""
        self._notices.put(notice)

    def answer(self, request: OffsetRequest, reply: Callable[[Message], None]) -> None:
        """Have the herder serve the request, and send the answer by `reply`. Never blocks.

        `reply` reaches the process that asked and no other: the next process of its slot counts its requests from one
        again, and would take an answer that was late for its own.
        """
        try:
            self._offset_threads.submit(self._serve, request, reply)
        except RuntimeError:  # stopped: the slot is being stopped too, and its task treats silence as a failure
            log.debug("%s came after the stop", type(request).__name__)

    def stop(self, timeout_s: float) -> None:
        """Deliver what was posted, then end. Idempotent."""
        self._offset_threads.shutdown(wait=False, cancel_futures=True)
        self._notices.put(None)
        if self._thread.ident is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("Thread %s did not end in time", self._thread.name)

    def _deliver_all(self) -> None:
        while (notice := self._notices.get()) is not None:
            try:
                self._deliver(notice)
            except Exception:  # a callback that fails must not stop the ones after it
                log.exception("Delivering %s failed", notice)

    def _deliver(self, notice: Notice) -> None:
        assert self._events is not None, "start() first"
        match notice:
            case TaskReport():
                self._events.task_status(notice.id, notice.run, notice.state, notice.trace)
            case TaskTopic():
                self._events.topic_used(notice.id, notice.topic)
            case ReconfigureRequest():
                self._events.reconfiguration_requested(notice.connector)

    def _serve(self, request: OffsetRequest, reply: Callable[[Message], None]) -> None:
        assert self._events is not None, "start() first"
        offsets: tuple[object, ...] = ()
        error: str | None = None
        try:
            match request:
                case OffsetsRead():
                    offsets = tuple(self._events.read_offsets(request.connector, request.partitions))
                case OffsetsCommit():
                    self._events.commit_offsets(request.connector, request.offsets)
                case RunCheck():
                    self._events.check_run(request.id, request.run)
        except Exception as failure:  # the slot's task gets the reason and decides what it means
            if not isinstance(failure, ConnectError):
                log.exception("%s could not be served", request)
            error = with_hint(failure)
        if isinstance(request, OffsetsRead):
            reply(OffsetsReply(request.request, offsets, error))  # type: ignore[arg-type]  # as read_offsets gave it
        else:
            reply(OffsetsAck(request.request, error))
