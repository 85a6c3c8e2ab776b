"""The transformation chain of one task: columnar while every step can, records for the step that cannot.

Who calls it: the source and sink loops, from the task thread only. What it calls: Transformation and Predicate of the
plugin API.
A failing batch is replayed record by record from the step that failed, so that the failing record is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.api import ConnectRecord, Predicate, RecordBatch, Transformation
from kconnect.api.stages import PartlyAppliedError
from kconnect.errors import ConnectError, DataError
from kconnect.logs.traces import sentence
from kconnect.logs.wording import pluralize
from kconnect.runtime.pipeline.batch_records import rows_of

if TYPE_CHECKING:
    import pyarrow as pa


class Stage(Enum):
    """Where in the pipeline something happened. Source: o.a.k.connect.runtime.errors.Stage."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"

    @property
    def log_name(self) -> str:
        """Gives the name that log lines have: poll, put, transformation, value-converter, produce .."""
        return self.value.removeprefix("TASK_").removeprefix("KAFKA_").replace("_", "-").lower()


class StageError(ConnectError):
    """One record failed in one stage; the plugin's own error is the cause (`__cause__`).

    `place` says which record, in which stage of which plugin; `given` is what the converter was given, shortened, or
    empty. `done` holds what the call had finished before the
    failing record, in order: the loop may still deliver it, as Java delivers the records before the failing one.
    """

    def __init__(self, stage: Stage, plugin: type, record: Any, error: BaseException, named: str = "") -> None:
        """`named`: the settings that name the plugin, such as transforms.X, where the stage does not tell."""
        self.named = named
        where = f" ({named})" if named else ""
        self.place = f"{_coordinates(record)} failed in {stage.value} of {plugin.__qualname__}{where}"
        self.given = _bytes_given(stage, record)
        super().__init__(f"{self.place}: {_said_by(error)}")
        self.stage = stage
        self.plugin = plugin
        self.record = record  # ConnectRecord, or FetchedRecord before conversion to Connect's form
        self.error = error
        self.done: list[Any] = []  # ConnectRecord or KafkaRecord, as the call that raised gives
        self.steps_done = 0
        """In a transformation: the steps that `record` has passed already. A chain in columns knows it no earlier."""
        self.log_stage = stage.log_name
        self.__cause__ = error

    def opening(self, root: BaseException) -> str:
        """The cause first, then which record."""
        between = "" if self.error is root else f": {str(self.error).strip().rstrip(':')}"
        return f"{sentence(f'{type(root).__name__}: {root}')} {sentence(self.place + between)} {self.given}".rstrip()


class Dropped(Enum):
    """The marker for a record that is dropped because its failure has been handled."""

    DROPPED = 0


DROPPED: Final = Dropped.DROPPED


class FailurePolicy(Protocol):
    """What to do when one record fails in one stage (retries, tolerance, reports: see `tolerance.py`)."""

    def on_failure(self, failure: StageError, retry: Callable[[], Any]) -> Any:
        """The result of a later attempt, or DROPPED when the failure is tolerated and reported; else raises `failure`.

        Called on the task thread, once for each record that failed, after its first attempt; never when all goes well,
        so the good path costs nothing. `retry()` makes another attempt and raises what the plugin raises.
        """
        ...


def tell_nobody(because: str) -> None:
    """Takes the reason why a batch goes by records, where nobody counts them."""


class RaiseAlways:
    """The policy with no retries and no tolerance."""

    def on_failure(self, failure: StageError, retry: Callable[[], Any]) -> Any:
        raise failure


