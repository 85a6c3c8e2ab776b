"""What records go through between a task and Kafka: transformations, predicates that switch them, and converters."""

# ruff: noqa: B027 - hooks are optional: an empty body is intended
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.api.headers import Headers
from kconnect.api.record import ConnectRecord
from kconnect.api.schema import Schema, SchemaAndValue

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.api.batch import RecordBatch
    from kconnect.api.configdef import ConfigDef

R = TypeVar("R", bound=ConnectRecord)


class PartlyAppliedError(Exception):
    """Raised by `apply_batch`: rows before `row` became `done`, `row` itself failed, the rest was not looked at.

    For a transformation that keeps in mind what it was given: a second call for the same rows would drop all of them in
    a filter of duplicates. `error`: what failed. Nothing like it is in Java, whose transformations take one record.
    """

    def __init__(self, done: Sequence[ConnectRecord], row: int, error: Exception) -> None:
        super().__init__(str(error))
        self.done, self.row, self.error = done, row, error


class Transformation(ABC):
    """Changes or drops records between connector and converter: one step of a connector's `transforms` chain.

    The runtime creates one object per task and step, without arguments, then calls configure, apply for each record,
    close. All on the task's thread. Source: o.a.k.connect.transforms.Transformation.
    """

    supports_batches: bool = False
    """Whether the runtime may call `apply_batch`. Read after configure, so configure may set it on the object."""

    makes_several: bool = False
    """Whether the runtime is to call `expand` in place of `apply`. Read after configure, likewise."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the settings: those after `transforms.NAME.`, as text. Called once, before the first record.

        Must not block for long. Errors: ConfigError; any error fails the task.
        """

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """The changed record (see `ConnectRecord.new_record`), the same record, or None to drop it.

        Called once per record, in order, and again for the same record after a RetriableError. Must not block, which
        would delay the task. NOT called for records that the step's predicate excludes or an earlier step
        dropped. Errors: DataError and others are tolerated or fail the task as `errors.tolerance` says.
        """

    def expand(self, record: R) -> Sequence[R]:
        """The records that become of one, in order: for a transformation that makes several, such as explode.

        Called in place of `apply` if `makes_several` is True. All of them have the offset of the one, so they are sent,
        or put, together. Errors: as `apply`. Differs: Java's transformations give one record or none.
        """
        after = self.apply(record)
        return () if after is None else (after,)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | list[ConnectRecord] | NotImplementedType | None:
        """The columnar form of `apply`: a changed batch, the same batch, None to drop it; or NotImplemented.

        Called instead of apply, on whole batches, if `supports_batches` is True. Must give the same records as apply.
        On NotImplemented this batch goes through apply. So does a batch for which it raises, so that the error is
        attributed to the right record: a second call for the same rows must be harmless, unless PartlyAppliedError says
        what became of those before it. May return fewer rows, but in order; with `makes_several` also more; and a list
        of the records where these are no batch any more. Must not block.
        """
        return NotImplemented  # type: ignore[no-any-return]  # mypy has it as Any

    def expand_list(self, records: Sequence[R]) -> Sequence[Sequence[R]] | NotImplementedType:
        """What becomes of each of many records, as of `expand`, in their order; or NotImplemented.

        Called instead of apply and expand where many records come that no batch has, without those that the step's
        predicate excludes. Must give the same records as these. If it raises: record by record, so a second call for
        the same records must be harmless. Must not block.
        """
        return NotImplemented  # type: ignore[no-any-return]  # mypy has it as Any

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings it takes. Called any time, also on objects that are never configured; must not block."""

    def close(self) -> None:
        """Release resources. Default: nothing.

        Called once, on the task's thread, after the task's stop, even if configure failed. NOT if the process dies.
        """

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists. Called any time; must not block."""
        return "undefined"


