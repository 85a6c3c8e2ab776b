"""Whether the offsets that a worker is to give a sink can be read, asked of the brokers beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from kconnect.direct.access import ClusterAccess
from kconnect.direct.offsets.plans import resolved_config
from kconnect.errors import BadRequestError
from kconnect.herder.offsets.admin import STARTS_OVER, parse_sink_offsets
from kconnect.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.herder.offsets.log_ranges import not_in_log
from kconnect.model import ConnectorInfo, ConnectorOffset

__all__ = ["check_readable"]


def check_readable(
    access: ClusterAccess, info: ConnectorInfo, wanted: Sequence[ConnectorOffset], cluster_id: str | None
) -> str | None:
    """None when all of them can be read; why that was not looked at, where the brokers are not those of `cluster_id`.

    Errors: BadRequestError for offsets at which nothing can be read; ConnectError when the brokers do not tell.
    """
    from kconnect.kafka.admin import cluster_id as id_of

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
