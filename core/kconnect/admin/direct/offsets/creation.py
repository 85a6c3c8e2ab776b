"""Creates a connector on the topics: first the offsets that its tasks start at, then its config.

Source: KIP-995, with `"offsets"` as OffsetsAdmin.begin_with writes them; KafkaConfigBackingStore#putConnectorConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.edit.connector_plans import creation_plan, creation_requirements
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.admin.direct.offsets.changes import PlanSequence, plugin_hook
from kconnect.admin.direct.offsets.plans import resets_of_others, sink_plans, source_plans
from kconnect.admin.direct.read.connector_offsets import GroupNow, read_offsets_now
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType, TargetState
from kconnect.runtime.herder.decisions.connector_entry import require_offsets
from kconnect.runtime.herder.offsets.offsets_admin import parse_sink_offsets


@dataclass(frozen=True, slots=True)
class Creation:
    """What a new connector is given, in order; `unchecked` says why its settings were not checked, if they were not."""

    change: PlanSequence
    unchecked: str | None = None


def plan_creation(
    client: DirectClient,
    name: str,
    config: Mapping[str, str],
    target_state: TargetState | None = None,
    offsets: Sequence[ConnectorOffset] | None = None,
    *,
    force: bool = False,
) -> Creation:
    """`offsets`: where its tasks start; all others of its name, which a former connector left, are removed.

    Errors: AlreadyExistsError; BadRequestError for settings and offsets that a worker would refuse; ConflictError,
    NotFoundError of a sink's group and topics; ConnectError of the reading.
    """
    last = creation_plan(client.configs, name, config, target_state)
    plugin = config.get("connector.class") or ""
    unchecked = None
    if plugin and client.connector_class(plugin) is None:
        unchecked = f"{plugin} is not installed here, so the settings of {name} were not checked"
    else:
        client.raise_if_invalid(config)
    if offsets is None:
        return Creation(PlanSequence(name, (last,)), unchecked)
    plans, hook = _first_offsets(client, client.as_configured(name, config), offsets, force=force)
    return Creation(PlanSequence(name, (*plans, last), hook=hook), unchecked)


def _first_offsets(
    client: DirectClient, info: ConnectorInfo, offsets: Sequence[ConnectorOffset], *, force: bool
) -> tuple[list[EditPlan], Callable[[], None] | None]:
    """The plans for the offsets, and the connector's own word on them."""
    require_offsets(offsets)
    is_sink = info.type is ConnectorType.SINK
    partitions = [at for at in parse_sink_offsets(offsets) if at.partition >= 0] if is_sink else []
    now = read_offsets_now(client.access, client.reader, info, partitions=partitions)
    wanted = [*resets_of_others(now, offsets), *offsets]
    if isinstance(now, GroupNow):
        plans = sink_plans(now, info.name, wanted, force=force)
    else:
        plans = source_plans(client.access, now, wanted, force=True, verb="Set")
    needs = creation_requirements(info.name)
    return [replace(plan, requirements=needs) for plan in plans], plugin_hook(client, info, wanted)
