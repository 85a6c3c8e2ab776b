"""The settings of a task's health: its connector's where it has them, else its worker's."""

from __future__ import annotations

import logging

from kconnect.api.configdef import parse_type
from kconnect.config.worker_config import KCONNECT_CONFIG, STANDALONE_CONFIG
from kconnect.errors import ConfigError
from kconnect.model import TaskSpec
from kconnect.pipeline.health import HealthSettings

__all__ = ["health_settings"]

log = logging.getLogger(__name__)


def health_settings(spec: TaskSpec) -> HealthSettings:
    """When the task counts as stuck, as lagging, as late with a commit.

    A value of the connector that is no number is told and left out: a task does not fail over how it is watched.
    """
    return HealthSettings(
        stuck_after_s=_seconds(spec, "kconnect.task.stuck.after.ms"),
        lagging_after_s=_seconds(spec, "kconnect.task.lagging.after.ms"),
        commit_late_after_s=_seconds(spec, "offset.flush.timeout.ms", is_connectors=False),
    )


def _seconds(spec: TaskSpec, name: str, *, is_connectors: bool = True) -> float:
    table = KCONNECT_CONFIG if name in KCONNECT_CONFIG.config_keys else STANDALONE_CONFIG
    key = table.config_keys[name]
    sources = [spec.connector_config, spec.worker_config] if is_connectors else [spec.worker_config]
    for config in sources:
        if name in config:
            try:
                value = parse_type(name, config[name], key.type)
                if key.validator is not None:
                    key.validator.ensure_valid(name, value)
                return float(value) / 1000
            except ConfigError as error:
                log.warning("%s; it has no effect on task %s", error, spec.id)
    return float(key.default) / 1000
