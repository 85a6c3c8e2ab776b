"""`format("kconnect")` as Spark sees it, and `register`."""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from kconnect.api import SinkConnector, SourceConnector
from kconnect.errors import ConfigError, ConnectError
from kconnect.spark.arrow_types import arrow_schema, struct_type
from kconnect.spark.datasource.columns import Columns, inferred, is_record_schema
from kconnect.spark.datasource.connector import ConnectorOfFormat, SourcePlanningContext
from kconnect.spark.datasource.failures import reported_to_spark
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.datasource.source_task import read_to_end
from kconnect.spark.datasource.stream_reader import ConnectorReader
from kconnect.spark.datasource.writers import ConnectorStreamWriter, ConnectorWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("kconnect")` known to a Spark session: once, before the first use."""
    if not is_remote():  # a session of Spark Connect has no context, and its Python is the server's
        context = spark.sparkContext
        if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # else Spark runs python3 of the PATH, which a notebook's is often not
    spark.dataSource.register(KConnectFormat)


class KConnectFormat(DataSource):
    """Made by Spark wherever a query is planned; holds the options only."""

    _is_inferred = False

    @classmethod
    def name(cls) -> str:
        return "kconnect"

    def schema(self) -> StructType:
        """Asked for when the user gives none: what the first records look like."""
        with reported_to_spark(""):
            connector = self._connector(SourceConnector)
        with reported_to_spark("looking for its columns"):
            self._is_inferred = True
            return struct_type(_inferred_schema(connector))

    def reader(self, schema: StructType) -> DataSourceReader:
        with reported_to_spark(""):
            return ConnectorReader(self._connector(SourceConnector), self._columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with reported_to_spark(""):
            if not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
                raise ConnectError(
                    f"readStream.format('kconnect') needs pyspark 4.2 or later, this is {pyspark.__version__}",
                    hint="Install a later pyspark, or read with spark.read, which works here.",
                )
            from kconnect.spark.datasource.stream_reader import ConnectorStreamReader

            return ConnectorStreamReader(self._connector(SourceConnector), self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with reported_to_spark(""):
            if overwrite:
                raise ConfigError(
                    'A connector cannot overwrite what it has written: mode("overwrite") does not exist here',
                    hint='Write with .mode("append").',
                )
            return ConnectorWriter(self._connector(SinkConnector), schema.fieldNames())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        with reported_to_spark(""):
            if overwrite:
                raise ConfigError(
                    'A connector cannot write each batch over the last: outputMode("complete") does not exist here',
                    hint='Write with .outputMode("append"), or "update" for a sink that upserts by key.',
                )
            return ConnectorStreamWriter(self._connector(SinkConnector), schema.fieldNames())

    def _connector(self, kind: Any) -> ConnectorOfFormat:  # SourceConnector or SinkConnector
        return ConnectorOfFormat(dict(self.options), kind)

    def _columns(self, schema: StructType) -> Columns:
        chosen = self.options.get("kconnect.columns", "auto")
        is_record = is_record_schema(schema.fieldNames()) if chosen == "auto" else chosen == "record"
        return Columns(arrow_schema(schema), is_record, is_strict=self._is_inferred)


def _inferred_schema(connector: ConnectorOfFormat) -> Any:  # a pa.Schema
    is_record = connector.options.columns != "value"
    for index, config in enumerate(connector.task_configs(SourcePlanningContext(Positions()))):
        rows = read_to_end(
            connector, config, index, timeout_s=connector.options.schema_timeout_s, letters=False, even_empty=True
        )
        try:
            first = list(itertools.islice(rows, 1))
        finally:
            rows.close()  # type: ignore[attr-defined]  # a generator: the task stops here
        if first:
            return inferred(first, is_record=is_record)
    raise ConnectError(
        "No record came by which to see the columns: the source is empty, or it needs longer than "
        f"{connector.options.schema_timeout_s:g} s (kconnect.schema.timeout.ms)",
        hint='Give them: .schema("value STRING, topic STRING") for records, or the fields of the value: '
        '.schema("id BIGINT, name STRING").',
    )
