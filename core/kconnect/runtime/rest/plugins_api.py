"""`/connector-plugins`. Source: ConnectorPluginsResource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kconnect.errors import BadRequestError
from kconnect.runtime.herder.interface import PluginDescription, Plugins
from kconnect.runtime.herder.validation.config_infos import key_info
from kconnect.runtime.rest.access.needs import CREATES, NOTHING
from kconnect.runtime.rest.config_body import CONFIG, as_texts
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, integer, object_of, ref, text


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_INCLUDED: Final = "classpath"
_MAYBE: Schema = {"type": ["string", "null"]}

_KEY: Schema = object_of(
    {
        **dict.fromkeys(("name", "type", "importance", "documentation", "width", "display_name"), text),
        **dict.fromkeys(("default_value", "group"), _MAYBE),
        "required": boolean,
        "order_in_group": integer,
        "dependents": array_of(text),
    }
)
_VALUE: Schema = object_of(
    {
        "name": text,
        "value": _MAYBE,
        "recommended_values": array_of(_MAYBE),
        "errors": array_of(text),
        "visible": boolean,
    }
)
_REPORT: Schema = object_of(
    {
        "name": text,
        "error_count": integer,
        "groups": array_of(text),
        "configs": array_of(object_of({"definition": _or_null(_KEY), "value": _or_null(_VALUE)})),
    }
)


def list_plugins(call: Call[Plugins]) -> Answer:
    """Java's fields, and with `locations`, which Java ignores, where each plugin is."""
    connectors_only = call.flag("connectorsOnly", default=True)
    plugins = call.herder.connector_plugins(connectors_only)
    if call.flag("locations", default=False):
        return Answer([{**_to_json(plugin), **place_of(plugin, plugins)} for plugin in plugins])
    return Answer([_to_json(plugin) for plugin in plugins])


def place_of(plugin: PluginDescription, every: Sequence[PluginDescription]) -> dict[str, str]:
    """Where it is, and of a vendor's class that has the name of an included one the name that means it."""
    found = {"location": plugin.location}
    same = (plugin.class_name, plugin.type, _INCLUDED)
    if plugin.location != _INCLUDED and any((one.class_name, one.type, one.location) == same for one in every):
        found["named"] = f"java:{plugin.class_name}"
    return found


def show_config(call: Call[Plugins]) -> Answer:
    """The settings of one plugin of any type; `version` is one, or a range of them, that it must have."""
    versions = call.query_values("version")
    keys = call.herder.plugin_config(call.path["plugin"], versions[0] if versions else None)
    return Answer([key_info(key) for key in keys])


def validate(call: Call[Plugins]) -> Answer:
    """What is wrong with a connector's config, setting by setting; creates nothing.

    Differs: without `connector.class`, or with one that does not exist, Java answers 500.
    """
    config = as_texts(call.json_object(CONFIG, texts=True))
    call.require(CREATES, config.get("name") or None)
    given_texts = {key: value for key, value in config.items() if value is not None}
    call.require_config(given_texts, config.get("name") or None)
    plugin, given = call.path["plugin"], config.get("connector.class")
    if given is not None and not _stem(given).endswith(_stem(plugin)):
        raise BadRequestError(f"Included connector type {given} does not match request type {plugin}")
    return Answer(call.herder.validate_config(config).to_json())


def _stem(name: str) -> str:
    """A class name or alias without `Connector` at its end."""
    return name.removesuffix("Connector") or name


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
                query=(
                    Query("connectorsOnly", "Whether to leave out all but connectors; true if absent", boolean),
                    Query(
                        "locations",
                        "Whether to add where each is, and java:CLASS for twins; false if absent",
                        boolean,
                    ),
                ),
                needs=NOTHING,
            )
        },
        awaits_start=False,
    ),
    Endpoint(
        "/connector-plugins/{plugin}/config",
        {
            "GET": Operation(
                show_config,
                "Settings of a plugin of any type",
                {200: array_of(_KEY)},
                query=(Query("version", "Version, or range of versions, that the plugin must have"),),
                needs=NOTHING,
            )
        },
        awaits_start=False,
    ),
    Endpoint(
        "/connector-plugins/{plugin}/config/validate",
        {
            "PUT": Operation(
                validate,
                "What is wrong with the config of a connector, setting by setting",
                {200: _REPORT},
                body={"type": "object", "additionalProperties": _MAYBE},
                needs=CREATES,
                changes=False,
            )
        },
        awaits_start=False,
    ),
)
