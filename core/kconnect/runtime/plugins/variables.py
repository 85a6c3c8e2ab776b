"""The config providers of a worker, those of Java among them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kconnect.api import ConfigProvider
from kconnect.java.plugins import JavaSettings
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.plugins.registry import PluginRegistry


def worker_variables(worker: Mapping[str, str], plugins: PluginRegistry | None = None) -> Variables:
    """The configured providers in `config.providers`; a Java class is looked for in plugin.path.

    `plugins`: whose JVM a Java class gets; without it one of its own, until this process ends.
    Errors: ConfigError naming the provider.
    """

    @cache
    def registry() -> PluginRegistry:
        java = JavaSettings.of(worker)
        return plugins or PluginRegistry.load(worker.get("plugin.path"), tells_skipped=False, java=java)

    def java(name: str) -> type[ConfigProvider] | None:
        return registry().java_class(name, ConfigProvider)  # type: ignore[type-abstract]  # looks for a subclass

    return Variables.of_worker(worker, java)
