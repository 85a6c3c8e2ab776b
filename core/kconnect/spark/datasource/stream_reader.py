"""`spark.readStream` and `spark.read` of `format("kconnect")`: Spark's calls, passed on to the StreamPlanner."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kconnect.spark.datasource.columns import Columns
from kconnect.spark.datasource.connector import ConnectorOfFormat, SourcePlanningContext
from kconnect.spark.datasource.failures import reported_to_spark
from kconnect.spark.datasource.planner import StreamPlanner
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.datasource.source_task import read_to_end
from kconnect.spark.datasource.spool import Spool

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are worth a Spark task of their own
_ROWS_OF_A_TASK: Final = 50_000
_MOST_TASKS: Final = 64


@dataclass
class SpooledPart(InputPartition):
    """Arrow batches of one spooled file: what one Spark task reads."""

    folder: str
    name: str
    first: int
    end: int


class ConnectorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in Spark's planner process, from the start of the query to its stop; copies on executors only `read`.

    Threads: one.
    """

    def __init__(self, connector: ConnectorOfFormat, columns: Columns) -> None:
        self._max_rows = connector.options.max_rows
        self._planner: StreamPlanner | None = StreamPlanner(connector, columns)

    def initialOffset(self) -> dict[str, Any]:
        return self._plan.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._plan.end_when_idle()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with reported_to_spark("polling the source"):
            return self._plan.latest(start, None if isinstance(limit, ReadAllAvailable) else self._rows_of(limit))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with reported_to_spark(f"planning batch {end.get('batch')}"):
            spool, files = self._plan.files(start, end)
            return [
                SpooledPart(spool.folder, file.name, first, last)
                for file in files
                for first, last in _spans(file.rows, file.batches)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SpooledPart)
        with reported_to_spark("reading the spool"):
            yield from Spool(partition.folder).read(partition.name, partition.first, partition.end)

    def commit(self, end: dict[str, Any]) -> None:
        with reported_to_spark(f"committing batch {end.get('batch')}"):
            self._plan.commit(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.stop()

    def __getstate__(self) -> Mapping[str, Any]:
        """Executors get no settings: no secret of a stream travels to them."""
        return {"_max_rows": self._max_rows, "_planner": None}

    @property
    def _plan(self) -> StreamPlanner:
        assert self._planner is not None, "only `read` is called on executors"
        return self._planner

    def _rows_of(self, limit: ReadLimit) -> int:
        return int(getattr(limit, "max_rows", self._max_rows))


def _spans(rows: int, batches: int) -> Iterator[tuple[int, int]]:
    """The batches of a file in parts of about equal size."""
    parts = max(min(rows // _ROWS_OF_A_TASK, batches, _MOST_TASKS), 1)
    edges = [batches * part // parts for part in range(parts + 1)]
    yield from itertools.pairwise(edges)


class TaskPart(InputPartition):
    """One task of the connector."""

    def __init__(self, index: int, config: dict[str, str]) -> None:
        self.index = index
        self.config = config

    def __repr__(self) -> str:
        return f"TaskPart({self.index})"  # no settings: they may be secret


class ConnectorReader(DataSourceReader):
    """Planned beside the driver; `read` runs on executors."""

    def __init__(self, connector: ConnectorOfFormat, columns: Columns) -> None:
        self._connector, self._columns = connector, columns

    def partitions(self) -> Sequence[InputPartition]:
        with reported_to_spark("planning its tasks"):
            configs = self._connector.task_configs(SourcePlanningContext(Positions()))
            return [TaskPart(index, config) for index, config in enumerate(configs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPart)
        with reported_to_spark(f"reading task {partition.index}"):
            for rows in read_to_end(self._connector, partition.config, partition.index):
                yield self._columns.batch(rows)
