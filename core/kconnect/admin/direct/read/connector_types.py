"""Whether a connector is a source or a sink, judged by its settings: the topics do not say. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.model import ConnectorType

# Sources that have a setting `topics`
_SOURCES = frozenset({"MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat"})


def connector_type(config: Mapping[str, str]) -> ConnectorType:
    """By the name of the class where it ends as most do (`..SourceConnector`, `..Sink`), else by `topics`.

    A sink must have `topics` or `topics.regex`; sources rarely have a setting of such a name.
    """
    name = (config.get("connector.class") or "").rpartition(".")[2].removesuffix("Connector")
    if name.endswith("Source") or name in _SOURCES:
        return ConnectorType.SOURCE
    if name.endswith("Sink") or config.get("topics") or config.get("topics.regex"):
        return ConnectorType.SINK
    return ConnectorType.SOURCE if name else ConnectorType.UNKNOWN
