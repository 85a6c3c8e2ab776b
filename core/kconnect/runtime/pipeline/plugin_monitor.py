"""PluginMonitor: gives the plugins of one task what they add their metrics to (KIP-877)."""

from __future__ import annotations

from kconnect.api import Monitorable, PluginMetrics
from kconnect.model import TaskId
from kconnect.runtime.metrics import PluginMetricsRegistry
from kconnect.runtime.pipeline.plugin_call import plugin_call


class PluginMonitor:
    """The metrics of one task and its plugins, with Java's tags. Source: ConnectMetrics (Kafka 4.3)."""

    def __init__(self, task_id: TaskId) -> None:
        self.registry = PluginMetricsRegistry()
        self._tags = {"connector": task_id.connector, "task": str(task_id.task)}
        self.of_task: PluginMetrics = self.registry.of_plugin(**self._tags)

    def attach(self, plugin: object, **tags: str) -> None:
        """Give a Monitorable plugin its metrics, with the tags of the task and these. Errors: what it raises."""
        self._attach(plugin, {**self._tags, **tags})

    def attach_to_client(self, plugin: object, client_id: str, key: str) -> None:
        """Works as attach, for a plugin of a Kafka client, which the setting `key` names.

        Source: Plugin#wrapInstance.
        """
        self._attach(plugin, {"client-id": client_id, "config": key, "class": type(plugin).__name__})

    def _attach(self, plugin: object, tags: dict[str, str]) -> None:
        if isinstance(plugin, Monitorable):
            with plugin_call(plugin, "with_plugin_metrics"):
                plugin.with_plugin_metrics(self.registry.of_plugin(**tags))
