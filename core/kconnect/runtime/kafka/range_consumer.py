"""RangeConsumer: reads exactly a range of offsets of one partition, whole records as runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import RetriableError
from kconnect.model import TopicPartition
from kconnect.runtime.config.rights import Right
from kconnect.runtime.kafka.clients import ClientLog, connect_error, consumer_client, fetched, kafka_errors
from kconnect.runtime.kafka.consumed_run import ConsumedRun

log = logging.getLogger(__name__)

_DEFAULTS: Final[Mapping[str, Any]] = {
    # A range may end behind a marker, which is not a record: the client learns so from one more fetch
    "fetch.wait.max.ms": 100,
}
_POLL_S: Final = 1.0


class RangeConsumer:
    """A consumer that joins no group; may be used for one range after another. Threads: one.

    A range that goes on where the one before ended is read from what was fetched ahead.
    """

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._name = name
        self._log = ClientLog(log, f"Consumer of {name}")
        fixed = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        # enable.partition.eof and static members have no use for a group; the client wants its name only
        own = {key: value for key, value in config.items() if key != "group.instance.id"}
        self._client = consumer_client({**_DEFAULTS, **own, **fixed}, self._log)
        self._at: tuple[TopicPartition, int] | None = None
        self._kept: list[Message] = []

    def read(
        self, at: TopicPartition, begin: int, end: int, max_records: int, timeout_s: float
    ) -> Iterator[ConsumedRun]:
        """The records from `begin` up to `end`, without it, in order; gaps and markers are passed over.

        Records that retention has deleted are missing, as in every sink. `timeout_s`: how long to wait for the next.
        Errors: RetriableError if none comes in that time; ConnectError.
        """
        self._go_to(at, begin)
        reached, deadline = begin, time.monotonic() + timeout_s
        while reached < end:
            messages, eof = self._next(max_records)
            if messages:
                reached = (messages[-1].offset() or 0) + 1
                deadline = time.monotonic() + timeout_s
                inside = [message for message in messages if (message.offset() or 0) < end]
                self._kept = messages[len(inside) :]
                if inside:
                    yield ConsumedRun(at.topic, at.partition, inside)
            if eof is not None and eof >= end:
                reached = max(reached, eof)
            if reached < end and time.monotonic() > deadline:
                why = f": {self._log.last_error}" if self._log.last_error else ""
                raise RetriableError(
                    f"{at} gave no record for {timeout_s:g} s at offset {reached}; the batch ends at {end}{why}"
                )
        self._at = (at, end)

    def close(self) -> None:
        """Idempotent."""
        client = self.__dict__.pop("_client", None)
        if client is not None:
            with kafka_errors("The consumer cannot be closed"):
                client.close()

    def _go_to(self, at: TopicPartition, begin: int) -> None:
        if self._at == (at, begin):
            return
        self._kept = []
        self._at = None
        with kafka_errors(f"{at} cannot be read"):
            self._client.assign([ClientPartition(at.topic, at.partition, begin)])

    def _next(self, max_records: int) -> tuple[list[Message], int | None]:
        """What was kept, or has been fetched; and the offset of the partition's end if it was met."""
        if self._kept:
            kept, self._kept = self._kept[:max_records], self._kept[max_records:]
            return kept, None
        try:
            messages = fetched(self._client, max_records, _POLL_S)
        except KafkaException as err:
            raise connect_error(f"{self._name} cannot fetch records", err.args[0]) from err
        if not messages:
            self._log.raise_if_refused()
        found: list[Message] = []
        eof = None
        for message in messages:
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                eof = message.offset()
            elif not error.retriable() and error.code() not in _PASSING:
                topic = message.topic() or ""
                raise self._log.error(f"{self._name} cannot read {topic}", error, Right("READ", "topic", topic))
        return found, eof


_PASSING = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})
