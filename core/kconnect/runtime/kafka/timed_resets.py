"""TimedResets: where a consumer begins by `auto.offset.reset=by_duration:..`, which librdkafka does not have."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable
from typing import Final

from confluent_kafka import OFFSET_END, Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.model import TopicPartition
from kconnect.runtime.kafka.clients import connect_error, kafka_errors

log = logging.getLogger(__name__)

# As librdkafka waits for committed offsets and for those at a time
_TIMEOUT_S: Final = 30.0


class TimedResets:
    """Looks for offsets by time, with the client of the consumer. Threads: its own. Errors: ConnectError."""

    def __init__(self, client: Consumer, back_ms: int, name: str) -> None:
        self._client = client
        self._back_ms = back_ms
        self._name = name

    def begin(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where those of the partitions begin that have no committed offset."""
        if not partitions:
            return {}
        asked = [ClientPartition(at.topic, at.partition) for at in partitions]
        with kafka_errors("Committed offsets cannot be read"):
            committed = _checked(self._client.committed(asked, timeout=_TIMEOUT_S))
        since_ms = max(int(time.time() * 1000) - self._back_ms, 0)
        asked = [ClientPartition(at.topic, at.partition, since_ms) for at in committed if at.offset < 0]
        return self._at_times(asked) if asked else {}

    def _at_times(self, asked: list[ClientPartition]) -> dict[TopicPartition, int]:
        """The first record from a time on in each partition; its end where there is none."""
        with kafka_errors("Offsets at a time cannot be read"):
            found = _checked(self._client.offsets_for_times(asked, timeout=_TIMEOUT_S))
        offsets = {TopicPartition(at.topic, at.partition): at.offset if at.offset >= 0 else OFFSET_END for at in found}
        log.info(
            "%s begins, by auto.offset.reset, at %s",
            self._name,
            ", ".join(f"{at}: {'the end' if offset < 0 else offset}" for at, offset in sorted(offsets.items())),
        )
        return offsets


def _checked(found: Iterable[ClientPartition]) -> list[ClientPartition]:
    """Errors: ConnectError for the first partition that has one."""
    places = list(found)
    for at in places:
        if at.error is not None:
            raise connect_error(f"The offset of {at.topic}-{at.partition} cannot be read", at.error)
    return places
