"""Connectors: the class named in `connector.class`, which checks settings and splits the work into tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from kconnect.api.task import OffsetStorageReader, SinkTask, SourceTask, Task
from kconnect.errors import ConnectError
from kconnect.model import TopicPartition

if TYPE_CHECKING:
    from kconnect.api.config_key import Config
    from kconnect.api.configdef import ConfigDef
    from kconnect.api.plugin_metrics import PluginMetrics

T = TypeVar("T")


class ExactlyOnceSupport(Enum):
    """Whether a source can deliver each record exactly once with given settings. Source: ExactlyOnceSupport."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class ConnectorTransactionBoundaries(Enum):
    """Whether a source can end transactions itself with given settings. Source: ConnectorTransactionBoundaries."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class ConnectorContext(Protocol):
    """What the runtime offers a connector, as `self.context`. Safe from any thread. Source: ConnectorContext."""

    def request_task_reconfiguration(self) -> None:
        """Request that `task_configs` be called again because the work has changed (a new table). Does not block.

        Tasks whose configs stay the same keep running.
        """
        ...

    def raise_error(self, error: BaseException) -> None:
        """Fail the connector (not its tasks), from a thread of its own that found something wrong. Does not block."""
        ...

    def plugin_metrics(self) -> PluginMetrics:
        """Where the connector adds metrics of its own, with the tag `connector` (KIP-877)."""
        ...


class SourceConnectorContext(ConnectorContext, Protocol):
    """What the runtime offers a source connector. Source: SourceConnectorContext."""

    def offset_storage_reader(self) -> OffsetStorageReader:
        """A reader for this connector's committed offsets. It blocks on the offset store."""
        ...


class SinkConnectorContext(ConnectorContext, Protocol):
    """What the runtime offers a sink connector. Source: SinkConnectorContext."""


