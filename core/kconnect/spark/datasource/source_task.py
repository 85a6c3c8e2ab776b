"""One source task from start to stop, polled with retries; and its whole content read in order.

By the worker's calls, context, retries and hooks, but not by its SourceLoop. That ends in bytes that a producer takes,
and commits by itself once Kafka has them. Here columns keep their types, Spark asks for rows and says when it has them,
and an idle task is at the end of a read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kconnect.api import RecordBatch, SourceRecord, SourceTask
from kconnect.errors import RetriableError
from kconnect.model import ConnectorOffset, ConnectorType
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets, updates_offsets
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.runtime.pipeline.polled import EmptyPolls, checked_poll
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.retries import FIRST_POLL_PAUSE_S, Patience, Retries
from kconnect.runtime.pipeline.source import SourceCalls, SourceContext
from kconnect.runtime.pipeline.task_hooks import TaskHooks, wants_each_record
from kconnect.spark.datasource.chain import Rows, SourceChain
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.no_host import ports_without_host

log = logging.getLogger(__name__)

Polled = RecordBatch | Sequence[SourceRecord]


class SourceTaskRun:
    """Threads: one for start, poll, rows, committed and stop; `idleness` has what others may call.

    Lifecycle: constructed -> start -> polls -> stop, which is due after a failed start, too.
    """

    def __init__(
        self,
        connector: ConnectorOfFormat,
        config: Mapping[str, str],
        index: int,
        offsets: Positions,
        *,
        retry_timeout_s: float = float("inf"),
        letters: bool = True,
    ) -> None:
        """`retry_timeout_s`: less patience with a RetriableError than kconnect.retry.timeout.ms.

        `letters`: records that fail become dead letters, if the connector has a queue for them.
        """
        connector.hides_secrets([config])
        self.index = index
        self._connector_name = connector.config["name"]
        spec = connector.spec(ConnectorType.SOURCE, index, config, letters=letters)
        self._control = TaskControl(spec, ports_without_host(connector.plugins))
        self.chain = SourceChain(self._control, connector.plugins)
        self._task: SourceTask = make_task(connector.config, connector.plugins, SourceTask)  # type: ignore[type-abstract]  # looks for a subclass
        self.idleness = Idleness()
        give_up = partial(self.chain.give_up, type(self._task))
        context = SourceContext(self.idleness, offsets, lambda: config, self.chain.metrics, give_up=give_up)
        self._calls = SourceCalls(self._task, config, context)
        self.name = type(self._task).__name__
        self.wants_each = wants_each_record(self._task)
        self._retries = Retries(
            self._control,
            self._task,
            "poll",
            first_s=FIRST_POLL_PAUSE_S,
            cap_s=self.chain.retry_delay_most_s,
            patience=Patience(min(connector.options.retry_timeout_s, retry_timeout_s), "kconnect.retry.timeout.ms"),
        )
        self._empty_polls = EmptyPolls()
        self._hooks = TaskHooks(self._control, self._task)

    def start(self) -> None:
        self.chain.start()
        self._calls.start()

    def poll(self) -> Polled | None:
        """The next records; None if there are none right now, after a wait.

        Errors: what poll() raises; a RetriableError once it has been repeated for kconnect.retry.timeout.ms.
        """
        began_s = time.monotonic()
        polled: Polled | None = self._poll_with_retries()
        took_s = time.monotonic() - began_s
        checked_poll(self._task, polled)
        self.chain.send_letters()  # of records that the task itself reported
        found = not is_empty(polled)
        self.idleness.gave(any_records=found, took_s=took_s)
        if found:
            self._empty_polls.count = 0
            return polled
        if self.idleness.is_idle and not self.idleness.is_at_end:
            self.idleness.wait_for_work(self._empty_polls.next_s())
        return None

    def empty_batch(self) -> RecordBatch | None:
        """What the task knows of the records to come, after polls that gave nothing. Errors: the plugin's."""
        return self._task.empty_batch()

    def rows(self, polled: Polled) -> Iterator[Rows]:
        """What transformations and converters make of it."""
        return self.chain.rows(polled)

    def updated(self, given: Positions, busy: Positions) -> Positions | None:
        """What update_offsets() makes of committed offsets; None if the task does not override it, or fails.

        `busy`: partitions with records behind these, for which it has no effect.
        """
        if not updates_offsets(type(self._task)):
            return None
        offsets = [ConnectorOffset(partition, offset) for partition, offset in given]
        busy_keys = [partition_key(partition) for partition, _ in busy]
        try:
            found = updated_offsets(self._connector_name, self._task.update_offsets, offsets, busy_keys)
        except Exception:  # the plugin's; as in a worker the offsets stay as they are
            log.exception("%s.update_offsets() failed; the task continues", self.name)
            return None
        return Positions.of([item for item in found if item not in offsets])

    def committed(self, records: Sequence[SourceRecord]) -> None:
        """Spark has committed a batch: the task's hooks. What they raise is logged, as in a worker."""
        self._hooks.call_commit_record(deque((record, None) for record in records))
        self._hooks.call_commit()

    def ask_to_stop(self) -> None:
        """Have poll() and all waits come back. Threads: any."""
        self._control.stop()
        self.idleness.stop()

    def stop(self) -> None:
        """Stop the task, whatever its chain does."""
        try:
            self._calls.stop()
        finally:
            self.chain.close()

    def _poll_with_retries(self) -> Any:  # whatever the plugin gives
        while True:
            try:
                polled = self._calls.poll()
            except RetriableError as error:
                wait_s = self._retries.failed(error)
                self.idleness.fails_until(self._retries.gives_up_at_s)
                if self.idleness.pause(wait_s):
                    return None
                continue
            if self._retries.is_on:
                self._retries.went_well(moved=not is_empty(polled))
            self.idleness.fails_until(float("inf"))
            return polled


