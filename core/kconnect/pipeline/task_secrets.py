"""The configs of a task with their references resolved, in the slot where it runs; and what must not be shown of them.

Source: Worker.startTask, ClusterConfigState.taskConfig (Kafka 4.3), which resolve just before a task starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kconnect import redaction
from kconnect.config.variables import Variables, secret_values
from kconnect.model import TaskSpec

if TYPE_CHECKING:
    from kconnect.plugins import PluginRegistry

__all__ = ["resolved_spec"]


def resolved_spec(spec: TaskSpec, plugins: PluginRegistry) -> TaskSpec:
    """The same task with plain configs; from now on this process hides their secrets in logs and traces.

    Errors: ConfigError that names the reference, the connector or worker, and what to do.
    """
    variables = Variables.of_worker(spec.worker_config)
    try:
        worker = variables.resolve(spec.worker_config, "the worker")
        connector = variables.resolve(spec.connector_config, f"connector {spec.id.connector}")
        task = variables.resolve(spec.task_config, f"task {spec.id}")
    finally:
        variables.close()
    passwords = plugins.password_keys(connector.values)
    redaction.remember(
        f"task {spec.id}",
        {
            *secret_values(worker.values),
            *secret_values(connector.values, passwords),
            *secret_values(task.values, passwords),
            *(value for resolved in (worker, connector, task) for value in resolved.references),
        },
    )
    return replace(spec, worker_config=worker.values, connector_config=connector.values, task_config=task.values)
