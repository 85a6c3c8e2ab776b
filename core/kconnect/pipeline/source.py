"""SourceLoop: poll -> transforms -> converters -> produce -> commit source offsets, at least once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from kconnect.api import ConnectRecord, RecordBatch, SourceRecord
from kconnect.kafka import DeliveryFailure
from kconnect.pipeline.conversion import KafkaBatch
from kconnect.pipeline.inflight import InFlight, SourcePosition
from kconnect.pipeline.polled_lists import index_of, positions_of, records_of
from kconnect.pipeline.ports import TaskControl
from kconnect.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.pipeline.source_steps import Payloads, SourceParts, SourceSteps
from kconnect.pipeline.stages import StageError
from kconnect.pipeline.tolerance import StoppedInRetryError
from kconnect.wording import counted

__all__ = ["SourceLoop"]

log = logging.getLogger(__name__)


class SourceLoop(SourceSteps):
    """The loop of a source task that delivers at least once; its steps are in SourceSteps.

    Errors: what the plugin, a stage or the producer raises ends the loop; what was sent before is committed first.
    Source: o.a.k.connect.runtime.WorkerSourceTask (Kafka 4.3).
    """

    def __init__(
        self, control: TaskControl, parts: SourceParts, inflight: InFlight, committer: SourceOffsetCommitter
    ) -> None:
        super().__init__(control, parts)
        self._inflight = inflight
        self._committer = committer

    def run(self) -> None:
        self._committer.begin(self._parts.flush_interval_s)
        try:
            while not self._control.is_stopping:
                if self._control.should_pause:
                    self._pause()
                    continue
                self._settle()
                polled = self._poll()
                if polled:
                    self._send(polled)
            self._settle()
        except StoppedInRetryError as stopped:  # polled again after the next start
            log.info("%s", stopped)
        finally:
            self._finish()

    def _settle(self) -> None:
        """Take in what the broker acknowledged or refused, and call the hooks that are due."""
        self._producer.serve()
        if self._refused is not None:
            raise self._refused
        self._call_due_hooks()

    def _finish(self) -> None:
        """Flush, then the last commit: within the stop's budget, and not at all once fenced off."""
        if self._control.is_cancelled:
            self._committer.abandon()
            return
        deadline = time.monotonic() + self._parts.stop_budget_s
        if not self._producer.flush(self._parts.stop_budget_s * 0.8, lambda: self._control.is_cancelled):
            log.warning(
                "Task %s ends with %s not acknowledged; they will be sent again after its next start. %s",
                self._control.spec.id,
                counted(len(self._producer), "record"),
                self._producer.last_error or "",
            )
        self._committer.finish(deadline - time.monotonic())
        self._call_due_hooks()

    def _begin_unit(self, positions: Sequence[SourcePosition], records: int) -> Callable[[], None]:
        return self._inflight.submit(positions).ack

    def _send_before(self, polled: list[SourceRecord] | RecordBatch, failure: StageError) -> None:
        """Deliver what came before the record that fails the task, so that a restart begins at that record."""
        records = records_of(polled)
        before = records[: index_of(records, failure.record)]
        done: Payloads = []
        if failure.done and isinstance(failure.done[0], ConnectRecord):
            done = self._parts.converters.to_kafka_records(failure.done)
        elif failure.done:
            done = failure.done[0] if isinstance(failure.done[0], KafkaBatch) else failure.done
        if before:
            self._produce(positions_of(before), len(before), done)

    def _on_refused(self, failure: DeliveryFailure) -> bool:
        """A record was refused for good: tolerated, or the task fails with the first such error."""
        if self._parts.tolerates_all:
            with self._control.in_stage("produce"):
                log.warning("Skipped, as errors.tolerance=all says: %s", failure.error)
            return True
        with self._ended:
            if self._refused is None:
                self._refused = failure.error
                failure.error.log_stage = "produce"
        return False

    def _call_due_hooks(self) -> None:
        self._call_record_hooks(self._written)
        if self._committer.take_committed():
            self._call_hook("commit")
