"""BatchLoop: a query without state as batch jobs of Spark, one after the other: plan, write, commit, again."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from kconnect.logs.log_context import set_log_context
from kconnect.model import TaskId
from kconnect.spark.query.engine import QUERY_POOL

_MOST_PROGRESS: Final = 100
# A trigger of 0 ms is no reason to ask brokers and tables without a pause while nothing is new
_LEAST_PAUSE_S: Final = 0.05
_STOP_S: Final = 1.0
_CANCEL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One batch that was written and committed."""

    number: int
    rows: int
    """Read, not written."""
    planned_s: float
    """When its plan was made, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """Has of Spark's StreamingQueryProgress what anybody looks at."""

    json: str
    batchId: int  # Spark's name
    timestamp: float


class Batches(Protocol):
    """What makes the batches. Threads: the loop's."""

    def once(self, is_stopping: Callable[[], bool]) -> BatchDone | None:
        """Do the next batch; None if there is nothing new. Errors end the query."""
        ...


class BatchLoop:
    """Behaves as a StreamingQuery: isActive, stop(), exception(), runId, recentProgress. One thread of its own."""

    def __init__(self, session: Any, task: TaskId, trigger_ms: int, batches: Batches) -> None:
        self.runId = uuid.uuid4()  # names as Spark's
        self.recentProgress: deque[_Progress] = deque(maxlen=_MOST_PROGRESS)
        self._session = session
        self._task = task
        self._pause_s = max(trigger_ms / 1000, _LEAST_PAUSE_S)
        self._trigger_s = trigger_ms / 1000
        self._batches = batches
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._began_s: float | None = None  # the last batch
        self._thread = threading.Thread(target=self._run, name=f"query-{task.connector}", daemon=True)

    @property
    def isActive(self) -> bool:  # Spark's name
        return self._thread.is_alive()

    @property
    def lastProgress(self) -> _Progress | None:  # Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End after the batch under way; its jobs are cancelled if it does not end soon."""
        self._stopping.set()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            self._session.sparkContext.cancelJobGroup(self._group)
            self._thread.join(_CANCEL_S)

    def exception(self) -> BaseException | None:
        return self._error

    @property
    def _group(self) -> str:
        return f"kconnect-query-{self._task.connector}-{self.runId}"

    def _run(self) -> None:
        set_log_context(self._task.connector, self._task.task)
        try:
            context = self._session.sparkContext
            context.setJobGroup(self._group, f"kconnect query {self._task.connector}", interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", QUERY_POOL)
            while not self._stopping.is_set():
                began_s = time.monotonic()
                done = self._batches.once(self._stopping.is_set)
                if done is None:
                    self._stopping.wait(self._pause_s)
                    continue
                self._note(done, began_s)
                self._stopping.wait(max(0.0, self._trigger_s - (time.monotonic() - began_s)))
        except BaseException as error:  # the thread's top; the task asks for it
            if not self._stopping.is_set():
                self._error = error

    def _note(self, done: BatchDone, began_s: float) -> None:
        now_s = time.monotonic()
        since_s = now_s - began_s if self._began_s is None else began_s - self._began_s
        self._began_s = began_s
        body = {
            "batchId": done.number,
            "numInputRows": done.rows,
            "inputRowsPerSecond": done.rows / max(since_s, 1e-3),
            "processedRowsPerSecond": done.rows / max(now_s - began_s, 1e-3),
            "durationMs": {
                "triggerExecution": int((now_s - began_s) * 1000),
                "queryPlanning": int((done.planned_s - began_s) * 1000),
                "addBatch": int((now_s - done.planned_s) * 1000),
            },
        }
        self.recentProgress.append(_Progress(json.dumps(body), done.number, now_s))
