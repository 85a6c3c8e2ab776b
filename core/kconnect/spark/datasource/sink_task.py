"""One sink task for the rows of one Spark partition: put, flush, and only then Spark's commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kconnect.api import RecordBatch, SinkTask
from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.model import ConnectorType, TopicPartition
from kconnect.runtime.pipeline.build import sink_stages
from kconnect.runtime.pipeline.conversion import Converters, FetchedBatch
from kconnect.runtime.pipeline.plugin_parts import make_task
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.retries import FIRST_PUT_PAUSE_S, Patience, Retries
from kconnect.runtime.pipeline.sink_steps import Payload, SinkSteps
from kconnect.spark.datasource.connector import ConnectorOfFormat
from kconnect.spark.no_host import ports_without_host

# How often a sink that holds rows back is asked again
_FLUSH_AGAIN_S = 0.05

T = TypeVar("T")


class SinkTaskRun:
    """Threads: one. Lifecycle: constructed -> start -> puts -> finish -> stop, which is due after any error, too.

    A task may skip ahead to an offset when a partition is opened, as one does that keeps offsets with its data: rows
    before it are there already.
    """

    def __init__(self, connector: ConnectorOfFormat, config: Mapping[str, str], index: int) -> None:
        connector.hides_secrets([config])
        self._options = connector.options
        ports = ports_without_host(connector.plugins)
        self._control = TaskControl(connector.spec(ConnectorType.SINK, index, config), ports)
        task: SinkTask = make_task(connector.config, connector.plugins, SinkTask)  # type: ignore[type-abstract]  # looks for a subclass
        self._name = type(task).__name__
        self._stages = sink_stages(self._control, ports, type(task))
        self._steps = SinkSteps(task, config, self._control.monitor.of_task, self._stages.reporter)
        self._given: set[TopicPartition] = set()
        self._retries = {
            method: Retries(
                self._control,
                task,
                method,
                first_s=FIRST_PUT_PAUSE_S,
                cap_s=self._stages.tolerance.settings.retry_delay_max_ms / 1000,
                patience=Patience(connector.options.retry_timeout_s, "kconnect.retry.timeout.ms"),
            )
            for method in ("put", "pre_commit")
        }

    @property
    def converters(self) -> Converters:
        return self._stages.converters

    @property
    def skipped(self) -> int:
        """Records that failed and were left out."""
        return self._stages.tolerance.counts.skipped

    def start(self) -> None:
        if self._stages.dead_letters is not None:
            self._stages.dead_letters.start()
        self._steps.start()

    def open(self, place: TopicPartition, first_offset: int) -> int:
        """Open a partition that is met for the first time; returns the offset of the next row that is wanted."""
        positions = self._steps.positions
        if place not in positions:
            self._steps.open({place: first_offset})
            positions[place] = max(positions[place], first_offset)
        return positions[place]

    def put(self, place: TopicPartition, read: FetchedBatch, make: Callable[[Converters], Payload]) -> None:
        """Hand the task rows of one partition: `make` converts them; `read` has them as bytes, for dead letters.

        Errors: StageError; TimedOutError; what the task raises.
        """
        raw_records, transforms = self._stages.raw_records, self._stages.transforms
        raw_records.at_hand = [read]
        payload = make(self.converters)
        kept: Any = payload
        if len(transforms):
            is_batch = isinstance(payload, RecordBatch)
            kept = transforms.apply_batch(payload) if is_batch else transforms.apply_records(payload)  # type: ignore[arg-type]
        if kept is not None and len(kept):
            self._await_resume(place)
            self._deliver(kept, [read])
            self._stages.errant.raise_unhandled()
        raw_records.put((), ())
        self._steps.positions[place] = read.offsets[-1] + 1
        self._given.add(place)
        self._refuse_rewinds()
        if self._steps.context.is_commit_requested:
            self._pre_commit()

    def finish(self) -> None:
        """Have the task make everything durable, and close its partitions.

        Errors: TimedOutError when it still holds rows back after kconnect.flush.timeout.ms; what flush() raises.
        """
        if not self._steps.positions:
            return
        self._flush()
        self._steps.close(self._steps.assignment)
        self._stages.tolerance.settle(self._options.flush_timeout_s)

    def stop(self) -> None:
        try:
            self._steps.stop()
        finally:
            self._control.stop()
            self._stages.close()

    # --- inside ---

    def _flush(self) -> None:
        deadline = time.monotonic() + self._options.flush_timeout_s
        while late := self._held_back():
            if time.monotonic() >= deadline:
                raise TimedOutError(
                    f"{self._name} holds back rows of {', '.join(map(str, late))} for longer than "
                    f"{self._options.flush_timeout_s:g} s",
                    hint="kconnect.flush.timeout.ms is how long it may; have it flush sooner by its own settings.",
                )
            self._control.wait(_FLUSH_AGAIN_S)
            self._deliver([])  # as a worker does between fetches: a task may act on time

    def _deliver(self, payload: Payload, read: Sequence[FetchedBatch] = ()) -> None:
        """put() or put_batch(), repeated while it raises RetriableError, for kconnect.retry.timeout.ms."""
        if isinstance(payload, RecordBatch) and not self._steps.task.supports_batches:
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        self._stages.raw_records.put(() if isinstance(payload, RecordBatch) else payload, read)
        self._repeated("put", partial(self._steps.put, payload))

    def _repeated(self, method: str, call: Callable[[], T]) -> T:
        """What a call gives, repeated while it raises RetriableError. Errors: TimedOutError; what it raises."""
        retries, context = self._retries[method], self._steps.context
        while True:
            try:
                given = call()
            except RetriableError as error:
                self._control.wait(retries.failed(error, context.take_timeout_s()))
                continue
            context.take_timeout_s()  # named for a retry that is not needed
            if retries.is_on:
                retries.went_well(moved=True)
            return given

    def _held_back(self) -> list[TopicPartition]:
        """Partitions whose rows the task does not vouch for yet."""
        allowed = self._pre_commit(is_end=True)
        return [place for place, offset in self._steps.positions.items() if allowed.get(place, 0) < offset]

    def _pre_commit(self, *, is_end: bool = False) -> Mapping[TopicPartition, int]:
        ask = partial(self._steps.pre_commit, self._steps.assignment, is_end=is_end)
        allowed = self._repeated("pre_commit", ask)
        self._refuse_rewinds()
        return allowed

    def _refuse_rewinds(self) -> None:
        """Errors: ConnectError when the task asks for rows again that Spark has given already."""
        for place, offset in self._steps.context.take_offsets(self._given).items():
            if offset < self._steps.positions[place]:
                raise ConnectError(f"{self._name} asks for rows of {place} again, which Spark has given already")

    def _await_resume(self, place: TopicPartition) -> None:
        deadline = time.monotonic() + self._options.flush_timeout_s
        while self._steps.is_held(place):
            if time.monotonic() >= deadline:
                raise TimedOutError(f"{self._name} has paused {place} for {self._options.flush_timeout_s:g} s")
            self._control.wait(_FLUSH_AGAIN_S)
            self._deliver([])
