"""Where a source was at a time: said by its connector, if its class is installed here and supports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.offsets.sink_targets import Chosen, SinkTarget, sink_offsets_at
from kconnect.api import SourceConnector
from kconnect.errors import BadRequestError, ConfigError, ConnectError
from kconnect.model import AtTime, ConnectorInfo, ConnectorOffset, ConnectorType
from kconnect.runtime.plugins import PluginRegistry

_BY_FILE: Final = "connect offsets show NAME -o json > saved.json; edit it; connect offsets move NAME -f saved.json"


def offsets_at(
    access: ClusterAccess,
    info: ConnectorInfo,
    committed: Sequence[ConnectorOffset],
    target: SinkTarget,
    chosen: Chosen,
) -> list[ConnectorOffset]:
    """Where a sink's partitions are at a target, looked up at the brokers; a source's at a time, if it supports that.

    Errors: BadRequestError for another source; NotFoundError; ConnectError of the brokers.
    """
    if info.type is ConnectorType.SOURCE and isinstance(target, AtTime) and chosen == Chosen():
        return source_offsets_at(access.worker, info, committed, target.time_ms)
    return sink_offsets_at(access, info, target, chosen)


def source_offsets_at(
    worker: Mapping[str, str], info: ConnectorInfo, committed: Sequence[ConnectorOffset], time_ms: int
) -> list[ConnectorOffset]:
    """The offsets from which everything from a time on is read. `worker`: its properties, for `plugin.path`.

    Errors: BadRequestError for a connector that cannot say it, with why; ConnectError for one that fails.
    """
    hint = f"By hand: {_BY_FILE.replace('NAME', info.name)}."
    if not committed:
        raise BadRequestError(f"{info.name} has no committed offsets: it starts from the beginning anyway", hint=hint)
    named = info.config.get("connector.class", "")
    try:
        connector = PluginRegistry.load(worker.get("plugin.path"), tells_skipped=False).connector_class(named)()
    except ConfigError as err:
        raise BadRequestError(
            f"Only the connector itself knows where {info.name} was at a time, and {named} is not installed here",
            hint=hint,
        ) from err
    pairs = [(item.partition, item.offset) for item in committed if item.offset is not None]
    try:
        assert isinstance(connector, SourceConnector), "a source's offsets were asked for"
        found = connector.offsets_at(info.config, pairs, time_ms)
    except ConnectError as err:
        raise BadRequestError(f"{named} cannot say where {info.name} was then: {err}", hint=err.hint or hint) from err
    except Exception as err:  # a plugin call
        raise ConnectError(f"{named}.offsets_at() raised {type(err).__name__}: {err}", hint=hint) from err
    if found is None:
        when = datetime.fromtimestamp(time_ms / 1000, UTC)
        raise BadRequestError(
            f"{named} cannot say where it was at a time ({when:%Y-%m-%d %H:%M:%S} UTC): its offsets are not times",
            hint=hint,
        )
    return [ConnectorOffset(partition, offset) for partition, offset in found]
