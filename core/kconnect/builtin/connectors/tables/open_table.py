"""The table of a topic in the format that the settings name; the format's package is imported only now."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kconnect.api import TopicPartition
from kconnect.builtin.connectors.tables.table_config import STORAGE_PREFIX, TableConfig
from kconnect.builtin.connectors.tables.table_format import TableFormat
from kconnect.builtin.connectors.tables.table_schema import SchemaRules
from kconnect.builtin.stores.file_store import FileStore, StoreSettings, file_store
from kconnect.builtin.stores.flush_plan import FlushPlan

if TYPE_CHECKING:
    import pyarrow as pa


class OpenTable:
    """A table that the task writes to: its format, the columns it has by now, and what waits for it."""

    def __init__(self, config: TableConfig, topic: str) -> None:
        self.format: TableFormat = open_table(config, topic)
        self.plan = FlushPlan(config.limits)
        self.schema: pa.Schema | None = None
        self.keys: tuple[str, ...] = ()
        """The columns that identify a row; none when rows are only added."""
        self.rules = SchemaRules(self.format.where, config.evolution, self.format.stored_type, self.format.can_widen)

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self.format.open(partitions)
        self.schema = self.format.schema() or self.schema
        return found


def table_files(where: str, config: TableConfig) -> FileStore:
    """Where the files of a table of plain files are. Errors: ConfigError when a package is missing."""
    return file_store(where, config.storage, StoreSettings("table.path", STORAGE_PREFIX))


def open_table(config: TableConfig, topic: str) -> TableFormat:
    """Opens no connection yet. Errors: ConfigError when a package is missing."""
    where = config.table_of(topic)
    columns = [column.name for column in config.partition_by]
    if config.format == "parquet":
        from kconnect.builtin.connectors.tables.parquet_table import ParquetTable

        return ParquetTable(where, table_files(where, config), config.writer, columns, config.compression)
    if config.format == "delta":
        from kconnect.builtin.connectors.tables.delta_table import DeltaLakeTable

        return DeltaLakeTable(where, config.storage, config.writer, columns, config.compression, config.properties)
    from kconnect.builtin.connectors.tables.iceberg_table import IcebergTable

    return IcebergTable(
        where,
        config.catalog,
        config.writer,
        columns,
        config.compression,
        config.properties,
        config.catalog_timeout_s,
    )
