"""BulkProducer: a RecordProducer that gives large units of plain records to a BulkClient."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError
from kconnect.runtime.kafka.bulk_client import ANY_PARTITION, BulkClient
from kconnect.runtime.kafka.byte_column import ByteColumn
from kconnect.runtime.kafka.client_statistics import ClientStatistics, ClientUsage
from kconnect.runtime.kafka.delivery import AnyDelivery, Delivery
from kconnect.runtime.kafka.produced_records import KafkaBatch, KafkaRecord
from kconnect.runtime.kafka.producer import ASK_S, PURGE_WAIT_S, ROOM_WAIT_S, RecordProducer
from kconnect.runtime.kafka.refusals import RefusedRecord

# Records in a unit. Measured, values of 100 B as columns, us of CPU a record on the sending thread (medians of 5, busy
# machine), by the bulk client and without: 1,000 in a unit 0.83 and 0.83; 2,000 0.62 and 1.03; 10,000 0.43 and 1.20.
_FEWEST: Final = 2_000
# When a cluster that does not answer is asked again; until then librdkafka chooses
_ASK_AGAIN_S: Final = 10.0
_REFRESH_MS: Final = 300_000  # librdkafka's own default


class BulkProducer(RecordProducer):
    """Works as RecordProducer, with a second client for large units of plain records: those that a converter gave as
    columns, that leave time and partition to the producer and have no headers. It takes 0.62 us of CPU a line of a file
    from the task's thread, 0.97 us without the second client.

    Order holds between the two clients: one is given records only when the other has none in flight. A source that
    sends records of both kinds would wait for that again and again, so after the first such wait all goes one way.
    States: one client -> with the first large plain unit two -> (a wait of one for the other) one in use.
    """

    def __init__(
        self, config: Mapping[str, Any], name: str, *, note_usage: Callable[[ClientUsage], None] | None = None
    ) -> None:
        super().__init__(config, name, note_usage=note_usage)
        self._note_usage = note_usage
        self._bulk: BulkClient | None = None
        # this and the next: the sending thread's; a column of Arrow has less than 2 GiB
        self._is_bulk_ruled_out = not BulkClient.can_have(config) or self._max_bytes >= 1 << 31
        self._is_bulk_chosen = False
        self._partitions: dict[str, tuple[int, float]] = {}
        refresh_ms = int(self._settings.get("topic.metadata.refresh.interval.ms") or _REFRESH_MS)
        self._refresh_s = _REFRESH_MS / 1000 if refresh_ms < 0 else refresh_ms / 1000

    def __len__(self) -> int:
        bulk = self._bulk
        return super().__len__() + (0 if bulk is None else len(bulk))

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool:
        self._is_bulk_chosen = self._may_go_in_bulk(records)
        return (self._is_bulk_chosen or self._await_bulk(give_up)) and super().send_batch(records, delivery, give_up)

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool:
        return self._await_bulk(give_up) and super().send(record, delivery, give_up)

    def serve(self, timeout_s: float = 0) -> None:
        bulk = self._bulk
        if bulk is None or self._is_closed:
            super().serve(timeout_s)
            return
        is_awaited = len(bulk) > 0
        super().serve(0 if is_awaited else timeout_s)
        self._poll_bulk(bulk.poll, timeout_s if is_awaited else 0)

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        deadline, bulk = time.monotonic() + timeout_s, self._bulk
        while bulk is not None and len(bulk):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or give_up():
                return False
            self._poll_bulk(bulk.flush, min(left_s, ROOM_WAIT_S))
        return super().flush(max(0.0, deadline - time.monotonic()), give_up)

    def _purge(self) -> None:
        super()._purge()
        if self._bulk is not None:
            self._bulk.purge()

    def close(self) -> None:
        super().close()
        bulk = self._bulk
        if bulk is None:
            return
        deadline = time.monotonic() + PURGE_WAIT_S
        while len(bulk) and time.monotonic() < deadline:
            with suppress(ConnectError):  # as in RecordProducer.close
                self._take_reports(bulk.flush, ROOM_WAIT_S)  # the reports of purged messages: they fail
        bulk.close()
        self._ended.tell()

    # --- which client ---

    def _hasten(self) -> None:
        if not self._is_bulk_chosen:
            super()._hasten()

    def _may_go_in_bulk(self, records: KafkaBatch) -> bool:
        is_plain = records.timestamps is None and records.headers is None and records.partition is None
        if self._is_bulk_ruled_out or not is_plain or len(self._client):
            return False
        if self._bulk is not None and len(self._bulk):
            return True
        if len(records.values) < _FEWEST or not isinstance(records.values, ByteColumn):
            return False
        if self._bulk is None:
            counts = {} if self._note_usage is None else ClientStatistics(self._note_usage).settings()
            self._bulk = BulkClient({**counts, **self._settings}, self._log)
        return True

    def _await_bulk(self, give_up: Callable[[], bool]) -> bool:
        """Wait until the other client may be given records. False if `give_up` ended the wait."""
        bulk = self._bulk
        while bulk is not None and len(bulk):
            self._is_bulk_ruled_out = True
            if give_up():
                return False
            self._poll_bulk(bulk.flush, ROOM_WAIT_S)
        return True

    def _partition_of(self, topic: str, bulk: BulkClient) -> int:
        """The only partition of a topic, else any: asked as often as the client looks for new partitions by itself.

        It hastens the client, as RecordProducer._hasten() does.
        """
        partition, due_s = self._partitions.get(topic, (ANY_PARTITION, 0.0))
        if time.monotonic() >= due_s:
            numbers = bulk.partitions_of(topic, ASK_S)  # producing says what is wrong with the cluster or the name
            partition = 0 if numbers == [0] else ANY_PARTITION
            wait_s = self._refresh_s if numbers else min(self._refresh_s, _ASK_AGAIN_S)
            self._partitions[topic] = (partition, time.monotonic() + wait_s)
        return partition

    # --- the bulk client ---

    def _poll_bulk(self, report: Callable[[float], None], timeout_s: float) -> None:
        self._take_reports(report, timeout_s)
        self._log.raise_if_refused()

    def _send_plain(
        self, records: KafkaBatch, start: int, end: int, delivery: Delivery, give_up: Callable[[], bool]
    ) -> bool:
        bulk = self._bulk
        if not self._is_bulk_chosen or bulk is None:
            return super()._send_plain(records, start, end, delivery, give_up)
        values = records.values[start:end]
        keys = None if records.keys is None else records.keys[start:end]
        partition = self._partition_of(records.topic, bulk)
        while True:
            with self._handing_over:
                if self._is_abandoned:
                    return False
                try:
                    refused = bulk.produce(records.topic, keys, values, delivery.refused, partition)
                except KafkaException as died:
                    raise self._died_of(died.args[0]) from died
            self.serve()
            again = [row for row, error in refused if error.code() == KafkaError._QUEUE_FULL]
            for row, error in refused:
                if error.code() != KafkaError._QUEUE_FULL:
                    key = None if keys is None else keys[row]
                    delivery.fail(error, RefusedRecord(records.topic, None, key, values[row]))
            if not again:
                return True
            if give_up():
                return False
            self.serve(ROOM_WAIT_S)
            values = [values[row] for row in again]
            keys = None if keys is None else [keys[row] for row in again]
