"""PluginValue: a metric of a plugin with its value, as it goes from the process of the plugin to the worker."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

from kconnect.api.plugin_metrics import MetricValue


class PluginValue(NamedTuple):
    """A metric of a plugin and its value at one moment."""

    name: str
    description: str
    tags: tuple[tuple[str, str], ...]
    value: MetricValue
    group: str = "plugins"
    """`mbeans`: its name is Prometheus' already."""

    def to_json(self) -> list[Any]:
        value: Any = self.value
        if isinstance(value, float) and not math.isfinite(value):
            value = {"float": repr(value)}  # JSON has none of these
        return [self.name, self.description, [list(tag) for tag in self.tags], value, self.group]

    @classmethod
    def from_json(cls, body: Any) -> Self:  # any JSON
        """Errors: TypeError, ValueError, KeyError for anything not written by `to_json`."""
        name, description, tags, value, group = body
        if isinstance(value, dict):
            value = float(value["float"])
        if not isinstance(value, float | int | str):
            raise TypeError(f"{name} has a value of type {type(value).__name__}")
        return cls(str(name), str(description), tuple((str(tag), str(text)) for tag, text in tags), value, str(group))