class Predicate(ABC):
    """Decides for each record whether a transformation applies. Source: o.a.k.connect.transforms.predicates.Predicate.

    Objects, threads and order of calls are as for `Transformation`.
    """

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the settings: those after `predicates.NAME.`, as text. Called once, before the first record."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether the record matches (the runtime applies `negate`). Called once a record; must not block."""

    def test_batch(self, batch: RecordBatch) -> bool | pa.BooleanArray | NotImplementedType:
        """The columnar form of `test`: one bool for all rows, or a column of them; or NotImplemented, the default.

        Called instead of test, once per batch. Must agree with test for each row. If it raises or returns
        NotImplemented, the batch goes through test. Must not block.
        """
        return NotImplemented

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings it takes. Called any time, also on objects that are never configured; must not block."""

    def close(self) -> None:
        """Release resources. Called like `Transformation.close`. Default: nothing."""

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists. Called any time; must not block."""
        return "undefined"


class Converter(ABC):
    """Turns keys or values into bytes for Kafka and back: `key.converter`, `value.converter`.

    The runtime creates one object for keys and one for values per task, without arguments, then calls configure, the
    conversions, close. All on the task's thread. Source: o.a.k.connect.storage.Converter.
    """

    ignores_headers: bool = False
    """Whether it never looks at a record's headers: then batches with headers go by `from_connect_batch` too."""
    takes_kafka_headers: bool = False
    """Whether `headers` are those of Kafka, as in Java (KIP-440), with bytes for values: header.converter makes them
    before this one is called, and reads what it left of consumed ones. It gets them, perhaps empty, with each record,
    and what it adds or removes counts. Read after configure."""
    keeps_digits: bool = False
    """Set by the runtime, before configure, where a schema is declared for what it reads: fractions without schema that
    no double holds are then Decimals, which Java would round."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Read the settings: those after `key.converter.` or `value.converter.`, as text. Called once, first.

        Must not block for long. Errors: ConfigError; any error fails the task.
        """

    @abstractmethod
    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        """The bytes to produce; None is a null in Kafka (a tombstone).

        Called for each source record after its transforms, never for sink records. A schema of None means a schemaless
        value. `headers` are the record's (the converter may add some), None if it has none; see `takes_kafka_headers`.
        Must not block, except for cached look-ups.
        Errors: DataError (and others) are tolerated or fail the task as `errors.tolerance` says.
        """

    @abstractmethod
    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        """The schema and value of bytes that were consumed.

        Called for each sink record before its transforms, with None for a null. `headers` are None unless it
        `takes_kafka_headers`. Equal schemas should be the same
        object, as later steps cache by it. Must not block, except for cached look-ups.
        Errors: as for from_connect_data.
        """

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        """The columnar form of `from_connect_data`, byte for byte; or NotImplemented.

        Called instead of it if the records came as a batch without headers. If it raises, the runtime converts that
        batch record by record, so that the error names the record that caused it. Column types: see `RecordBatch`.
        """
        return NotImplemented

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | NotImplementedType:
        """The columnar form of `to_connect_data`: one schema for all rows, and the column; or NotImplemented.

        Called instead of it if the task or later transforms accept batches. If it raises: record by record, and what
        it raised is shown as the reason.
        """
        return NotImplemented  # type: ignore[no-any-return]  # mypy has it as Any

    def to_connect_list(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, list[Any]] | NotImplementedType:
        """Many values of `to_connect_data` at once, of one schema; or NotImplemented.

        Called instead of it where many records come and columns cannot have them. If it raises: record by record.
        """
        return NotImplemented  # type: ignore[no-any-return]  # mypy has it as Any

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings it takes. Called any time, also on objects that are never configured; must not block."""

    def close(self) -> None:
        """Release resources. Called once, on the task's thread, after the task's stop. Default: nothing."""

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists. Called any time; must not block."""
        return "undefined"


class HeaderConverter(ABC):
    """Turns header values into bytes for Kafka and back: `header.converter`. Source: HeaderConverter.

    Objects, threads and order of calls are as for `Converter`.
    """

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the settings: those after `header.converter.`, as text. Called once, before the first header."""

    @abstractmethod
    def from_connect_header(self, topic: str, header_key: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of one header to produce; called for each header of each source record. Must not block."""

    @abstractmethod
    def to_connect_header(self, topic: str, header_key: str, value: bytes | None) -> SchemaAndValue:
        """Schema and value of one consumed header; called for each header of each sink record. Must not block."""

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings it takes. Called any time, also on objects that are never configured; must not block."""

    def close(self) -> None:
        """Release resources. Called once, on the task's thread, after the task's stop. Default: nothing."""

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists. Called any time; must not block."""
        return "undefined"
