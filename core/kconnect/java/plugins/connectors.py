"""Java's connectors as connectors of ours."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kconnect.api import Config, ConfigDef, ConnectorContext, SinkConnector, SourceConnector
from kconnect.api.connector import ConnectorTransactionBoundaries, ExactlyOnceSupport, SourceConnectorContext
from kconnect.errors import BadRequestError, ConnectError
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.definitions import config_values
from kconnect.java.plugins.descriptions import describe, settings_of, version_of
from kconnect.java.plugins.hosting import Hosted, java_class
from kconnect.java.plugins.java_error import JavaHostDiedError, JavaPluginError, java_error
from kconnect.java.plugins.jvm import DIED
from kconnect.java.plugins.plugin_metrics import MBEANS, METRICS, JavaMetrics
from kconnect.java.plugins.sink_task import JavaSinkTask
from kconnect.java.plugins.source_task import JavaSourceTask
from kconnect.model import TopicPartition

log = logging.getLogger(__name__)


class JavaConnector(Hosted):
    """What source and sink connectors share. An object in Java is made for each question until the first start."""

    context: ConnectorContext
    _task: type[Hosted]

    def __init__(self) -> None:
        self._java: JavaConnection | None = None
        self._task_configs: Sequence[Mapping[str, str]] | None = None
        self._metrics: JavaMetrics | None = None

    def initialize(self, context: ConnectorContext, task_configs: Sequence[Mapping[str, str]] | None = None) -> None:
        self.context = context
        self._task_configs = task_configs

    def start(self, props: Mapping[str, str]) -> None:
        if self._java is None:
            self._metrics = JavaMetrics(self.context.plugin_metrics())
            self._java = self.connect(
                "connector", answer=self._answer, event=self._event, thread=f"connector-thread-{props.get('name', '')}"
            )
            configs = None if not self._task_configs else [dict(config) for config in self._task_configs]
            self._java.call("initialize", task_configs=configs, tags=self._metrics.tags)
        self._java.call("start", config=dict(props))

    def stop(self) -> None:
        # The host keeps what answers an open connection; a resume makes a new object in Java
        java, self._java = self._java, None
        if java is not None:
            try:
                java.call("stop")
            except JavaHostDiedError as err:
                log.info("%s: its JVM is gone, so there is nothing to stop: %s", self.java_class, err)
            finally:
                java.close()
                if self._metrics is not None:
                    self._metrics.close()

    def task_class(self) -> type[Any]:
        name = self._ask(lambda java: java.call("task_class"))
        return self.task_named(str(name))

    def task_named(self, name: str) -> type[Any]:
        """The task's class, by the name that a started connector gave: others may not know it."""
        return java_class(name, self.folder, self._task, self.host)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self._ask(lambda java: java.call("task_configs", most=max_tasks))
        return found

    def validate(self, configs: Mapping[str, str]) -> Config:
        reported = self._ask(lambda java: java.call("validate", config=dict(configs)))
        if reported is None:
            raise BadRequestError(f"{self.java_class}.validate() must return a Config that is not null.")
        return Config(config_values(reported, self.config()))

    def config(self) -> ConfigDef:
        if describe(type(self))["config"] is None:
            raise BadRequestError(f"{self.java_class}.config() must return a ConfigDef that is not null.")
        return settings_of(type(self))

    def version(self) -> str:
        return version_of(type(self))

    def _ask(self, question: Callable[[JavaConnection], Any]) -> Any:
        if self._java is not None:
            return question(self._java)
        with contextlib.closing(self.connect("connector")) as java:
            return question(java)

    def _alter(self, config: Mapping[str, str], offsets: list[list[Any]]) -> bool:
        """Source: Worker.modifyConnectorOffsets (Kafka 4.3). Errors: NotImplementedError where it is not supported."""
        try:
            return bool(self._ask(lambda java: java.call("alter_offsets", config=dict(config), offsets=offsets)))
        except JavaPluginError as err:
            if err.java_class != "java.lang.UnsupportedOperationException":
                raise
            raise NotImplementedError(str(err)) from err

    def _answer(self, what: str, arguments: Any) -> Any:
        if what != "raise":
            raise ConnectError(f"A connector does not answer {what}")
        self._raised(arguments)  # in the midst of a call, whose end comes after it

    def _event(self, what: str, arguments: Any) -> None:
        if what in (METRICS, MBEANS):
            if self._metrics is not None:
                self._metrics.reported(what, arguments)
        elif what == "reconfigure":
            self.context.request_task_reconfiguration()
        elif what == "raise":
            self._raised(arguments)
        elif what == DIED:
            self.context.raise_error(arguments)  # its threads are gone, as that which looks for new tables

    def _raised(self, reported: Mapping[str, Any]) -> None:
        self.context.raise_error(java_error(reported, self.folder))


class JavaSourceConnector(JavaConnector, SourceConnector):
    """Runs o.a.k.connect.source.SourceConnector in the host JVM."""

    context: SourceConnectorContext
    _task = JavaSourceTask

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        reported = self._ask(lambda java: java.call("exactly_once", config=dict(config)))
        return None if reported is None else ExactlyOnceSupport[reported]

    def can_define_transaction_boundaries(  # type: ignore[override]  # null, of which who asks makes a sentence
        self, config: Mapping[str, str]
    ) -> ConnectorTransactionBoundaries | None:
        reported = self._ask(lambda java: java.call("boundaries", config=dict(config)))
        return None if reported is None else ConnectorTransactionBoundaries[reported]

    def alter_offsets(
        self, config: Mapping[str, str], offsets: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        pairs = [[dict(partition), None if offset is None else dict(offset)] for partition, offset in offsets]
        return self._alter(config, pairs)

    def _answer(self, what: str, arguments: Any) -> Any:
        if what == "offsets":
            return self.context.offset_storage_reader().offsets(arguments)
        return super()._answer(what, arguments)


class JavaSinkConnector(JavaConnector, SinkConnector):
    """Runs o.a.k.connect.sink.SinkConnector in the host JVM."""

    _task = JavaSinkTask

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[TopicPartition, int | None]) -> bool:
        triples = [[place.topic, place.partition, offset] for place, offset in offsets.items()]
        return self._alter(config, triples)