class Connector(ABC):
    """What source and sink connectors share. Extend `SourceConnector` or `SinkConnector`, not this.

    A connector moves no data: it lives in the worker, checks settings and decides how to split the work; its tasks move
    the data, elsewhere. The runtime creates it without arguments, then calls initialize, start, task_configs (again
    after each request_task_reconfiguration), stop. A pause stops it and a resume starts the same object again, so start
    must recreate what stop released. `validate` and `config` are called on an object that is never started.
    Threads: one call at a time, on the connector's own thread. Source: o.a.k.connect.connector.Connector.
    """

    context: ConnectorContext

    def initialize(self, context: ConnectorContext, task_configs: Sequence[Mapping[str, str]] | None = None) -> None:
        """Keep the context. Called once, on the connector's thread, before the first start.

        `task_configs` are those of an earlier run, if any.

        Rarely overridden; call super if so. Must not block. NOT called on objects that only validate.
        """
        self.context = context

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Keep the settings and start monitoring the source for changes.

        Called on the connector's thread, after initialize and again on the same object after each pause; `props` were
        validated. It may block, but the connector is not RUNNING before it returns, and FAILED if it does not within
        `kconnect.connector.start.timeout.ms`. An error fails the connector, and no tasks are started. NOT called while
        the connector should be paused or stopped.
        """

    def reconfigure(self, props: Mapping[str, str]) -> None:
        """Apply new settings while running; by default stop, then start with them.

        NOT called by this runtime, which creates a new connector when settings change.
        """
        self.stop()
        self.start(props)

    @abstractmethod
    def task_class(self) -> type[Task]:
        """The class of this connector's tasks. Called before each task_configs, on its thread. Must not block.

        Tasks are created in other processes: the class must be importable there, so not local to a function.
        """

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The settings of each task: zero to `max_tasks` dicts of str to str.

        Called on the connector's thread after each start and each request_task_reconfiguration; NOT while it is paused,
        stopped or FAILED. May block briefly to inspect the source. After a RetriableError it is called again later, and
        the tasks keep running. Any other error fails the connector, as do more configs than max_tasks
        (`tasks.max.enforce`).
        """

    @abstractmethod
    def stop(self) -> None:
        """Release all resources: threads, connections.

        Called on the connector's thread once for each start, even a failed one: for a pause, a stop, a change of
        settings or the end of the worker, before or after the tasks are asked to stop. Should return soon: a stop that
        blocks is abandoned after `task.shutdown.graceful.timeout.ms`. NOT called if the process dies.
        """

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Check settings; by default with `config()`. Override it for checks across settings, and call super first.

        Called on an object that is never initialized nor started, on a thread of its own, for each create, change and
        validate request, before anything is stored. May block briefly (to try a connection), which delays the request,
        for `kconnect.connector.start.timeout.ms` at most. `configs` have `${..}` resolved: keep them out of logs. Add
        problems to the error_messages of the ConfigValues; an exception becomes a server error.
        """
        from kconnect.api.config_key import Config

        definition = self.config()
        if definition is None:
            raise ConnectError(
                f"{_class_name(self)}.config() must return a ConfigDef that is not null.",
                hint="Return ConfigDef() when the connector has no settings of its own.",
            )
        return Config(definition.validate(configs))

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings of this connector, besides those that every connector has.

        Called at any time, on any thread, even on objects that are never started: must not depend on state or block.
        """

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists and statuses. Called as config is; must not block."""
        return "undefined"


class SourceConnector(Connector):
    """A connector that reads from a system into Kafka. Source: o.a.k.connect.source.SourceConnector."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]:
        """The class of this connector's tasks, a SourceTask. See `Connector.task_class`."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Whether records arrive exactly once with these settings; None if the connector does not say.

        Called on an object that only validates, by workers with exactly-once support enabled: NOT by a standalone
        worker. With `exactly.once.support=required` anything but SUPPORTED is refused. Must not block for long.
        """
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Whether `transaction.boundary=connector` works with these settings. Called as exactly_once_support is."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Hook: a user alters offsets; check them, and change positions that are kept outside Connect.

        Called on an object that was neither initialized nor started, on a thread of its own, once for each request to
        alter or reset, and only while the connector is STOPPED. `offsets` are pairs of source partition and new offset,
        None to reset. Return True if the offsets were checked or applied, and
        raise DataError to refuse them: the user gets its message with status 400. Any other error is a failure of the
        connector (500), and the offsets also stay unchanged. False means "not checked", and the user sees that.
        It must be safe to call twice with the same offsets. May block briefly.
        Differs: pairs in a list, where Java has a map from map to map.
        """
        return False

    def offsets_at(
        self,
        config: Mapping[str, str],
        offsets: list[tuple[Mapping[str, Any], Mapping[str, Any]]],
        time_ms: int,
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] | None:
        """Hook: the offsets from which everything from a time on (ms since 1970) is read; None if nobody can know.

        Called by `connect offsets move|reset --to-time`, on an object that was neither initialized nor started, where
        the command runs: NOT in the worker. `config` has its references unresolved. `offsets` are the committed pairs
        of source partition and offset; return pairs likewise, None as offset to start a partition from its beginning.
        Raise DataError to say why it cannot be done. May block briefly.
        Differs: Java has no such method.
        """
        return None


class SinkConnector(Connector):
    """A connector that writes from Kafka into a system. Source: o.a.k.connect.sink.SinkConnector."""

    TOPICS_CONFIG: ClassVar[str] = "topics"
    """Setting with the topics to read, comma-separated. Every sink has it or `topics.regex`."""

    @abstractmethod
    def task_class(self) -> type[SinkTask]:
        """The class of this connector's tasks, a SinkTask. See `Connector.task_class`."""

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[TopicPartition, int | None]) -> bool:
        """Hook: a user alters the consumer offsets; check them, and change positions that are kept outside Kafka.

        Called like `SourceConnector.alter_offsets`, and its result means the same. `offsets` hold the next offset to
        read by partition, None to reset.
        """
        return False


def _class_name(plugin: object) -> str:
    return f"{type(plugin).__module__}.{type(plugin).__qualname__}"


class ConnectorUtils:
    """Help for `task_configs`."""

    @staticmethod
    def group_partitions(elements: Sequence[T], num_groups: int) -> list[list[T]]:
        """Splits the elements, in order, into that many groups; the first ones may have one more than the others.

        For the partitions of a source: `group_partitions(tables, min(len(tables), max_tasks))`. With fewer elements
        than groups the last groups are empty. Errors: ValueError for fewer than one group.
        """
        if num_groups <= 0:
            raise ValueError("Number of groups must be positive.")
        size, left = divmod(len(elements), num_groups)
        ends = [group * size + min(group, left) for group in range(num_groups + 1)]
        return [list(elements[start:end]) for start, end in pairwise(ends)]
