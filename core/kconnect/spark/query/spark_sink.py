"""SparkSink: writes topics in any format that Spark can write, by a query of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, SinkConnector, SinkRecord, SinkTask
from kconnect.errors import ConnectError
from kconnect.model import CONNECT_VERSION
from kconnect.spark.query.marks import query_task
from kconnect.spark.query.sink_settings import SINK_QUERY_CONFIG

if TYPE_CHECKING:
    from kconnect.api import RecordBatch
    from kconnect.api.config_key import Config


class SparkSinkConnector(SinkConnector):
    """One task, whatever tasks.max says: Spark divides its work. Nothing like it is in Java."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        SINK_QUERY_CONFIG.parse(props)
        self._props = props

    def task_class(self) -> type[SinkTask]:
        return SparkSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [query_task(self._props, max_tasks)]

    def stop(self) -> None:
        """Nothing runs besides the task."""

    def config(self) -> ConfigDef:
        return SINK_QUERY_CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        from kconnect.spark.query.checks import check_sink

        return check_sink(configs, super().validate(configs))

    def version(self) -> str:
        return CONNECT_VERSION

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[Any, int | None]) -> bool:
        """Any offset is valid: the query begins there."""
        return True


class SparkSinkTask(SinkTask):
    """Stands for the query where a task class is asked for; the query itself is run by kconnect.spark.query."""

    supports_batches = True

    def version(self) -> str:
        return CONNECT_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        raise ConnectError(
            "SparkSink runs as a query of Spark, in a worker of kconnect: this process has no Spark to run it in"
        )

    def put(self, records: list[SinkRecord]) -> None:
        """Never called."""

    def put_batch(self, batch: RecordBatch) -> None:
        """Never called."""

    def stop(self) -> None:
        """Nothing was started."""
