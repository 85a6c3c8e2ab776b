"""One source task from start to stop, polled with retries; and its whole content read in order."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kconnect.api import RecordBatch, SourceRecord, SourceTask
from kconnect.errors import RetriableError
from kconnect.model import ConnectorOffset, ConnectorType
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets, updates_offsets
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.runtime.pipeline.polled import EmptyPolls, checked_poll
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.retries import FIRST_POLL_PAUSE_S, Patience, Retries
from kconnect.runtime.pipeline.source_context import SourceContext
from kconnect.runtime.pipeline.task_hooks import TaskHooks, wants_each_record
from kconnect.spark.datasource.chain import Rows, SourceChain
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.datasource.idleness import Idleness, is_empty
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
        self._config = config
        self._connector_name = connector.config["name"]
        spec = connector.spec(ConnectorType.SOURCE, index, config, letters=letters)
        self._control = TaskControl(spec, ports_without_host(connector.plugins))
        self.chain = SourceChain(self._control, connector.plugins)
        self._task: SourceTask = make_task(connector.config, connector.plugins, SourceTask)  # type: ignore[type-abstract]  # looks for a subclass
        self.idleness = Idleness()
        give_up = partial(self.chain.give_up, type(self._task))
        self._context = SourceContext(self.idleness, offsets, lambda: config, self.chain.metrics, give_up=give_up)
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
        with plugin_call(self._task, "initialize"):
            self._task.initialize(self._context)
        with plugin_call(self._task, "start"):
            self._task.start(self._config)

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
            with plugin_call(self._task, "stop"):
                self._task.stop()
        finally:
            self.chain.close()

    def _poll_with_retries(self) -> Any:  # whatever the plugin gives
        while True:
            try:
                with plugin_call(self._task, "poll"):
                    polled = self._task.poll()
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
) -> Iterator[Rows]:
    """All that a task gives until it is idle for kconnect.idle.ms, or until `timeout_s`. Errors: as of `poll`.

    `letters`: as of SourceTaskRun.
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
                yield from run.rows(polled)
            if time.monotonic() >= deadline:
                break
    finally:
        run.stop()
