"""Single message transformations and the predicates that switch them."""

# ruff: noqa: B027 - hooks are optional: an empty body is intended
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.api.record import ConnectRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.api.batch import RecordBatch
    from kconnect.api.configdef import ConfigDef

R = TypeVar("R", bound=ConnectRecord)


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

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | NotImplementedType | None:
        """The columnar form of `apply`: a changed batch, the same batch, None to drop it; or NotImplemented.

        Called instead of apply, on whole batches, if `supports_batches` is True. Must give the same records as apply.
        On NotImplemented this batch goes through apply. So does a batch for which it raises, so that the error is
        attributed to the right record: a second call for the same rows must be harmless. May return fewer rows, but in
        order; with `makes_several` also more. Must not block.
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
