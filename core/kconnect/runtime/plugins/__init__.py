"""From a name in a config to a plugin class: Java names, aliases, entry points, Python classes, plugin.path folders.

Imported by pipeline (builds tasks), herder and worker (connectors, plugin lists). Imports api and errors; shipped
plugins are found by name, never imported here.
"""

from __future__ import annotations

from kconnect.runtime.plugins.aliases import PluginType
from kconnect.runtime.plugins.plugin_info import PluginInfo
from kconnect.runtime.plugins.registry import PluginRegistry
from kconnect.runtime.plugins.variables import worker_variables

__all__ = ["PluginInfo", "PluginRegistry", "PluginType", "worker_variables"]
