"""The stages of a record: one step of the transformations, what failed in which stage, and the policy for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.api import ConnectRecord, Predicate, RecordBatch, Transformation
from kconnect.errors import ConnectError, DataError
from kconnect.logs.traces import sentence
from kconnect.logs.wording import pluralize

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
        self.place = f"{coordinates(record)} failed in {stage.value} of {plugin.__qualname__}{where}"
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
            raise no_answer(self.transformation, "expand", made, "a list of records")
        return made

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        after = self.transformation.apply(record)
        if after is not None and not isinstance(after, ConnectRecord):
            raise no_answer(self.transformation, "apply", after, "a record or None")
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


def _is_raised_in(error: BaseException, plugin: object) -> bool:
    """Whether a method of this object was at work when an error was raised."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_locals.get("self") is plugin:
            return True
        trace = trace.tb_next
    return False


def no_answer(transformation: Transformation, method: str, given: Any, wanted: str) -> DataError:
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
    """The text of an error, with its cause for Java's sentences that end in a colon; of Python's own with its type."""
    text = str(error).strip()
    if not text:
        return type(error).__name__
    if not isinstance(error, ConnectError):
        text = f"{type(error).__name__}: {text}"
    cause = error.__cause__
    return f"{text} {type(cause).__name__}: {cause}" if text.endswith(":") and cause is not None else text


def coordinates(record: Any) -> str:
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
