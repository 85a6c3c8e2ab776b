"""The REST server over the real standalone herder; only tasks, consumer groups and the network of Kafka are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.standalone.herder import StandaloneHerder
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.plugin_config import plugin_config_keys
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest import RestServer
from kconnect.runtime.rest.late_console import MakeConsole
from kconnect.runtime.storage import MemoryOffsetStore
from kit.herders import MemoryGroups
from kit.memory_launcher import MemoryLauncher

__all__ = ["rest_worker"]

SETTINGS = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


@contextmanager
def rest_worker(console: MakeConsole | None = None) -> Iterator[RestServer]:
    """A server that is ready, with nothing in it; with a console if it is given one."""
    groups, launcher, plugins = MemoryGroups(), MemoryLauncher(), PluginRegistry.load()

    @contextmanager
    def group_offsets(_: object) -> Iterator[MemoryGroups]:
        yield groups

    herder = StandaloneHerder(
        HerderParts(
            worker_config=SETTINGS,
            plugins=plugins,
            launcher=launcher,
            offsets=MemoryOffsetStore(),
            groups=group_offsets,
            validate=ConnectorValidator(plugins, SETTINGS).raise_if_invalid,
            explain=ConnectorValidator(plugins, SETTINGS).validate,
            plugin_config=partial(plugin_config_keys, plugins),
        )
    )
    launcher.start(herder.events)
    herder.start("127.0.0.1:8083", "cluster")
    try:
        herder.ready()
        with RestServer(herder, ["http://127.0.0.1:0"], console=console) as server:
            yield server
    finally:
        herder.stop(5)
        launcher.stop(1)
