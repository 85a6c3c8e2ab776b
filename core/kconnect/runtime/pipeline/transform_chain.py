"""The transformation chain of one task: columnar while every step can, records for the step that cannot.

Who calls it: the source and sink loops, from the task thread only. What it calls: Transformation and Predicate of the
plugin API.
A failing batch is replayed record by record from the step that failed, so that the failing record is known exactly; a
step that says what it has done goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kconnect.api import ConnectRecord, RecordBatch
from kconnect.api.stages import PartlyAppliedError
from kconnect.errors import DataError
from kconnect.runtime.pipeline.batch_records import rows_of
from kconnect.runtime.pipeline.stages import (
    DROPPED,
    FailurePolicy,
    RaiseAlways,
    SomeRows,
    Stage,
    StageError,
    TransformStep,
    coordinates,
    no_answer,
    tell_nobody,
)


class TransformChain:
    """The transformations of one task, in order. Source: TransformationChain.

    Threads: the task thread only. Lifecycle: steps come configured; `close()` closes them all.
    """

    def __init__(
        self,
        steps: Sequence[TransformStep],
        policy: FailurePolicy | None = None,
        by_records: Callable[[str], None] = tell_nobody,
    ) -> None:
        """`by_records` is reported why a batch does not go in columns."""
        self._by_records = by_records
        self._steps = tuple(steps)
        self._policy: FailurePolicy = policy or RaiseAlways()
        self.expands = any(step.expands for step in self._steps)
        """Whether a step may make several records of one."""

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def takes_lists(self) -> bool:
        """Whether a step may take many records at once where columns cannot have them."""
        return any(step.takes_lists for step in self._steps)

    @property
    def is_columnar(self) -> bool:
        """Whether every step accepts batches."""
        return all(step.is_columnar for step in self._steps)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | list[ConnectRecord] | None:
        """The batch after all steps: a batch where it could stay columnar, else its records; None when nothing is left.

        Errors: StageError when the policy does not tolerate a failing record.
        """
        return self._run(batch, 0)

    def apply_records(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        """The records after all steps, without those that a step or the policy dropped, in order."""
        return self._run_records(records, self._steps)

    def apply_record(self, record: ConnectRecord) -> ConnectRecord | None:
        """One record after all steps; None when it was dropped. Errors: DataError where several were made of it."""
        if not self.expands:
            return self._one(record, self._steps)
        made = self._several(record, self._steps)
        if len(made) > 1:
            raise DataError(
                f"{coordinates(record)} becomes several records ({len(made)}), and only one can be taken here"
            )
        return made[0] if made else None

    def apply_each(self, record: ConnectRecord) -> Sequence[ConnectRecord]:
        """What became of one record after all steps: one, none, or several where a step makes several of one."""
        if self.expands:
            return self._several(record, self._steps)
        after = self._one(record, self._steps)
        return () if after is None else (after,)

    def close(self) -> None:
        """Close every step, also when one of them raises; the first error is raised at the end."""
        first: Exception | None = None
        for step in self._steps:
            try:
                step.close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def _run(self, batch: RecordBatch, start: int) -> RecordBatch | list[ConnectRecord] | None:
        for index in range(start, len(self._steps)):
            step = self._steps[index]
            try:
                after = step.apply_batch(batch)
            except PartlyAppliedError as part:
                self._by_records(f"{step.place}: {part}")
                after = self._resumed(batch, index, part)
            except Exception as error:
                self._by_records(f"{step.place}: {error}")
                after = NotImplemented  # replayed below: the same error comes again, with the record that caused it
            if after is NotImplemented or isinstance(after, SomeRows):
                self._by_records(step.why_by_records)
                return self._detour(batch, index, after.chosen if isinstance(after, SomeRows) else None)
            if isinstance(after, list):
                return self._go_on(after, index + 1)
            if after is not None and not isinstance(after, RecordBatch):
                raise no_answer(step.transformation, "apply_batch", after, "a RecordBatch, None or NotImplemented")
            if after is None or (len(batch) and not len(after)):
                return None  # one that came without records goes on: who gave it asks for its schemas
            batch = after
        return batch

    def _resumed(self, batch: RecordBatch, index: int, part: PartlyAppliedError) -> list[ConnectRecord]:
        """What a step makes of a batch in which records fail: none of the others is given to it twice."""
        step, made = self._steps[index].without_predicate(), list[ConnectRecord]()
        for _ in range(_MOST_PARTS):
            made += part.done
            (failed,), misfits = rows_of(batch.slice(part.row, 1))
            failure = StageError(
                Stage.TRANSFORMATION, type(step.transformation), failed, part.error, step.named(part.error)
            )
            failure.steps_done = index
            try:
                outcome = self._policy.on_failure(failure, partial(_again, step, failed, misfits.get(0)))
            except StageError as raised:
                raised.done = self._run_records(made, self._steps[index + 1 :], index + 1)
                raise
            made += () if outcome is DROPPED or outcome is None else (outcome,)
            batch = batch.slice(part.row + 1)
            try:
                after = step.apply_batch(batch) if len(batch) else None
            except PartlyAppliedError as again:
                part = again
                continue
            return made + (after.to_records() if isinstance(after, RecordBatch) else after or [])
        return self._resumed_by_records([*made, *part.done], batch.slice(part.row), index)

    def _resumed_by_records(self, made: list[ConnectRecord], rest: RecordBatch, index: int) -> list[ConnectRecord]:
        """What a step makes of the rest, record by record, behind what it has made."""
        step, later = self._steps[index].without_predicate(), self._steps[index + 1 :]
        try:
            records, _ = self._records_of(rest, index)
        except StageError as raised:
            raised.done = [*self._run_records(made, later, index + 1), *raised.done]
            raise
        try:
            return made + self._one_by_one(records, [step], index)
        except StageError as raised:
            raised.done = self._run_records([*made, *raised.done], later, index + 1)
            raise

    def _records_of(self, batch: RecordBatch, index: int) -> tuple[list[ConnectRecord], list[int]]:
        """The records for the step of this index, without those that cannot be made and are tolerated; their rows."""
        records, misfits = rows_of(batch)
        if not misfits:
            return records, [*range(len(records))]
        step, made = self._steps[index], list[ConnectRecord]()
        for row, record in enumerate(records):
            if row not in misfits:
                made.append(record)
                continue
            error = misfits[row]
            failure = StageError(Stage.TRANSFORMATION, type(step.transformation), record, error, step.named(error))
            failure.steps_done = index
            try:
                self._policy.on_failure(failure, lambda: DROPPED)
            except StageError as raised:
                raised.done = self._run_records(made, self._steps[index:], index)
                raise
        return made, [row for row in range(len(records)) if row not in misfits]

    def _detour(
        self, batch: RecordBatch, index: int, chosen: Sequence[bool] | None
    ) -> RecordBatch | list[ConnectRecord] | None:
        """Run one step by records; continue in columns if a later step can, else by records to the end.

        `chosen`: the rows that it is for, as its predicate said; None if that was not asked.
        """
        records, rows = self._records_of(batch, index)
        later = self._steps[index + 1 :]
        if chosen is None and not any(step.is_columnar for step in later):
            return self._run_records(records, self._steps[index:], index) or None
        try:
            if chosen is None:
                after = self._run_records(records, self._steps[index : index + 1], index)
            else:
                after = self._run_chosen(records, [chosen[row] for row in rows], index)
        except StageError as failure:
            failure.done = self._run_records(failure.done, later, index + 1)
            raise
        return self._go_on(after, index + 1)

    def _run_chosen(self, records: Sequence[ConnectRecord], chosen: Sequence[bool], index: int) -> list[ConnectRecord]:
        """The records after the step of this index, which is for those that are chosen."""
        step, done = self._steps[index].without_predicate(), list[ConnectRecord]()
        try:
            for record, is_in in zip(records, chosen, strict=True):
                done += self._one_by_one([record], [step], index) if is_in else (record,)
        except StageError as failure:
            failure.done = done
            raise
        return done

    def _go_on(self, records: list[ConnectRecord], index: int) -> RecordBatch | list[ConnectRecord] | None:
        """The records after the steps from this index on: in columns if one of them can."""
        later = self._steps[index:]
        if not records or not later:
            return records or None
        batch = RecordBatch.from_records(records) if any(step.is_columnar for step in later) else None
        if batch is None:  # topics or schemas differ now
            return self._run_records(records, later, index) or None
        return self._run(batch, index)

    def _run_records(
        self, records: Sequence[ConnectRecord], steps: Sequence[TransformStep], steps_done: int = 0
    ) -> list[ConnectRecord]:
        at = next((index for index, step in enumerate(steps) if step.takes_lists), None)
        if at is None or len(records) < _FEWEST_IN_LISTS:
            return self._one_by_one(records, steps, steps_done)
        later, behind = steps[at + 1 :], steps_done + at
        try:
            given = self._one_by_one(records, steps[:at], steps_done)
        except StageError as failure:
            failure.done = self._run_records(failure.done, steps[at:], behind)
            raise
        try:
            after = steps[at].expand_list(given)
        except Exception:
            after = NotImplemented  # again one by one: the same error comes with the record that caused it
        if after is NotImplemented:
            return self._one_by_one(given, steps[at:], behind)
        return self._run_records(after, later, behind + 1)

    def _one_by_one(
        self, records: Sequence[ConnectRecord], steps: Sequence[TransformStep], steps_done: int
    ) -> list[ConnectRecord]:
        if not steps:
            return list(records)
        done: list[ConnectRecord] = []
        try:
            if any(step.expands for step in steps):
                for record in records:
                    done += self._several(record, steps, steps_done)
                return done
            for record in records:
                after = self._one(record, steps, steps_done)
                if after is not None:
                    done.append(after)
        except StageError as failure:
            failure.done = done
            raise
        return done

    def _several(
        self, record: ConnectRecord, steps: Sequence[TransformStep], steps_done: int = 0
    ) -> list[ConnectRecord]:
        """All or nothing of what a failing step was given; others that were made of the same record go on."""
        current = [record]
        for step in steps:
            after: list[ConnectRecord] = []
            for one in current:
                try:
                    after += step.expand(one)
                except Exception as error:
                    failure = StageError(
                        Stage.TRANSFORMATION, type(step.transformation), record, error, step.named(error)
                    )
                    failure.steps_done = steps_done
                    outcome = self._policy.on_failure(failure, lambda step=step, given=one: step.expand(given))  # type: ignore[misc]
                    after += () if outcome is DROPPED else outcome
            current = after
        return current

    def _one(self, record: ConnectRecord, steps: Sequence[TransformStep], steps_done: int = 0) -> ConnectRecord | None:
        current: ConnectRecord | None = record
        for step in steps:
            try:
                current = step.apply(current)  # type: ignore[arg-type]  # None leaves the loop below
            except Exception as error:
                failure = StageError(Stage.TRANSFORMATION, type(step.transformation), record, error, step.named(error))
                failure.steps_done = steps_done
                outcome = self._policy.on_failure(failure, lambda step=step, given=current: step.apply(given))  # type: ignore[misc]
                current = None if outcome is DROPPED else outcome
            if current is None:
                return None
        return current


def _again(step: TransformStep, record: ConnectRecord, misfit: Exception | None) -> ConnectRecord | None:
    """Another attempt; a record that cannot be made stands for its text alone, which no step may have."""
    if misfit is not None:
        raise misfit
    return step.apply(record)


# In a batch of which nearly all fail, each part would send the rest of it again
_MOST_PARTS = 16
# Fewer are faster one by one: to set up a table takes 2 ms, a record alone 0.7
_FEWEST_IN_LISTS = 8
