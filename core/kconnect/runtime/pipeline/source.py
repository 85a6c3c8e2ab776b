"""SourceLoop: poll -> transforms -> converters -> send -> settle, the way of a source's records to Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kconnect.api import SourceTask
from kconnect.errors import RetriableError
from kconnect.runtime.pipeline.build_stages import SourceStages
from kconnect.runtime.pipeline.guarantee import DeliveryGuarantee
from kconnect.runtime.pipeline.polled import EmptyPolls, Polled, SourceConversion, polled_by
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.retries import FIRST_POLL_PAUSE_S, Retries
from kconnect.runtime.pipeline.sending import UnitSender
from kconnect.runtime.pipeline.source_context import SourceCalls
from kconnect.runtime.pipeline.task_hooks import release
from kconnect.runtime.pipeline.tolerance import StoppedInRetryError
from kconnect.runtime.pipeline.topics import SourceTopics
from kconnect.runtime.pipeline.unit_producer import UnitProducer

log = logging.getLogger(__name__)

# A poll() that comes back empty sooner than this did not wait by itself; then the loop does.
_QUICK_POLL_S = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """The parts of a source loop."""

    calls: SourceCalls
    stages: SourceStages
    producer: UnitProducer
    topics: SourceTopics
    stop_budget_s: float
    """How long the shutdown may take: flushing the producer, then the last commit."""
    form_of: Callable[[SourceTask, Any], Polled | None] = polled_by
    """Says what poll() returned; a task of Java's gives more forms."""


class SourceLoop:
    """The data path of a source task; its guarantee decides when offsets are committed. Threads: the task's.

    Errors: what the plugin, a stage, the producer or the guarantee raises ends the loop.
    Source: o.a.k.connect.runtime.AbstractWorkerSourceTask (Kafka 4.3).
    """

    def __init__(self, control: TaskControl, parts: SourceParts, guarantee: DeliveryGuarantee) -> None:
        self._control = control
        self._parts = parts
        self._stages = stages = parts.stages
        self._guarantee = guarantee
        self._calls = parts.calls
        self._task = parts.calls.task
        self._sender = UnitSender(
            control, parts.producer, parts.topics, guarantee, parts.stop_budget_s, stages.dead_letters
        )
        self._conversion = SourceConversion(
            self._task,
            stages.transforms,
            stages.converters,
            control.health,
            sends_before_failure=guarantee.sends_before_failure,
            forms=stages.forms,
        )
        cap_s = stages.tolerance.settings.retry_delay_max_ms / 1000
        self._retries = Retries(control, self._task, "poll", first_s=FIRST_POLL_PAUSE_S, cap_s=cap_s)
        self._empty_polls = EmptyPolls()
        self._has_started = self._has_stopped = False

    def start(self) -> None:
        if not self._guarantee.claim():
            return
        self._has_started = True
        self._control.when_cancelled(self._parts.producer.abandon)
        if self._stages.dead_letters is not None:
            self._stages.dead_letters.start()
        self._calls.start()

    def run(self) -> None:
        guarantee = self._guarantee
        with guarantee.running():
            try:
                while not self._control.is_stopping:
                    if self._control.should_pause:
                        self._pause()
                        continue
                    guarantee.settle()  # what Kafka acknowledged or refused
                    polled = self._poll()  # the connector
                    for part in guarantee.parts(polled):
                        units = part.units(self._conversion)  # transforms, converters
                        if not all(map(self._sender.send, units)):  # the producer
                            break
                if self._control.is_cut_off:
                    self._stop_task()  # first: what it holds alone is free before another worker's task wants it
                else:
                    guarantee.settle()
            except StoppedInRetryError as stopped:  # polled again after the next start
                log.info("%s", stopped)

    def close(self) -> None:
        try:
            if self._has_started:
                self._stop_task()
            elif not self._has_stopped:
                release(self._task)
        finally:
            self._parts.producer.close()
            self._parts.topics.close()
            self._stages.close()

    def _stop_task(self) -> None:
        self._has_started, self._has_stopped = False, True
        self._calls.stop()

    # --- the steps, in the order of run() ---

    def _pause(self) -> None:
        self._guarantee.pausing()
        self._control.report_paused()
        if self._control.await_resume():
            self._control.report_running()

    def _poll(self) -> Polled | None:
        """What the task returns, None for nothing; waits briefly after an empty poll that did not block."""
        began = time.monotonic()
        polled = self._call_poll()
        if polled is not None:
            self._empty_polls.count = 0
            counters = self._control.counters
            counters.poll_ms.note((time.monotonic() - began) * 1000)
            counters.batch_size.note(polled.size)
            counters.records_polled += polled.size
            counters.note_active(counters.records_polled - counters.records_written - counters.records_dropped)
        elif time.monotonic() - began < _QUICK_POLL_S:
            self._control.wait(self._empty_polls.next_s())
        return polled

    def _call_poll(self) -> Polled | None:
        with self._guarantee.polling():
            try:
                given = self._calls.poll()
            except RetriableError as error:
                self._control.wait(self._retries.failed(error))
                return None
            polled = self._parts.form_of(self._task, given)
            if self._retries.is_on:
                self._retries.went_well(moved=polled is not None)
            return polled
