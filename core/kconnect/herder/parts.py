"""What a standalone herder is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kconnect.herder.connector_plugins import ConnectorPlugins
from kconnect.herder.hosted_connector import PluginTimes
from kconnect.herder.interface import Launcher
from kconnect.herder.offsets_admin import GroupOffsetsFactory
from kconnect.storage import OffsetStore

__all__ = ["HerderParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderParts:
    """What a standalone herder works with."""

    worker_config: Mapping[str, str] = field(repr=False)
    """The raw worker properties, which tasks get as well."""
    plugins: ConnectorPlugins
    launcher: Launcher
    offsets: OffsetStore
    groups: GroupOffsetsFactory
    validate: Callable[[Mapping[str, str]], None]
    """Refuse a bad connector config with BadRequestError; asks the connector's own `validate` too."""
    times: PluginTimes = field(default_factory=PluginTimes)