@dataclass(frozen=True, slots=True)
class SomeRows:
    """The rows of a batch that a step is for, as its predicate said: it is not asked again."""

    chosen: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TransformStep:
    """A transformation and its predicate. Source: TransformationStage."""

    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False
    place: str = ""
    """The settings that name it: transforms.X."""
    predicate_place: str = ""

    def without_predicate(self) -> TransformStep:
        """The step for records of which the predicate was asked."""
        return replace(self, predicate=None)

    def named(self, error: BaseException) -> str:
        """The settings that name what raised an error of this step: the transformation, or its predicate."""
        if self.predicate is None or not _is_raised_in(error, self.predicate):
            return self.place
        return f"{self.place}, in its predicate {type(self.predicate).__qualname__}, {self.predicate_place}"

    @property
    def is_columnar(self) -> bool:
        return bool(getattr(self.transformation, "supports_batches", False))

    @property
    def why_by_records(self) -> str:
        """Why it took no columns of a batch."""
        name = type(self.transformation).__name__
        if self.predicate is not None and self.is_columnar:
            return f"{self.place} ({name}) is for some of the records, as {type(self.predicate).__name__} says"
        return f"{self.place} ({name}) takes {'these' if self.is_columnar else 'all'} records one by one"

    @property
    def expands(self) -> bool:
        """Whether it may make several records of one."""
        return bool(getattr(self.transformation, "makes_several", False))

    def expand(self, record: ConnectRecord) -> Sequence[ConnectRecord]:
        """Works as `apply`, for a step that may make several records of one."""
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return (record,)
        made = self.transformation.expand(record)
        if not isinstance(made, Sequence) or not all(isinstance(one, ConnectRecord) for one in made):
            raise _no_answer(self.transformation, "expand", made, "a list of records")
        return made

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        after = self.transformation.apply(record)
        if after is not None and not isinstance(after, ConnectRecord):
            raise _no_answer(self.transformation, "apply", after, "a record or None")
        return after

    @property
    def takes_lists(self) -> bool:
        """Whether it may take many records at once where columns cannot have them."""
        return type(self.transformation).expand_list is not Transformation.expand_list

    def expand_list(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord] | Any:
        """The records after this step, in order; NotImplemented when it needs them one by one."""
        chosen = [self.predicate is None or self.predicate.test(one) != self.negate for one in records]
        found = self.transformation.expand_list([one for one, is_in in zip(records, chosen, strict=True) if is_in])
        if found is NotImplemented:
            return NotImplemented
        made = iter(found)
        pairs = zip(records, chosen, strict=True)
        return [after for one, is_in in pairs for after in (next(made) if is_in else (one,))]

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any | None:
        """The batch after this step, None when nothing remains, NotImplemented when the step needs records.

        Gives `SomeRows` where the step is for some of the records, a list of records where they are no batch any more.
        """
        selected: Any = True  # bool | pa.BooleanArray | NotImplemented
        if self.predicate is not None:
            selected = self.predicate.test_batch(batch)
            if selected is NotImplemented:
                return NotImplemented
            selected = _as_bool_or_mask(selected)
        if isinstance(selected, bool):
            if selected == self.negate:
                return batch
            return self.transformation.apply_batch(batch) if self.is_columnar else NotImplemented
        if getattr(self.transformation, "drops_all", False):
            import pyarrow.compute as pc

            return batch.filter(selected if self.negate else pc.invert(selected))
        # Their schema may come out different, so they part ways with the others
        return SomeRows(tuple(chosen != self.negate for chosen in selected.to_pylist()))

    def close(self) -> None:
        self.transformation.close()
        if self.predicate is not None:
            self.predicate.close()


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
                f"{_coordinates(record)} becomes several records ({len(made)}), and only one can be taken here"
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
                raise _no_answer(step.transformation, "apply_batch", after, "a RecordBatch, None or NotImplemented")
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


def _is_raised_in(error: BaseException, plugin: object) -> bool:
    """Whether a method of this object was at work when an error was raised."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_locals.get("self") is plugin:
            return True
        trace = trace.tb_next
    return False


def _no_answer(transformation: Transformation, method: str, given: Any, wanted: str) -> DataError:
    name = f"{type(transformation).__qualname__}.{method}()"
    return DataError(f"{name} returned a {type(given).__qualname__}; it must return {wanted}")


def _as_bool_or_mask(selected: bool | pa.BooleanArray) -> bool | pa.BooleanArray:
    """Reduces a mask with one value for all rows to a bool."""
    if isinstance(selected, bool):
        return selected
    trues = selected.true_count
    if trues == 0:
        return False
    return True if trues == len(selected) else selected


# Enough to tell JSON from Avro from text; Java's messages have up to 500
_SHOWN_BYTES: Final = 60


def _bytes_given(stage: Stage, record: Any) -> str:
    """`The value is b'no json'.` of a record that its converter could not read."""
    part = {Stage.KEY_CONVERTER: "key", Stage.VALUE_CONVERTER: "value"}.get(stage)
    raw = getattr(record, part, None) if part is not None else None
    if not isinstance(raw, bytes):
        return ""
    if len(raw) <= _SHOWN_BYTES:
        return f"The {part} is {raw!r}."
    return f"The {part} begins with {raw[:_SHOWN_BYTES]!r} and has {pluralize(len(raw), 'byte')}."


def _said_by(error: BaseException) -> str:
    """The text of an error, with its cause for Java's sentences that end in a colon."""
    text = str(error).strip()
    if not text:
        return type(error).__name__
    cause = error.__cause__
    return f"{text} {type(cause).__name__}: {cause}" if text.endswith(":") and cause is not None else text


def _coordinates(record: Any) -> str:
    """Where a record is, for people: topic, partition and, when it came from Kafka, offset; else its source offset."""
    text = f"Record of topic {record.topic!r}"
    partition = getattr(record, "kafka_partition", None)
    if partition is not None:
        text += f", partition {partition}"
    offset = getattr(record, "kafka_offset", None)
    if offset is not None:
        text += f", offset {offset}"
    source = getattr(record, "source_offset", None)
    if source is not None:
        text += f" (source partition {dict(record.source_partition)}, source offset {dict(source)})"
    return text
