"""TopicJobs: a sink's query without state as batch jobs, each of which reads planned ranges of the topics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from pyspark.accumulators import AccumulatorParam

from kconnect.model import TopicPartition
from kconnect.spark.query.arrow_map import mapped
from kconnect.spark.query.batch_loop import BatchDone
from kconnect.spark.query.batch_writer import BatchWriter
from kconnect.spark.query.topic_batches import TopicBatches
from kconnect.spark.query.topic_ends import TopicEnds
from kconnect.spark.query.topic_order import TopicOrder
from kconnect.spark.query.topic_source import limited

if TYPE_CHECKING:
    import pyarrow as pa

Range = tuple[str, int, int, int]
"""Topic, partition, the first record, and the one behind the last."""
_NODE: Final = r"^[\s:+\-!'~]*"
_STATE: Final = re.compile(
    rf"{_NODE}(Aggregate|Deduplicate\w*|Distinct|TransformWith\w*|FlatMapGroups\w*|GlobalLimit)\b", re.MULTILINE
)
_JOIN: Final = re.compile(rf"{_NODE}Join\b", re.MULTILINE)
# What reads the topics: arrow_map.mapped, of which nothing else makes use in the plan of a user's query
_RECORDS: Final = re.compile(rf"{_NODE}MapInArrow\b", re.MULTILINE)
_WHOLE: Final = {
    "ORDER BY": re.compile(rf"{_NODE}Sort\b", re.MULTILINE),
    "A window function": re.compile(rf"{_NODE}Window\b", re.MULTILINE),
    "OFFSET": re.compile(rf"{_NODE}(Offset|Tail)\b", re.MULTILINE),
}


class TopicJobs:
    """Implements Batches. Threads: the loop's."""

    def __init__(
        self,
        session: Any,
        order: TopicOrder,
        ends: TopicEnds,
        batches: TopicBatches,
        writer: BatchWriter,
        result: Callable[[Any], Any],
        reported: Callable[[BaseException], None],
    ) -> None:
        """`result`: the query over the records. `reported`: is given what ends the query."""
        self._session = session
        self._order = order
        self._ends = ends
        self._batches = batches
        self._writer = writer
        self._result = result
        self._reported = reported
        self._counted = session.sparkContext.accumulator({}, RowsOfRanges())

    def once(self, is_stopping: Callable[[], bool]) -> BatchDone | None:
        try:
            return self._next(is_stopping)
        except BaseException as error:
            self._reported(error)
            raise

    def _next(self, is_stopping: Callable[[], bool]) -> BatchDone | None:
        position = self._batches.position
        end = position.planned
        if not end:
            end = limited(position.done, self._ends.look(), self._order.max_records)
            # A partition that is new has a batch also without records: its offset is in the group from then on
            if not any(at not in position.done or to > position.done[at] for at, to in end.items()):
                return None
        if is_stopping():  # the next start may have begun, and has a view of the same name
            return None
        planned_s, number = time.monotonic(), position.batch + 1
        ranges = ranges_of(position.done, end)
        self._counted.value = {}
        rows = self._result(records(self._session, self._order, ranges, self._counted))
        self._batches.write(self._writer, rows, number, end)
        return BatchDone(number, sum(self._counted.value.get(each, 0) for each in ranges), planned_s)


class RowsOfRanges(AccumulatorParam[dict[Range, int]]):
    """How many rows each range gave: one that is read twice, by a write of two jobs, counts once."""

    def zero(self, value: dict[Range, int]) -> dict[Range, int]:
        return {}

    def addInPlace(self, value1: dict[Range, int], value2: dict[Range, int]) -> dict[Range, int]:  # Spark's name
        return {**value1, **value2}


def ranges_of(begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[Range]:
    """The ranges that have records."""
    return [(at.topic, at.partition, begin.get(at, 0), to) for at, to in sorted(end.items()) if to > begin.get(at, 0)]


def records(session: Any, order: TopicOrder, ranges: Sequence[Range], counted: Any = None) -> Any:  # a DataFrame
    """The records of these ranges, each read by one Spark task; without ranges only their schema is of use.

    `counted`: an accumulator of RowsOfRanges.
    """
    from pyspark.sql.types import StructType

    numbers = session.range(0, len(ranges), 1, max(len(ranges), 1))
    return mapped(numbers, _reader(order, list(ranges), counted), StructType.fromJson(dict(order.schema)))


def _reader(
    order: TopicOrder, ranges: list[Range], counted: Any
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapped`: the records of the ranges with the numbers that it is given."""
    given = {each.name: getattr(order, each.name) for each in fields(order)}

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kconnect.spark.query.topic_reader import TopicReader

        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            topic, partition, begin, end = ranges[number]
            count = 0
            for made in TopicReader.of_order(TopicOrder(**given)).read(TopicPartition(topic, partition), begin, end):
                count += made.num_rows
                yield made
            if counted is not None:
                counted.add({ranges[number]: count})

    return run


def keeps_state(plan: str) -> bool:
    """Whether a query remembers earlier records: aggregations, duplicates, joins of records with records.

    `plan`: analyzed, as text, of the query over one batch.
    """
    joins_itself = _JOIN.search(plan) is not None and len(_RECORDS.findall(plan)) > 1
    return _STATE.search(plan) is not None or joins_itself


def needs_all(plan: str) -> str | None:
    """What in a query without state makes sense for all records only, of which there is no end; None if nothing.

    Spark's streaming refuses the same.
    """
    return next((name for name, node in _WHOLE.items() if node.search(plan)), None)
