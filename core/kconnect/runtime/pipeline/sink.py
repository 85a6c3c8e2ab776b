"""SinkLoop: poll -> converters -> transforms -> put -> commit, the way of a sink's records from Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from kconnect.api import ErrantRecordsError
from kconnect.clock import Clock
from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.pipeline.build_stages import SinkStages
from kconnect.runtime.pipeline.health import CONVERSION
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.put_queue import PutBatch, PutQueue
from kconnect.runtime.pipeline.refused_records import RefusedRecords
from kconnect.runtime.pipeline.retries import FIRST_PUT_PAUSE_S, Patience, Retries
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_commits import CommitTimes, SinkCommits
from kconnect.runtime.pipeline.sink_consumer import FetchedRun, RunT, SinkConsumer
from kconnect.runtime.pipeline.sink_conversion import SinkForms
from kconnect.runtime.pipeline.sink_offsets import SinkOffsets
from kconnect.runtime.pipeline.sink_partitions import SinkPartitions
from kconnect.runtime.pipeline.stages import StageError
from kconnect.runtime.pipeline.tolerance import StoppedInRetryError

log = logging.getLogger(__name__)

# A fetch cannot be woken, so an idle one lasts this long at most: the stop waits for it. An idle task wakes 10 times
# a second: 0.06 % of a core each, measured with 50 in one process.
_FETCH_WAIT_S = 0.1
# How often the distance to the ends of the partitions is noted; it costs 1 us for each partition.
_LAG_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkParts(Generic[RunT]):
    """The parts of a sink loop."""

    calls: SinkCalls
    forms: SinkForms[RunT]
    """Makes of what was fetched what put() takes, by these or in Java."""
    stages: SinkStages
    consumer: SinkConsumer[RunT]
    commit_times: CommitTimes
    topics: Sequence[str] | TopicPattern
    """Names, or one pattern that starts with ^."""
    max_records: int
    """The most records in one fetch."""
    patience: Patience | None = None
    """How long put() is called again; without it endlessly."""
    clock: Clock


class SinkLoop:
    """The data path of a sink task. All methods run on the task's thread.

    Errors: what the plugin, a stage, the consumer or a dead letter raises ends the loop.
    Source: o.a.k.connect.runtime.WorkerSinkTask (Kafka 4.3).
    Differs: a put() that raised RetriableError without naming a time is tried again after 0.3 s, 0.6 s .. up to
    errors.retry.delay.max.ms, Java waits for the next commit. put() is not called while paused, Java calls it with no
    records.
    """

    def __init__(self, control: TaskControl, parts: SinkParts[Any]) -> None:
        self._control = control
        self._parts = parts
        self._stages = stages = parts.stages
        self._calls = parts.calls
        self._consumer = parts.consumer
        self._context = parts.calls.context
        self._health = control.health
        self._now_s = parts.clock.monotonic
        self._queue = PutQueue()
        self._offsets = SinkOffsets()
        self._refused = RefusedRecords(stages.errant, stages.raw_records, self._offsets)
        self._commits = SinkCommits(
            control,
            parts.calls,
            parts.consumer,
            self._offsets,
            self._refused,
            parts.clock,
            parts.commit_times,
            settle_puts=self._settle_and_go,
            settle_reports=self._settle_reports,
        )
        self._partitions = SinkPartitions(
            control,
            parts.calls,
            parts.consumer,
            self._offsets,
            self._queue,
            self._refused,
            self._commits,
            settle_puts=self._settle,
        )
        task = parts.calls.task
        self._retries = Retries(
            control,
            task,
            "put",
            first_s=FIRST_PUT_PAUSE_S,
            cap_s=stages.tolerance.settings.retry_delay_max_ms / 1000,
            patience=parts.patience,
        )
        self._put_name = f"{type(task).__name__}.put()"
        self._came = False
        """The last fetch brought records."""
        self._lag_due_at_s = 0.0
        self._has_started = False

    def start(self) -> None:
        self._control.count_with(self._commits.count)
        if self._stages.dead_letters is not None:
            self._stages.dead_letters.start()
        self._has_started = True
        self._consumer.subscribe(self._parts.topics, self._partitions)
        self._calls.start()

    def run(self) -> None:
        partitions, queue = self._partitions, self._queue
        with partitions.closed_at_end():  # flushed and committed once more
            try:
                while not self._control.is_stopping:
                    self._follow_target()  # paused or resumed by the user
                    partitions.go_where_asked()  # rewound by the task
                    partitions.go_to(self._commits.commit_if_due())  # back to the last commit if it could not flush
                    # No variable here: it would keep the fetched messages in memory during the next fetch
                    queue.add(self._convert(self._poll()))  # converters and transforms, of what the consumer has
                    self._put()  # the task
                self._settle_and_go()
            except StoppedInRetryError as stopped:  # read again after the next start
                log.info("%s", stopped)

    def close(self) -> None:
        self._partitions.end()
        try:
            if self._has_started:
                self._calls.stop()
        finally:
            self._consumer.close()
            self._stages.close()

    # --- the steps, in the order of run() ---

    def _follow_target(self) -> None:
        """Pause or resume as requested; a paused task keeps its partitions and its group membership."""
        is_wished = self._control.should_pause
        if is_wished == self._partitions.is_paused:
            return
        self._settle()
        self._partitions.is_paused = is_wished
        if is_wished:
            self._control.report_paused()
            self._context.request_commit()
        else:
            self._control.report_running()

    def _poll(self) -> Sequence[FetchedRun]:
        """What the consumer has now or shortly. Rebalances happen in here."""
        self._end_retries()
        self._partitions.obey()  # what the task asked for in the commit, or in what was put until then
        most_s = 0.0 if self._queue.is_under_way else _FETCH_WAIT_S
        wait_s = min(most_s, self._commits.until_due_s(), self._context.take_put_within_s() or _FETCH_WAIT_S)
        if self._queue.is_retrying and not self._partitions.is_paused:
            wait_s = min(wait_s, self._queue.wait_s(self._now_s()))
        try:
            runs = self._consumer.fetch(self._parts.max_records, wait_s)
        except ConnectError as error:
            error.log_stage = error.log_stage or "consume"  # a rebalance in it calls the plugin, which names its own
            raise
        self._note_lag()
        return runs

    def _convert(self, runs: Sequence[FetchedRun]) -> list[PutBatch]:
        """One batch for each run. Errors: StageError when a record fails the task."""
        self._came = bool(runs)
        if not runs:
            return []
        batches, forms = [], self._parts.forms
        # Java takes no more while it puts: what hangs then is put()
        self._health.call = (self._put_name if self._queue.is_under_way else CONVERSION, time.monotonic())
        for run in runs:
            self._control.counters.records_read += len(run)
            batch = forms.batch_of(run)
            if self._refused:
                self._refused.leave_out(batch.payload)
            batches.append(batch)
            self._offsets.fetched(TopicPartition(run.topic, run.partition), run.first_offset)
        # Nothing is put after the task has asked for something (in a rebalance, say) before that is done
        forms.ended(puts=not self._context.has_asked)
        self._health.call = None
        return batches

    def _put(self) -> None:
        """Give the task what is queued, batch by batch; or an empty list, so that it can do timed work."""
        queue = self._queue
        if self._came:
            self._control.counters.note_active(queue.records() + self._offsets.active())
        if self._partitions.is_paused or (queue.is_retrying and queue.wait_s(self._now_s()) > 0):
            return
        if not queue and self._control.is_stopping:
            return
        if self._context.has_asked:
            self._partitions.obey()
        while not self._control.is_cancelled:
            if self._came and queue.is_under_way and not queue.is_ahead:
                return  # Java puts it while the next is fetched
            if not self._put_head():
                return
            self._partitions.go_where_asked()
            if queue:
                self._partitions.obey()
            if not queue:
                return

    def _put_head(self, *, calls: bool = True) -> bool:
        """Whether there may be more to put now: the task took the head of the queue, or is given it without some.

        `calls`: call put() for what Java did not put by itself.
        """
        batch, queue = self._queue.head, self._queue
        try:
            if not self._give(batch, calls=calls):
                return False
        except RetriableError as error:
            queue.retry_at(self._now_s() + self._retries.failed(error, self._retry_in_s()))
            return False
        except ErrantRecordsError as error:
            return self._leave_out(error, batch)
        self._context.take_timeout_s()  # named for a retry that is not needed
        queue.taken()
        self._offsets.put_done(batch.after)
        self._end_retries()
        return True

    def _retry_in_s(self) -> float | None:
        """The wait that the task asked for, at most that between commits, as in Java; None: it asked for none."""
        asked_s = self._context.take_timeout_s()
        return None if asked_s is None else min(asked_s, self._parts.commit_times.interval_s)

    def _settle(self) -> None:
        """Wait for what Java puts meanwhile: nothing is committed, rewound or given away before that is known."""
        while self._queue.is_under_way and not self._control.is_cancelled:
            if not self._put_head(calls=False):
                return

    def _settle_and_go(self) -> None:
        """The same, and go back where the task asked for in it: no offset behind that is committed.

        Differs: Java commits first, and a worker that is killed then never gives the task those records again.
        """
        self._settle()
        self._partitions.go_where_asked()

    def _settle_reports(self, timeout_s: float) -> None:
        """Wait for all reports; call before a commit. Errors: also what report() raised, if the task swallowed it."""
        try:
            self._stages.errant.raise_unhandled()
        except StageError as failure:
            if not self._is_only_failure_in_put(failure):
                raise
        self._stages.tolerance.settle(timeout_s)

    def _is_only_failure_in_put(self, failure: StageError) -> bool:
        """Whether just this record failed, in a put that has not succeeded: what was taken before may be committed."""
        counts, record = self._stages.tolerance.counts, failure.record
        taken = self._offsets.taken.get(TopicPartition(record.topic, record.kafka_partition))
        return counts.errors - counts.skipped == 1 and taken is not None and record.kafka_offset >= taken

    # --- put ---

    def _give(self, batch: PutBatch, *, calls: bool) -> bool:
        """Whether the task took it. Errors: RetriableError, ErrantRecordsError; others say what the task was given."""
        began_s, put = time.monotonic(), batch.payload
        self._settle_letters()
        try:
            if not put.settle():
                if not calls:
                    return False
                put.put(self._calls)
        except (RetriableError, ErrantRecordsError, StageError):  # the last names the record
            raise
        except ConnectError as error:
            if not batch.after:
                raise
            failure = ConnectError(f"{error} (it was given {batch})", hint=error.hint)
            failure.log_stage = error.log_stage
            raise failure from error.__cause__
        finally:
            self._calls.end_put()
        self._stages.errant.raise_unhandled()
        if count := len(put):
            counters, took_ms = self._control.counters, put.put_ms
            counters.records_put += count
            counters.put_ms.note((time.monotonic() - began_s) * 1000 if took_ms is None else took_ms)
            counters.batch_size.note(count)
        return True

    def _settle_letters(self) -> None:
        """Wait for the dead letters of records before, if the task may commit past them. Errors: RetriableError."""
        if not self._calls.task.keeps_offsets:
            return
        try:
            self._stages.tolerance.settle(self._parts.commit_times.timeout_s)
        except TimedOutError as error:
            raise RetriableError(f"{error}; nothing is put before that") from error

    def _leave_out(self, error: ErrantRecordsError, batch: PutBatch) -> bool:
        """Give the task all since the last commit again, without the records that it named."""
        self._refused.named(error)
        if not self._offsets.active() and all(batch.has(place, offset) for place, offset in error.errors):
            self._refused.leave_out(batch.payload)
            return True
        self._partitions.go_to(self._offsets.last_committed())
        return False

    def _end_retries(self) -> None:
        """End retries once the put() succeeded or its records are no longer ours."""
        if self._retries.is_on and not self._queue.is_retrying:
            self._retries.went_well(moved=True)

    def _note_lag(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._lag_due_at_s:
            self._lag_due_at_s = now_s + _LAG_EVERY_S
            behind = self._consumer.behind(self._offsets.taken)
            self._health.behind, self._control.counters.lag_most = behind.total, behind.most
