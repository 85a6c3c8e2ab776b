"""`spark.read.format("kconnect")`: each task of the connector is a Spark task that reads its source to the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kconnect.spark.datasource.columns import Columns
from kconnect.spark.datasource.connector import ConnectorOfFormat, SourcePlanningContext
from kconnect.spark.datasource.failures import told_to_spark
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.datasource.source_task import read_to_end

if TYPE_CHECKING:
    import pyarrow as pa


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
        with told_to_spark("planning its tasks"):
            configs = self._connector.task_configs(SourcePlanningContext(Positions()))
            return [TaskPart(index, config) for index, config in enumerate(configs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPart)
        with told_to_spark(f"reading task {partition.index}"):
            for rows in read_to_end(self._connector, partition.config, partition.index):
                yield self._columns.batch(rows)
