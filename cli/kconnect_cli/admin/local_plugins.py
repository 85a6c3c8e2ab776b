"""Plugins that are installed beside the command, for when no worker answers: in the shape of a worker's answers."""

from __future__ import annotations

from typing import Any

from kconnect.plugins import PluginRegistry

__all__ = ["local_plugins", "local_settings"]


def local_plugins() -> list[dict[str, Any]]:
    """As `ConnectClient.plugins`, of all types."""
    rows = []
    for info in PluginRegistry.load(tells_skipped=False).describe():
        row = {"class": info.class_name, "type": str(info.type)}
        rows.append(row if info.version in (None, "undefined") else row | {"version": info.version})
    return rows


def local_settings(plugin: str, version: str | None) -> list[dict[str, Any]]:
    """As `ConnectClient.plugin_config`. Errors: NotFoundError, BadRequestError for a version that is not here."""
    from kconnect.herder.validation.config_infos import key_info
    from kconnect.herder.validation.plugin_config import plugin_config_keys

    keys = plugin_config_keys(PluginRegistry.load(tells_skipped=False), plugin, version)
    return [key_info(key) for key in keys]
