"""The Python data source with which Spark reads topics: plans ranges of offsets, and has each read by one Spark task.

Spark runs the planning in a Python process beside the driver, and each read in an executor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kconnect.model import TopicPartition
from kconnect.spark.query.topic_order import SourceOffset, TopicOrder

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.spark.query.topic_ends import TopicEnds


def topic_source(name: str, order: TopicOrder) -> type[DataSource]:
    """A data source for `spark.readStream.format(name)`, which knows its order: options would show in Spark's UI."""
    given = {each.name: getattr(order, each.name) for each in fields(order)}

    class TopicSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return StructType.fromJson(dict(given["schema"]))

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
            return TopicStreamReader(TopicOrder(**given))

    return TopicSource


@dataclass
class OffsetRange(InputPartition):
    """The records of one partition that one Spark task reads."""

    topic: str
    partition: int
    begin: int
    end: int


class TopicStreamReader(DataSourceStreamReader):
    """Threads: one. In the planning process it lives as long as the query; `read` runs on a copy, in an executor."""

    def __init__(self, order: TopicOrder) -> None:
        self._order = order
        self._ends: TopicEnds | None = None
        self._last = order.begin

    def __getstate__(self) -> dict[str, Any]:
        return {"_order": self._order, "_ends": None, "_last": self._last}

    def initialOffset(self) -> SourceOffset:  # Spark's name
        """For a query that keeps its checkpoint itself; every other one starts with a checkpoint that has an offset."""
        return self._order.begin if self._order.first is None else self._order.first

    def getDefaultReadLimit(self) -> Any:  # Spark's name
        """Called by Spark 4.2 and later, which asks for a limit."""
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self._order.max_records)

    def latestOffset(self, start: SourceOffset | None = None, limit: Any = None) -> SourceOffset:  # Spark's name
        """The end of the next batch. Spark 4.1 gives no `start`: it takes each answer as that of the next."""
        if self._ends is None:
            from kconnect.spark.query.topic_ends import TopicEnds

            self._ends = TopicEnds.of_order(self._order)
        begin = from_json(self._last if start is None else start)
        self._last = to_json(limited(begin, self._ends.look(), self._order.max_records))
        return self._last

    def partitions(self, start: SourceOffset, end: SourceOffset) -> Sequence[InputPartition]:
        begin = from_json(start)
        return [
            OffsetRange(at.topic, at.partition, begin.get(at, 0), to)
            for at, to in sorted(from_json(end).items())
            if to > begin.get(at, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kconnect.spark.query.topic_reader import TopicReader

        assert isinstance(partition, OffsetRange)
        reader = TopicReader.of_order(self._order)
        at = TopicPartition(partition.topic, partition.partition)
        yield from reader.read(at, partition.begin, partition.end)

    def commit(self, end: SourceOffset) -> None:
        """Nothing to do: the driver commits."""

    def stop(self) -> None:
        if self._ends is not None:
            self._ends.close()


def limited(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int | None
) -> dict[TopicPartition, int]:
    """How far the next batch goes: to the ends, or `most` records in all, spread over the partitions that have any.

    Never back: a partition that has become shorter keeps its position.
    """
    ends = {at: max(to, start.get(at, 0)) for at, to in {**start, **end}.items()}
    left = {at: to - start.get(at, 0) for at, to in ends.items() if to > start.get(at, 0)}
    if most is None or sum(left.values()) <= most:
        return ends
    room, given = most, dict.fromkeys(ends, 0)
    for number, (at, waiting) in enumerate(sorted(left.items(), key=lambda item: item[1])):
        given[at] = min(waiting, max(room // (len(left) - number), 1))
        room = max(room - given[at], 0)
    return {at: start.get(at, 0) + given[at] for at in ends}


def to_json(offsets: Mapping[TopicPartition, int]) -> SourceOffset:
    """In a fixed order: Spark compares texts to see whether there is anything new."""
    found: SourceOffset = {}
    for at, offset in sorted(offsets.items()):
        found.setdefault(at.topic, {})[str(at.partition)] = offset
    return found


def from_json(body: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, parts in body.items()
        for number, offset in parts.items()
    }
