"""Connectors as Kubernetes has them: Strimzi's KafkaConnector, Confluent's Connector, and lists of them. Pure.

Source: KafkaConnectorSpec (Strimzi 0.51), ConnectorSpec (Confluent for Kubernetes 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kconnect.errors import ConfigError, did_you_mean

CLUSTER: Final = "strimzi.io/cluster"
"""The label by which Strimzi knows the Connect cluster of a connector."""

# Kind, then field of `spec` -> setting beside the config; the fields that have the config
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "KafkaConnector": {
        "class": "connector.class",
        "tasksMax": "tasks.max",
        "version": "connector.plugin.version",
    },
    "Connector": {"class": "connector.class", "taskMax": "tasks.max"},
}
_CONFIGS: Final[Mapping[str, str]] = {"KafkaConnector": "config", "Connector": "configs"}
KINDS: Final = tuple(_CONFIGS)
"""The kinds that are connectors."""

_CLUSTERS: Final = ("KafkaConnect", "Connect")  # workers, whose kinds are spelled nearly so
# What else is read of `spec`, and what is only for the operator of the cluster
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "KafkaConnector": ("state", "pause", "autoRestart", "listOffsets", "alterOffsets"),
    "Connector": ("name", "connectorConfigs", "restartPolicy", "connectClusterRef", "connectRest"),
}


def is_resource(tree: Mapping[str, Any]) -> bool:
    """Whether this is an object of Kubernetes, of whatever kind, and no connector's own settings."""
    is_typed = isinstance(tree.get("kind"), str) and bool({"apiVersion", "metadata", "spec", "items"} & set(tree))
    return is_typed and "connector.class" not in tree and not isinstance(tree.get("config"), Mapping)


def connectors_in(where: str, tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The connectors of an object of Kubernetes, each as `name`, `config`, `initial_state` and `labels`.

    A list has those of its items; an object of a kind that is no connector has none, as kubectl's files hold all kinds.
    Errors: ConfigError, which names the object as `where` and its name.
    """
    kind, items = tree["kind"], tree.get("items")
    if isinstance(items, list):
        for item in items:
            if isinstance(item, Mapping) and is_resource(item):
                yield from connectors_in(where, item)
    elif kind in KINDS:
        yield _connector(where, kind, tree)
    elif kind not in _CLUSTERS and (meant := did_you_mean(kind, KINDS)) is not None:
        raise ConfigError(f"{where}: Unknown kind: {kind}", hint=meant)


def _connector(where: str, kind: str, tree: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = _mapping(where, tree, "metadata")
    where = f"{where}: {kind} {metadata.get('name')}"
    spec = _mapping(where, tree, "spec")
    inner = _mapping(where, spec, "connectorConfigs") if kind == "Connector" and "connectorConfigs" in spec else spec
    settings, configs = _SETTINGS[kind], _CONFIGS[kind]
    _refuse_misspelt(where, spec, (*settings, configs, *_OTHERS[kind]))
    config = dict(_mapping(where, inner, configs))
    for field, key in settings.items():
        value = inner.get(field)
        if value is None:
            continue
        if key in config and str(config[key]) != str(value):
            raise ConfigError(
                f"{where}: spec.{field} is {value}, {key} in spec.{configs} is {config[key]}.", hint="Keep one of them."
            )
        config[key] = value
    name = spec.get("name") if kind == "Connector" else None
    return {
        "name": metadata.get("name") if name is None else name,
        "config": config,
        "initial_state": _state(spec),
        "labels": _mapping(where, metadata, "labels"),
    }


def _state(spec: Mapping[str, Any]) -> Any:
    """`state`, or what `pause` said before there was one; None if neither says anything."""
    if spec.get("state") is not None:
        return spec["state"]
    return "PAUSED" if str(spec.get("pause")).lower() == "true" else None


def _mapping(where: str, tree: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = tree.get(field)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError(f"{where}: `{field}` is not a mapping.", hint="Indent its fields below it.")
    return found


def _refuse_misspelt(where: str, spec: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Errors: ConfigError for what Kubernetes would refuse and leave out. Other fields are for newer operators."""
    for field in spec:
        meant = None if field in known else did_you_mean(field, known)
        if meant is not None:
            raise ConfigError(f"{where}: Unknown field: spec.{field}", hint=meant)
