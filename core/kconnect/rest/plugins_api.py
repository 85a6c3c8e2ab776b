"""`/connector-plugins`. Source: ConnectorPluginsResource."""

from __future__ import annotations

from typing import Any

from kconnect.herder.interface import PluginDescription
from kconnect.rest.exchange import Answer, Call, Endpoint
from kconnect.rest.operation import Operation, Query, array_of, boolean, ref

__all__ = ["ENDPOINTS"]


def list_plugins(call: Call) -> Answer:
    connectors_only = call.flag("connectorsOnly", default=True)
    return Answer([_to_json(plugin) for plugin in call.herder.connector_plugins(connectors_only)])


def _to_json(plugin: PluginDescription) -> dict[str, Any]:
    body: dict[str, Any] = {"class": plugin.class_name, "type": plugin.type}
    if plugin.version not in (None, "undefined"):  # Java leaves out what it does not know
        body["version"] = plugin.version
    return body


ENDPOINTS = (
    Endpoint(
        "/connector-plugins",
        {
            "GET": Operation(
                list_plugins,
                "Plugins of the worker",
                {200: array_of(ref("Plugin"))},
                query=(Query("connectorsOnly", "Whether to leave out all but connectors; true if absent", boolean),),
            )
        },
    ),
)
