"""EmptyOffsets: which of the last offsets of a partition hold no record, such as a transaction's marker.

A sink commits the offset behind its last record, and what follows it may never be one: markers of transactions, records
that were aborted or compacted away. Only reading tells.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kconnect.errors import ConnectError
from kconnect.model import PartitionLag, SinkLag, TopicPartition
from kconnect.runtime.config.client_config import consumer_config

if TYPE_CHECKING:
    from kconnect.runtime.kafka.range_consumer import RangeConsumer

log = logging.getLogger(__name__)

# More offsets than that are records for the most part, and reading them would cost more than the number is worth
_MOST: Final = 100
# All ranges of one look take no longer, and one of them no longer than this: a look goes to each sink in turn
_LOOK_S: Final = 1.0
_RANGE_S: Final = 0.5


class EmptyOffsets:
    """Counts records in the last offsets before the ends of partitions. Threads: one at a time.

    What was counted is kept until a partition's end or committed offset changes.
    """

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._worker = worker
        self._counted: dict[tuple[str, TopicPartition], tuple[int, int, int]] = {}  # from, end, records

    def without(self, lags: Mapping[str, SinkLag], sinks: Mapping[str, Mapping[str, str]]) -> dict[str, SinkLag]:
        """The lags with records alone where a sink is close to an end; `sinks` are their resolved configs.

        Errors: none; where nothing could be counted offsets stand for records, and the next look counts.
        """
        deadline_s = time.monotonic() + _LOOK_S
        for name, at in [key for key in self._counted if key[0] not in lags]:
            del self._counted[name, at]
        return {name: self._of_sink(name, lag, sinks[name], deadline_s) for name, lag in lags.items()}

    def _of_sink(self, name: str, lag: SinkLag, config: Mapping[str, str], deadline_s: float) -> SinkLag:
        near = [item for item in lag.partitions if 0 < item.lag <= _MOST]
        unknown = [item for item in near if not self._is_counted(name, item)]
        if unknown and time.monotonic() < deadline_s:
            try:
                self._count(name, unknown, config, deadline_s)
            except ConnectError as err:  # as well as offsets say it
                log.debug("The records that sink %s is behind could not be counted: %s", name, err)
        if not near:
            return lag
        return replace(lag, partitions=tuple(self._corrected(name, item) for item in lag.partitions))

    def _count(self, name: str, items: list[PartitionLag], config: Mapping[str, str], deadline_s: float) -> None:
        from kconnect.runtime.kafka.range_consumer import RangeConsumer  # here: most sinks are never close, or at 0

        client = f"kconnect-sink-lag-{name}"
        settings, _ = consumer_config(self._worker, config, client_id=client, group_id=client)
        reader = RangeConsumer(settings, f"the lag of {name}")
        try:
            for item in items:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return
                self._counted[name, _place(item)] = (
                    item.end_offset - item.lag,
                    item.end_offset,
                    _records(reader, item, min(left_s, _RANGE_S)),
                )
        finally:
            reader.close()

    def _is_counted(self, name: str, item: PartitionLag) -> bool:
        known = self._counted.get((name, _place(item)))
        return known is not None and known[:2] == (item.end_offset - item.lag, item.end_offset)

    def _corrected(self, name: str, item: PartitionLag) -> PartitionLag:
        return replace(item, lag=self._counted[name, _place(item)][2]) if self._is_counted(name, item) else item


def _place(item: PartitionLag) -> TopicPartition:
    return TopicPartition(item.topic, item.partition)


def _records(reader: RangeConsumer, item: PartitionLag, timeout_s: float) -> int:
    begin = item.end_offset - item.lag
    return sum(len(run) for run in reader.read(_place(item), begin, item.end_offset, _MOST, timeout_s))
