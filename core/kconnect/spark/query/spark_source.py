"""SparkSource: reads any format that Spark can read into a topic, by a query of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, DataError, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask
from kconnect.errors import ConnectError
from kconnect.model import CONNECT_VERSION
from kconnect.spark.query.marks import query_task
from kconnect.spark.query.source_positions import RowPosition
from kconnect.spark.query.source_settings import SOURCE_QUERY_CONFIG

if TYPE_CHECKING:
    from kconnect.api import RecordBatch
    from kconnect.api.config_key import Config


class SparkSourceConnector(SourceConnector):
    """One task, whatever tasks.max says: Spark divides its work. Nothing like it is in Java."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        SOURCE_QUERY_CONFIG.parse(props)
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return SparkSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [query_task(self._props, max_tasks)]

    def stop(self) -> None:
        """Nothing runs besides the task."""

    def config(self) -> ConfigDef:
        return SOURCE_QUERY_CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        from kconnect.spark.query.checks import check_source

        return check_source(configs, super().validate(configs))

    def version(self) -> str:
        return CONNECT_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Checks that a position can be read; which offsets a format has, only Spark knows."""
        for partition, offset in offsets:
            if offset is not None and "files" not in partition:
                try:
                    RowPosition.of(offset)
                except ValueError as error:
                    raise DataError(f"The offset of a query cannot be {dict(offset)}: {error}") from error
        return True


class SparkSourceTask(SourceTask):
    """Stands for the query where a task class is asked for; the query itself is run by kconnect.spark.query."""

    def version(self) -> str:
        return CONNECT_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        raise ConnectError(
            "SparkSource runs as a query of Spark, in a worker of kconnect: this process has no Spark to run it in"
        )

    def poll(self) -> list[SourceRecord] | RecordBatch | None:
        """Never called."""
        return None

    def stop(self) -> None:
        """Nothing was started."""
