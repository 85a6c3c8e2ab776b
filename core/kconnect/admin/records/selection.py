"""Which records of a topic are meant: from a time, an offset, an end, the last so many; by key, and by a condition."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kconnect.admin.records.decoding import DecodedRecord, RecordDecoder
from kconnect.api import ConsumerRecord, Predicate
from kconnect.errors import BadRequestError, ConnectError, DataError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import AtOffset, AtTime, Edge

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry


@dataclass(frozen=True, slots=True)
class Last:
    """The last so many records of the chosen partitions together, by their times."""

    count: int


Start: TypeAlias = Edge | AtTime | AtOffset | Last


@dataclass(frozen=True, slots=True)
class Range:
    """What to read. `partitions`: empty for all. `until_ms`: no record at or after the first one younger than this."""

    start: Start = field(default_factory=lambda: Last(10))
    partitions: frozenset[int] = frozenset()
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Holds, of each partition, the first offset, the end, and the end that read_committed readers see."""

    begin: Mapping[int, int]
    end: Mapping[int, int]
    stable: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition: the first to read, and the first not to read."""

    begin: int
    end: int


def chosen_partitions(topic: str, wanted: Collection[int], there: Sequence[int]) -> list[int]:
    """Errors: NotFoundError for a partition that the topic does not have."""
    missing = sorted(set(wanted) - set(there))
    if missing:
        numbers = "only partition 0" if len(there) == 1 else f"partitions 0 to {max(there)}"
        raise NotFoundError(f"Topic {topic} has no partition {missing[0]}", hint=f"It has {numbers}.")
    return sorted(wanted) if wanted else list(there)


def spans_of(
    topic: str, start: Start, marks: Watermarks, at_start: Mapping[int, int], at_until: Mapping[int, int]
) -> dict[int, Span]:
    """Partition -> what to read of it now; empty spans are kept, as following goes on from their ends.

    `at_start`, `at_until`: offsets of the first records at or after the start's time, and after the last time; -1 for
    none. Errors: BadRequestError for an offset beyond the end of every partition.
    """
    spans = {}
    for number, stable in marks.stable.items():
        end = stable
        if at_until.get(number, -1) >= 0:
            end = min(end, at_until[number])
        begin = _begin_of(start, number, marks, at_start)
        spans[number] = Span(begin, max(begin, end))
    if isinstance(start, AtOffset) and all(start.offset > end for end in marks.end.values()):
        ends = ", ".join(f"{topic}-{number} ends at {end}" for number, end in sorted(marks.end.items())[:5])
        raise BadRequestError(f"Offset {start.offset} is beyond the end: {ends}", hint="--last N shows the last ones.")
    return spans


def _begin_of(start: Start, number: int, marks: Watermarks, at_start: Mapping[int, int]) -> int:
    first, end = marks.begin[number], marks.stable[number]
    match start:
        case Edge.LATEST:
            return end
        case AtTime():
            found = at_start.get(number, -1)
            return end if found < 0 else max(found, first)
        case AtOffset(offset):
            return max(offset, first)
        case _:
            return first


def last_of(spans: Mapping[int, Span], most: int) -> dict[int, Span]:
    """The last `most` offsets of all spans together; short ones are kept whole, and long ones share what is left."""
    found, left = dict(spans), most
    for count, number in enumerate(sorted(spans, key=lambda number: spans[number].end - spans[number].begin)):
        span = spans[number]
        begin = max(span.begin, span.end - left // (len(spans) - count))
        found[number] = Span(begin, span.end)
        left -= span.end - begin
    return found


def remarks(topic: str, start: Start, marks: Watermarks) -> list[str]:
    """Sentences on what a reader may miss: records behind open transactions, and deleted ones."""
    reported = []
    for number, stable in sorted(marks.stable.items()):
        hidden = marks.end[number] - stable
        if hidden > 0:
            reported.append(
                f"{topic}-{number}: a transaction is open from offset {stable}; {pluralize(hidden, 'offset')} behind "
                "it will be shown once it ends. --uncommitted shows them now."
            )
        if isinstance(start, AtOffset) and start.offset < marks.begin[number]:
            reported.append(f"{topic}-{number} begins at offset {marks.begin[number]}: earlier records were deleted.")
    return reported


_PREDICATE: Final = "kconnect.builtin.sql.sql_predicate.SqlPredicate"
_BASE64: Final = "base64:"


class RecordFilter:
    """Decodes the records that are wanted. Threads: one at a time. `close()` ends the condition's database.

    Decodes before `accept` has decided only where the condition needs it: to find the last ten of many, the others are
    passed over as bytes.
    """

    def __init__(
        self, decoder: RecordDecoder, plugins: PluginRegistry, *, key: str | None = None, where: str | None = None
    ) -> None:
        """Errors: BadRequestError that says what is wrong with the condition, or with a key that is not base64."""
        self._decoder = decoder
        self._key = key
        self._key_bytes = None if key is None else _key_bytes(key)
        self._condition = None if where is None else _condition(where, plugins)
        self.untested = 0
        """Records for which the condition has no answer, such as those that lack a field it names."""
        self.first_untested: str | None = None
        """A sentence on the first of them."""

    def accept(self, record: ConsumerRecord) -> ConsumerRecord | DecodedRecord | None:
        """The record if it is wanted; give what comes back to `shown`."""
        if self._key is not None and record.key != self._key_bytes:
            decoded = self._decoder.decode(record)
            if not self._is_key(decoded):
                return None
            return self._tested(decoded)
        if self._condition is None:
            return record
        return self._tested(self._decoder.decode(record))

    def shown(self, found: ConsumerRecord | DecodedRecord) -> DecodedRecord:
        return found if isinstance(found, DecodedRecord) else self._decoder.decode(found)

    def close(self) -> None:
        if self._condition is not None:
            self._condition.close()
        self._decoder.close()

    def _is_key(self, decoded: DecodedRecord) -> bool:
        key = decoded.key.plain
        return key is not None and not isinstance(key, dict | list) and str(key) == self._key

    def _tested(self, decoded: DecodedRecord) -> DecodedRecord | None:
        if self._condition is None:
            return decoded
        try:
            return decoded if self._condition.test(decoded.to_sink_record()) else None
        except DataError as err:
            self.untested += 1
            self.first_untested = self.first_untested or f"{decoded.place}: {err}"
            return None


def _key_bytes(key: str) -> bytes:
    if not key.startswith(_BASE64):
        return key.encode(errors="surrogateescape")
    try:
        return base64.b64decode(key.removeprefix(_BASE64), validate=True)
    except binascii.Error as err:
        raise BadRequestError(f"The key {key} is not base64: {err}") from err


def _condition(where: str, plugins: PluginRegistry) -> Predicate:
    found: Any = plugins.predicate(_PREDICATE)()
    try:
        found.configure({"condition": where})
    except ConnectError as err:
        raise BadRequestError(
            f"The condition cannot be used: {_cause(err)}",
            hint="It is what stands after WHERE in Spark's dialect, such as \"amount > 100 AND _key = 'a'\".",
        ) from err
    made: Predicate = found
    return made


def _cause(err: BaseException) -> BaseException:
    """What the parser says, without the setting's name around it."""
    while isinstance(err.__cause__, ConnectError):
        err = err.__cause__
    return err
