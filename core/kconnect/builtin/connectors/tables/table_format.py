"""TableFormat: what the sink needs of a table, whatever keeps it; and what a commit to it consists of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kconnect.api import ConnectError, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition that a commit adds: from `start` up to before `stop`."""

    at: TopicPartition
    base: int | None
    """The offset that the table has for the partition as far as the writer knows; None when it has none."""
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.at} offsets {self.start} to {self.stop - 1}"


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One commit: rows, and the offsets that go with them. All of it is in the table afterwards, or nothing.

    With `keys`, rows replace those with equal keys, and rows whose keys are in `deletes` go.
    """

    rows: pa.Table = field(repr=False)
    ranges: tuple[OffsetRange, ...]
    keys: tuple[str, ...] = ()
    deletes: pa.Table | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return ", ".join(map(str, self.ranges[:3])) + (", .." if len(self.ranges) > 3 else "")


class StaleOffsetsError(ConnectError):
    """The table has other offsets than the writer knows: somebody else wrote, and nothing of this commit is there."""

    def __init__(self, message: str, found: Mapping[TopicPartition, int | None]) -> None:
        super().__init__(message)
        self.found = dict(found)
        """What the table has for the partitions of the commit."""


def stale_offsets(where: str, write: TableWrite, known: Mapping[TopicPartition, int | None]) -> StaleOffsetsError:
    """The error for a commit, of a table that has these offsets instead."""
    found = {span.at: known.get(span.at) for span in write.ranges}
    first = next(span for span in write.ranges if found[span.at] != span.base)
    return StaleOffsetsError(
        f"Table {where}: {first} were not written, as another writer has committed since; it has "
        + ("no offset of it any more" if found[first.at] is None else f"everything before offset {found[first.at]}"),
        found,
    )


def full_names(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Each column and field in columns: the full name of what it is in ("" for columns), and its own name."""
    import pyarrow as pa

    def below(prefix: str, kind: pa.DataType) -> Iterator[tuple[str, str]]:
        if pa.types.is_struct(kind):
            for part in kind:
                yield prefix, part.name
                yield from below(f"{prefix}.{part.name}" if prefix else part.name, part.type)
        elif pa.types.is_map(kind):
            yield from below(f"{prefix}.key", kind.key_type)
            yield from below(f"{prefix}.value", kind.item_type)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from below(f"{prefix}.element", kind.value_type)

    yield from below("", pa.struct(list(schema)))


def depth_of(kind: pa.DataType) -> int:
    """How many levels a type has: 1 for one without types in it."""
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return 1 + max(map(depth_of, parts), default=0)


class TableFormat(Protocol):
    """One table, opened by one writer (a connector). Threads: one.

    Errors of all methods: RetriableError when the same call may succeed later, ConnectError when not; the table is
    then as before the call, or has the whole commit, which the next call finds out.
    """

    where: str
    """Path or name of the table, for sentences. Without secrets."""
    joins_partitions: bool
    """Whether one commit takes the records of several partitions."""

    def schema(self) -> pa.Schema | None:
        """Its columns; None while there is no table, or nothing to tell them by."""
        ...

    def stored_type(self, kind: pa.DataType) -> pa.DataType:
        """The type in which a new column of this type is kept."""
        ...

    def can_widen(self, column: str, old: pa.DataType, new: pa.DataType) -> bool:
        """Whether a column, or what is in it, can take the wider type, and no reader sees another number by it."""
        ...

    def refusal(self, schema: pa.Schema) -> str:
        """Why the table cannot have these columns, by their names; empty when it can. Asked before a row is taken."""
        ...

    def misplaced(self, rows: pa.RecordBatch) -> str:
        """Why it cannot be divided by a value of these rows; empty when it can. Asked before a row is taken."""
        ...

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Take over the writing of partitions; returns the offset to go on from, of those that have one.

        Commits that an earlier writer begins afterwards are refused once this one has committed, or at once.
        """
        ...

    def write(self, write: TableWrite) -> None:
        """Commit. The rows may have columns that the table lacks, or wider ones, as far as `can_widen` said so.

        Errors: StaleOffsetsError when the offsets in the table are not those of `base`.
        """
        ...

    def offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the table has for partitions; takes nothing over."""
        ...

    def set_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit other offsets (None: forget it), without rows; for partitions of which the table has one."""
        ...

    def compact(self, small_bytes: int) -> str | None:
        """Join small files into large ones; returns what was done, None for nothing. Readers see no change."""
        ...

    def close(self) -> None:
        """Release what is open. May be called twice."""
        ...