def read_to_end(
    connector: ConnectorOfFormat,
    config: Mapping[str, str],
    index: int,
    *,
    timeout_s: float | None = None,
    letters: bool = True,
    even_empty: bool = False,
) -> Iterator[Rows]:
    """All that a task gives until it is idle for kconnect.idle.ms, or until `timeout_s`. Errors: as of `poll`.

    `letters`: as of SourceTaskRun. `even_empty`: a task that gives nothing gives rows of length 0 if it knows of them.
    """
    within_s = float("inf") if timeout_s is None else timeout_s
    run = SourceTaskRun(connector, config, index, Positions(), retry_timeout_s=within_s, letters=letters)
    try:
        run.start()
        deadline = time.monotonic() + within_s  # a slow start leaves time for a poll
        run.idleness.end_after(connector.options.idle_s)
        while not run.idleness.is_at_end:
            polled = run.poll()
            if polled is not None:
                even_empty = False
                yield from run.rows(polled)
            if time.monotonic() >= deadline:
                break
        if even_empty and (empty := run.empty_batch()) is not None:
            yield from run.rows(empty)
    finally:
        run.stop()


# An empty poll that is as quick as this did not look for long: there is nothing
_AT_ONCE_S: Final = 0.005
# How many times longer a task may be slow and empty before its first record
_SLOW_FACTOR: Final = 30


class Idleness:
    """Implements WorkWaits. Threads: the task's; `wake` and `stop` any.

    A task that gives nothing for `end_after(idle_s)` is at its end. That looks like a stop: its wait returns True and
    poll() comes back. What waits in `wait_for_work`, or comes back empty at once, has nothing. A poll that is slow and
    empty may be busy before the first record, as with a query that has no row yet, and gets more time; behind records
    it is one that waits for more, as polls of Java's do (a file source of Java's for a second).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what stands below
        self._is_woken = False
        self._is_stopping = False
        self._idle_since: float | None = None
        self._idle_s: float | None = None
        self._empty_since: float | None = None
        self._has_given = False
        self._failing_until = float("inf")

    # --- for the task ---

    def wait_for_work(self, timeout_s: float) -> bool:
        with self._changed:
            self._begin_idling()
            deadline = min(time.monotonic() + timeout_s, self._failing_until)
            while not (self._is_woken or self.is_at_end):
                left = min(deadline, self._end_at()) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._is_woken = False
            return self.is_at_end

    def wake(self) -> None:
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    # --- for the runtime ---

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_at_end(self) -> bool:
        """Whether the task must stop, or has given nothing for so long that a bounded read ends."""
        return self._is_stopping or time.monotonic() >= self._end_at()

    @property
    def is_idle(self) -> bool:
        """Whether the task said that there is nothing: poll() came back empty, or waits."""
        return self._idle_since is not None

    def pause(self, timeout_s: float) -> bool:
        """Wait between retries, which is no idling. True when the task must stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, timeout_s)
            return self._is_stopping

    def end_after(self, idle_s: float | None) -> None:
        """End once the task has given nothing for so long."""
        with self._changed:
            self._idle_s = idle_s
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def fails_until(self, deadline_s: float) -> None:
        """poll() failed and is repeated until then: a wait is no idling now, and is over then. inf: it went well."""
        with self._changed:
            self._failing_until = deadline_s
            if deadline_s < float("inf"):
                self._idle_since = self._empty_since = None

    def gave(self, *, any_records: bool, took_s: float) -> None:
        """poll() came back."""
        with self._changed:
            if any_records:
                self._idle_since = self._empty_since = None
                self._has_given = True
            elif took_s < _AT_ONCE_S:
                self._begin_idling()
            elif self._empty_since is None:
                self._empty_since = time.monotonic()

    def _begin_idling(self) -> None:
        if self._idle_since is None and self._failing_until == float("inf"):
            self._idle_since = time.monotonic()

    def _end_at(self) -> float:
        if self._idle_s is None:
            return float("inf")
        idle = float("inf") if self._idle_since is None else self._idle_since + self._idle_s
        slow_s = self._idle_s if self._has_given else self._idle_s * _SLOW_FACTOR
        slow = float("inf") if self._empty_since is None else self._empty_since + slow_s
        return min(idle, slow)


def is_empty(polled: Any) -> bool:
    """Whether a poll gave nothing."""
    return polled is None or len(polled) == 0
