"""RecordProducer: hands units of records to Kafka. `delivery.py` has what reports that a whole unit is acknowledged."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError, DataError
from kconnect.runtime.config.rights import Right
from kconnect.runtime.kafka.batch_sizes import BATCH_SIZES
from kconnect.runtime.kafka.byte_column import ByteColumn
from kconnect.runtime.kafka.client_statistics import ClientStatistics, ClientUsage
from kconnect.runtime.kafka.clients import ClientLog, kafka_errors, producer_client, producer_settings
from kconnect.runtime.kafka.delivery import AnyDelivery, Delivery, DeliveryFailure, EndedUnits
from kconnect.runtime.kafka.produced_records import KafkaBatch, KafkaRecord
from kconnect.runtime.kafka.refusals import RefusedRecord, named, partition_number, producer_time, require_topic

log = logging.getLogger(__name__)

# What librdkafka adds to key and value at most, without headers, before it compares a record's size
_AROUND_RECORD = 64
# How long one wait for room in the queue lasts before the stop is checked again.
ROOM_WAIT_S = 0.1
# What abandon() waits for a batch that is being handed over; 100,000 records take 0.1 s
_HAND_OVER_S = 2.0
# What a cluster that does not answer holds the task up for when it is asked for a topic
ASK_S = 0.5
# How long the reports of purged messages may take; they arrive at once unless the machine stalls.
PURGE_WAIT_S = 1.0


Produce = Callable[..., None]  # the binding's own type requires headers of str or bytes, and lists are invariant


class RecordProducer:
    """Writes records in units, with back-pressure.

    Threads: sends from one thread; `serve()` from any. Errors: ConnectError; a record refused later goes to its
    Delivery. A message may be sent twice on a retry, never lost, and never out of order within its partition.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        *,
        report_each: bool = False,
        note_usage: Callable[[ClientUsage], None] | None = None,
    ) -> None:
        settings = producer_settings(config)
        self._max_messages = int(settings["queue.buffering.max.messages"])
        self._max_bytes = int(settings["queue.buffering.max.kbytes"]) * 1024
        self._largest = int(settings["message.max.bytes"]) - _AROUND_RECORD
        # We keep the limits ourselves. The client's own are twice as wide: meeting them in the middle of a batch could
        # let a small record in behind a large one that was refused, which would change their order.
        wider = {
            "queue.buffering.max.messages": min(self._max_messages * 2, 10_000_000),
            "queue.buffering.max.kbytes": min(self._max_bytes // 512, 2_147_483_647),
            "delivery.report.only.error": not report_each,
        }
        self._log = ClientLog(log, f"Producer of {name}")
        self._batches = BATCH_SIZES.of(name, settings)
        self._settings = {**config, **wider, **self._batches.settings}
        counts = {} if note_usage is None else ClientStatistics(note_usage).settings()
        self._client = producer_client({**counts, **self._settings}, self._log)
        self._bytes_waiting = 0  # this and the next: touched by the sending thread alone
        self._is_slow_to_begin = str(self._settings.get("enable.idempotence")).lower() == "true"
        self._topic = ""
        """To which something was sent last."""
        self._ended = EndedUnits()
        self._ending = threading.Lock()  # keeps abandon() off a client that is being closed
        # Held while records are handed over: of a batch that abandon() meets, no later part may follow what it dropped
        self._handing_over = threading.Lock()
        # Of two threads that poll the client each is given some of the reports: they would end out of order
        self._serving = threading.Lock()
        # What the client died of; set once. It says so to one thread that polls, and to no other
        self._fatal: ConnectError | None = None
        self._refused_id: KafkaError | None = None
        self._is_abandoned = False
        self._is_closed = False

    def __len__(self) -> int:
        """Messages that are not acknowledged yet."""
        return len(self._client)

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = lambda failure: False
    ) -> Delivery:
        """The callback of a unit that is about to be sent. Keep it until it is complete, then drop the reference.

        `on_end(True)` is called once all its messages were acknowledged, `on_end(False)` when one was not; `on_failure`
        before that for each record refused, and returns whether it is tolerated. Both run on the thread that serves or
        flushes the producer; they must not raise.
        """
        return Delivery(on_end, on_failure, self._ended, self._log.client, self._batches)

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool:
        """Hand over records of one topic; waits for room.

        Returns False if `give_up` ended the wait, or one is refused that must not be: those behind it stay here, as in
        Java, and are not sent again with each restart of the task.
        Records without timestamps and headers go through the binding's batch call (0.68 us CPU each, all included),
        others one by one (0.78 us): the batch call supports neither.
        """
        require_topic(records.topic)
        self._topic = records.topic
        self._raise_if_dead()
        self._hasten()
        is_plain = records.timestamps is None and records.headers is None
        start, total = 0, len(records.values)
        step = max(1, min(total, self._max_messages))
        while start < total:
            end = min(start + step, total)
            size = _size_of(records, start, end)
            if size > self._largest and (large := _first_larger(records, start, end, self._largest)) is not None:
                end = max(large, start + 1)  # alone: none may be with the client behind it once it is refused
                size = _size_of(records, start, end)
            if size > self._max_bytes and end - start > 1:
                step = (end - start) // 2
                continue
            if not self._await_room(end - start, size, give_up):
                return False
            self._take(delivery, size)
            send = self._send_plain if is_plain else self._send_rows
            if not send(records, start, end, delivery, give_up) or delivery.has_failed:
                return False
            start = end
        return True

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool:
        """Hand over one record of any shape; waits for room. Returns False if `give_up` ended the wait."""
        require_topic(record.topic)
        self._topic = record.topic
        self._raise_if_dead()
        self._hasten()
        unit = delivery if isinstance(delivery, Delivery) else delivery.unit
        key, value = record.key, record.value
        size = (len(value) if value else 0) + (len(key) if key else 0)
        number = partition_number(record.partition, record.topic)
        produce: Produce = self._client.produce
        while self._await_room(1, size, give_up):
            try:
                with self._handing_over:
                    if self._is_abandoned:
                        return False
                    when = producer_time(record.timestamp)
                    produce(record.topic, value, key, number, delivery, None, when, record.headers or None)
            except BufferError:
                if give_up():
                    return False
                self.serve(ROOM_WAIT_S)
            except DataError as error:  # of a time
                raise named(error, RefusedRecord(record.topic, record.partition, key)) from None
            except KafkaException as error:
                delivery.fail(error.args[0], RefusedRecord(record.topic, record.partition, key, value))
                return True
            else:
                self._take(unit, size)
                return True
        return False

    def topic_names(self, timeout_s: float) -> frozenset[str]:
        """All topics of the cluster that are visible to us. Errors: ConnectError if it does not answer in time.

        All, because a request for one makes the broker create it (auto.create.topics.enable), without reporting that.
        """
        with kafka_errors("The topics cannot be listed"):
            return frozenset(self._client.list_topics(timeout=timeout_s).topics)

    def serve(self, timeout_s: float = 0) -> None:
        """Let deliveries end; waits up to the time for the first. Errors: ConnectError from when the client died on.

        Records of a partition end in their order, whichever thread serves. A thread that finds another one serving
        waits for it as long as it would have for the first, and leaves the rest to it.
        """
        if self._is_closed:
            return
        self._take_reports(self._client.poll, timeout_s)
        self._log.raise_if_refused()

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until everything handed over has ended; returns False if the timeout or `give_up` came first.

        Errors: as serve().
        """
        deadline = time.monotonic() + timeout_s
        while len(self._client):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or give_up():
                return False
            self._take_reports(self._client.flush, min(left_s, ROOM_WAIT_S))
        self._ended.tell()
        self._raise_if_dead()
        return True

    def abandon(self) -> None:
        """Drop what has not been sent, from any thread: fences off an abandoned task. Never raises.

        Nothing is taken afterwards. Quick: a batch is handed over within milliseconds.
        """
        self._is_abandoned = True
        is_ours = self._handing_over.acquire(timeout=_HAND_OVER_S)
        try:
            with self._ending:
                if not self._is_closed:
                    self._purge()
        finally:
            if is_ours:
                self._handing_over.release()

    def _purge(self) -> None:
        self._client.purge(in_queue=True, in_flight=True, blocking=False)

    def close(self) -> None:
        """Drop what is not sent yet and end the client, within about a second. Idempotent; nothing is sent after it."""
        self.abandon()
        with self._ending:
            if self._is_closed:
                return
            self._is_closed = True
        deadline = time.monotonic() + PURGE_WAIT_S
        while len(self._client) and time.monotonic() < deadline:
            with suppress(ConnectError):  # of a client that died: nobody waits for what is dropped here
                self._take_reports(self._client.flush, ROOM_WAIT_S)  # the reports of purged messages: they fail
        self._ended.tell()
        if not len(self._client):
            self._end_client()  # with messages left it would wait for them without end

    def _take_reports(self, take: Callable[[float], object], timeout_s: float) -> None:
        """Have the client call its deliveries, unless another thread does. Errors: as serve()."""
        is_ours = self._serving.acquire(timeout=timeout_s)
        try:
            if is_ours:
                take(timeout_s)
        except KafkaException as error:
            self._refused_id = error.args[0] if _is_refused_id(error.args[0]) else None
            if self._refused_id is None or self._topic:
                raise self._died_of(error.args[0]) from error
        finally:
            if is_ours:
                self._serving.release()
            self._ended.tell()
        self._raise_if_dead()

    def _died_of(self, error: KafkaError) -> ConnectError:
        self._fatal = self._fatal or self._broken_by(error)
        return self._fatal

    def _raise_if_dead(self) -> None:
        if self._refused_id is not None and self._topic:  # refused before the first record, which names the right
            raise self._died_of(self._refused_id).with_traceback(None) from KafkaException(self._refused_id)
        if self._fatal is not None:
            raise self._fatal.with_traceback(None)  # not with the stack of another thread

    def _broken_by(self, error: KafkaError) -> ConnectError:
        if _is_refused_id(error):
            # Brokers give an id to who may write to some topic
            needs, client = [Right("WRITE", "topic", self._topic)], self._log.client
            hint = f"Grant it: {client.grant(needs)}"
            return ConnectError(f"The producer gets no id: {client.lacks(needs)}.", hint=hint)
        return self._log.error("The producer broke down", error)

    def _end_client(self) -> None:
        self._client.close()

    @property
    def last_error(self) -> str | None:
        """The newest error that the client reported, for messages about delays."""
        return self._log.last_error

    def _hasten(self) -> None:
        """Have an idempotent client get its id for the first record.

        Measured until the first record is acknowledged: 0.52 s if it is left alone, as it asks for its id half a second
        after it was made; 0.07 s when it has to ask a broker for a topic; 0.02 s without idempotence.
        """
        if self._is_slow_to_begin:
            self._is_slow_to_begin = False
            with suppress(KafkaException, RuntimeError):  # producing says what is wrong with the cluster or the name
                self._client.list_topics(self._topic, timeout=ASK_S)

    def _await_room(self, messages: int, size: int, give_up: Callable[[], bool]) -> bool:
        while waiting := len(self):
            self._ended.tell()
            self._bytes_waiting -= self._ended.take_released()
            if waiting + messages <= self._max_messages and self._bytes_waiting + size <= self._max_bytes:
                return True
            if give_up():
                return False
            self.serve(ROOM_WAIT_S)
        return True

    def _take(self, unit: Delivery, size: int) -> None:
        unit.size += size
        self._bytes_waiting += size

    def _send_plain(
        self, records: KafkaBatch, start: int, end: int, delivery: Delivery, give_up: Callable[[], bool]
    ) -> bool:
        values, keys, topic = records.values, records.keys, records.topic
        if keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in values[start:end]]
        else:
            pairs = zip(keys[start:end], values[start:end], strict=True)
            messages = [{"key": key, "value": value} for key, value in pairs]
        number = partition_number(records.partition, topic)
        while True:
            try:
                with self._handing_over:
                    if self._is_abandoned:
                        return False
                    taken = self._client.produce_batch(topic, messages, partition=number, on_delivery=delivery)
            except KafkaException as error:
                doing, need = f"Records could not be written to topic {topic!r}", Right("WRITE", "topic", topic)
                raise self._log.error(doing, error.args[0], need) from error
            self.serve()
            if taken == len(messages):
                return True
            messages = self._refused(topic, number, messages, delivery)
            if not messages:
                return True
            if give_up():
                return False
            self.serve(ROOM_WAIT_S)

    def _send_rows(
        self, records: KafkaBatch, start: int, end: int, delivery: Delivery, give_up: Callable[[], bool]
    ) -> bool:
        produce: Produce = self._client.produce
        number = partition_number(records.partition, records.topic)
        times, headers = records.timestamps, records.headers
        while start < end:
            values = iter(records.values[start:end])
            # map() with repeat() is 7 % quicker over all than a loop that calls produce(): 0.76 us CPU against 0.81.
            calls = map(
                produce,
                repeat(records.topic),
                values,
                repeat(None) if records.keys is None else records.keys[start:end],
                repeat(number),
                repeat(delivery),
                repeat(None),
                repeat(0)
                if times is None
                else map(producer_time, repeat(times) if isinstance(times, int) else times[start:end]),
                repeat(None) if headers is None else [row or None for row in headers[start:end]],
            )
            try:
                with self._handing_over:
                    if self._is_abandoned:
                        return False
                    deque(calls, maxlen=0)
            except BufferError:  # only when the user's own limits are narrower than ours
                start = end - length_hint(values) - 1
                if give_up():
                    return False
                self.serve(ROOM_WAIT_S)
            except KafkaException as error:
                start = end - length_hint(values)
                key = None if records.keys is None else records.keys[start - 1]
                delivery.fail(error.args[0], RefusedRecord(records.topic, number, key, records.values[start - 1]))
                if delivery.has_failed:
                    break
            except DataError as error:  # of a time
                row, keys = end - length_hint(values) - 1, records.keys
                refused = RefusedRecord(records.topic, records.partition, None if keys is None else keys[row])
                raise named(error, refused) from None
            else:
                break
        self.serve()
        return True

    def _refused(
        self, topic: str, partition: int, messages: list[dict[str, Any]], delivery: Delivery
    ) -> list[dict[str, Any]]:
        """The records to hand over again because the queue was full; other refusals end in their delivery."""
        again = []
        for message in messages:
            error = message.pop("_error", None)
            if error is None:
                continue
            if error.code() == KafkaError._QUEUE_FULL:
                again.append(message)
            else:
                delivery.fail(error, RefusedRecord(topic, partition, message.get("key"), message["value"]))
        return again


def _size_of(records: KafkaBatch, start: int, end: int) -> int:
    """Bytes of the keys and values of these rows."""
    return sum(_bytes_of(column[start:end]) for column in (records.values, records.keys) if column is not None)


def _bytes_of(values: Sequence[bytes | None]) -> int:
    if isinstance(values, ByteColumn):
        return values.size
    try:
        return sum(map(len, values))  # type: ignore[arg-type]  # None raises, and is rare
    except TypeError:
        return sum(len(value) for value in values if value)


def _first_larger(records: KafkaBatch, start: int, end: int, most: int) -> int | None:
    """The first of these rows whose key and value have more bytes; None without one."""
    keys = None if records.keys is None else records.keys[start:end]
    values = records.values[start:end]
    if _longest(values) + (0 if keys is None else _longest(keys)) <= most:
        return None
    pairs = enumerate(zip(values, keys or [None] * (end - start), strict=True), start)
    return next((row for row, (value, key) in pairs if len(value or b"") + len(key or b"") > most), None)


def _longest(values: Sequence[bytes | None]) -> int:
    if isinstance(values, ByteColumn):
        return values.longest
    return max((len(value) for value in values if value), default=0)


def _is_refused_id(error: KafkaError) -> bool:
    return error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
