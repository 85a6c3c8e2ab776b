"""What a herder behind REST is made of in tests: real plugins, real validation; the rest as it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from kconnect.runtime.herder.interface import Launcher
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.plugin_config import plugin_config_keys
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.storage import OffsetStore
from kit.herders import MemoryGroups


def rest_parts(
    settings: Mapping[str, str],
    plugins: PluginRegistry,
    launcher: Launcher,
    offsets: OffsetStore,
    groups: MemoryGroups,
) -> HerderParts:
    """`settings` are the worker's."""

    @contextmanager
    def group_offsets(_: object) -> Iterator[MemoryGroups]:
        yield groups

    validator = ConnectorValidator(plugins, settings)
    return HerderParts(
        worker_config=settings,
        plugins=plugins,
        launcher=launcher,
        offsets=offsets,
        groups=group_offsets,
        validate=validator.raise_if_invalid,
        explain=validator.validate,
        plugin_config=partial(plugin_config_keys, plugins),
        tracks_topics=settings.get("topic.tracking.enable") != "false",
        allows_topics_reset=settings.get("topic.tracking.allow.reset") != "false",
    )
