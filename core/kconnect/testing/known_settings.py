"""Names of all settings that a connector's config may have: what the worker's validation lists, for `connect try`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kconnect.api import SourceConnector
from kconnect.runtime.config.connector_keys import DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.config.own_worker_keys import OWN_OF_CONNECTORS
from kconnect.runtime.herder.validation.plugin_keys import enriched, instance_of
from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)


def known_settings(
    config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginRegistry, own: Collection[str]
) -> Collection[str]:
    """Connect's own, those of the plugins that the config names, and `own`, the connector's.

    Every name of the config where a plugin cannot tell its settings: what is wrong with it shows when it is made.
    """
    is_source = issubclass(plugins.connector_class(config["connector.class"]), SourceConnector)
    try:
        table = enriched(SOURCE_CONFIG if is_source else SINK_CONFIG, config, plugins, worker)
        return {*OWN_OF_CONNECTORS, *DEAD_LETTER_KEYS, *own, *table.config_keys, *_of_converters(config, plugins)}
    except Exception:  # whatever a plugin raises from its constructor or config()
        log.debug("Settings cannot be checked for spelling", exc_info=True)
        return config.keys()


def _of_converters(config: Mapping[str, str], plugins: PluginRegistry) -> set[str]:
    finders = {
        "key.converter": plugins.converter,
        "value.converter": plugins.converter,
        "header.converter": plugins.header_converter,
    }
    found = set()
    for key, find in finders.items():
        if key in config:
            found |= {f"{key}.{name}" for name in instance_of(find(config[key])).config().config_keys}
    return found
