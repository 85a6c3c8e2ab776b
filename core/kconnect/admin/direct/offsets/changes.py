"""Alters and resets the offsets of one connector on the topics: the plans, and carrying them out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.edit.apply import Applied, Checked, apply_in_order, check_plan
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.admin.direct.offsets.plans import fencing_plan, reset_plans, sink_plans, source_plans
from kconnect.admin.direct.read.connector_offsets import GroupNow, read_offsets_now, resolved_config
from kconnect.errors import BadRequestError, ConfigError, ConnectError, DataError
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType
from kconnect.runtime.herder.connectors.runner import call_once
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.log_ranges import not_in_log
from kconnect.runtime.herder.offsets.offsets_admin import STARTS_OVER, parse_sink_offsets

log = logging.getLogger(__name__)

# As a REST request of Java's may take
_HOOK_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class PlanSequence:
    """Plans for one connector, in order: of its offsets, and for a new one of its config at last.

    `hook` asks the connector's plugin, which may refuse, or change positions that it keeps elsewhere; None when it is
    not installed here. `zombies`: producers of how many tasks are fenced before anything is written.
    """

    connector: str
    plans: tuple[EditPlan, ...]
    zombies: int = 0
    hook: Callable[[], None] | None = None

    @property
    def is_empty(self) -> bool:
        return not self.plans

    def check(self, client: DirectClient, *, force: bool) -> Checked:
        """Errors: as `check_plan`."""
        return Checked.all_of(check_plan(client.access, client.reader, plan, force=force) for plan in self.plans)

    def apply(self, client: DirectClient, *, force: bool) -> list[Applied]:
        """Errors: as `apply_in_order`, and BadRequestError, ConnectError of the plugin: then nothing is written."""
        prepare = partial(self._prepare, client.access)
        done = apply_in_order(client.access, client.reader, self.plans, force=force, before=prepare)
        client.forget()
        return done

    def _prepare(self, access: ClusterAccess) -> None:
        if self.hook is not None:
            self.hook()
        self.fence(access)

    def fence(self, access: ClusterAccess) -> None:
        """Fence out producers of the tasks that may still be running. Errors: ConnectError.

        Source: KIP-618.
        """
        from kconnect.runtime.kafka.atomic_writers import KafkaExclusiveWriter

        for task in range(self.zombies):
            config, topic = access.clients(InternalTopic.OFFSET).producer, access.topic(InternalTopic.OFFSET)
            transactional_id = f"{access.group_id}-{self.connector}-{task}"
            log.info("Fencing producer %s", transactional_id)
            writer = KafkaExclusiveWriter(topic, config, transactional_id, timeout_setting="--timeout")
            try:
                writer.claim(access.timeout_s)
            finally:
                writer.stop()


def plan_offsets(
    client: DirectClient, name: str, wanted: Sequence[ConnectorOffset] | None, *, force: bool = False
) -> PlanSequence:
    """Set these offsets (None: reset that partition), or with `wanted` None forget all of them.

    Errors: NotFoundError, BadRequestError, ConflictError as the plans; ConnectError of the reading.
    """
    info = client.connector(name)
    is_sink = info.type is ConnectorType.SINK
    partitions = [at for at in parse_sink_offsets(wanted) if at.partition >= 0] if wanted and is_sink else []
    now = read_offsets_now(client.access, client.reader, info, partitions=partitions)
    if wanted is None:
        plans = reset_plans(client.access, now, name)
    elif isinstance(now, GroupNow):
        plans = sink_plans(now, name, wanted, force=force)
    else:
        plans = source_plans(client.access, now, wanted, force=force)
    if wanted is None:
        wanted = [ConnectorOffset(item.partition, None) for item in now.listed()]
    hook = plugin_hook(client, info, wanted)
    fencing = None
    if plans and client.access.is_exactly_once and not isinstance(now, GroupNow):
        fencing = fencing_plan(name, client.configs.snapshot, client.configs.latest.get)
    if fencing is None:
        return PlanSequence(name, tuple(plans), hook=hook)
    return PlanSequence(name, (fencing[0], *plans), fencing[1], hook)


def plugin_hook(
    client: DirectClient, info: ConnectorInfo, wanted: Sequence[ConnectorOffset]
) -> Callable[[], None] | None:
    """`alter_offsets` of the plugin, as `OffsetsAdmin` calls it; None when the plugin is not installed here."""
    plugin: Any = client.connector_class(info.config.get("connector.class") or "")
    if plugin is None:
        return None

    def ask() -> None:
        config = dict(resolved_config(client.access, info, is_whole=True))
        pairs: Any = [(dict(item.partition), None if item.offset is None else dict(item.offset)) for item in wanted]
        if info.type is ConnectorType.SINK:
            pairs = parse_sink_offsets(wanted)
        what = f"alter_offsets of connector {info.name}"
        try:
            call_once(info.name, what, lambda: plugin().alter_offsets(config, pairs), _HOOK_TIMEOUT_S)
        except (DataError, ConfigError) as err:
            raise BadRequestError(f"Connector {info.name} refuses these offsets: {err}", hint=err.hint) from err
        except ConnectError:
            raise
        except Exception as err:  # a plugin call
            raise ConnectError(f"Failed to modify offsets for {info.type} connector {info.name}: {err!r}") from err

    return ask


def check_readable(
    access: ClusterAccess, info: ConnectorInfo, wanted: Sequence[ConnectorOffset], cluster_id: str | None
) -> str | None:
    """Returns None when all of them can be read, else why that was not checked: the brokers are not those of
    `cluster_id`.

    Errors: BadRequestError for offsets at which nothing can be read; ConnectError when the brokers do not tell.
    """
    from kconnect.runtime.kafka.admin import cluster_id as id_of

    found = id_of(access.clients().admin, access.timeout_s)
    if cluster_id is not None and found != cluster_id:
        return f"{access.bootstrap_servers} is another Kafka cluster ({found}) than the worker's ({cluster_id})"
    offsets = parse_sink_offsets(wanted)
    partitions = [at for at, offset in offsets.items() if offset is not None]
    with kafka_group_offsets(access.worker, access.timeout_s, timeout_setting="--timeout")(
        resolved_config(access, info)
    ) as groups:
        problems = not_in_log(offsets, groups.log_ranges(partitions))
    if problems:
        raise BadRequestError(
            f"Connector {info.name}: {'; '.join(problems)}", hint=f"{STARTS_OVER} --force writes it all the same."
        )
    return None
