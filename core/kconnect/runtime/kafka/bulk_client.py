"""BulkClient: a librdkafka producer that takes columns of records at once, and gives their deliveries as counts.

For each record the binding parses arguments, allocates a state, and takes and drops the interpreter's lock: to send
it, and as it is acknowledged. Here librdkafka reads a table that Arrow's functions fill, and its reports are counted by
them, so that no step of Python is made for a record (measured: BulkProducer). What librdkafka does with records (order,
retries, acks, limits, errors) is the same, as it is the same library (librdkafka.py).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError
from kconnect.runtime.kafka.byte_column import ByteColumn
from kconnect.runtime.kafka.calls_in_flight import CallsInFlight, OnDelivery
from kconnect.runtime.kafka.clients import ClientLog, producer_settings
from kconnect.runtime.kafka.librdkafka import (
    EVENT_DELIVERIES,
    EVENT_ERROR,
    EVENT_LOG,
    EVENT_STATISTICS,
    MESSAGE_COPY,
    PRODUCER,
    PURGE_ALL,
    RdKafkaMessage,
    RdKafkaMetadata,
    is_callable,
    librdkafka,
)
from kconnect.runtime.kafka.refusals import RefusedRecord

if TYPE_CHECKING:
    import pyarrow as pa


# Rows that librdkafka is given at once: 1.2 MB of table. A message knows its call and its row in it, as one number.
_ROW_BITS: Final = 14
_ROWS_AT_ONCE: Final = 1 << _ROW_BITS
_TEXT_BYTES: Final = 512
# For a call of another thread to come back: those that wait do so for 0.1 s at most.
_CALLS_END_S: Final = 5.0
# One wait of a flush: reports are polled between two.
_FLUSH_STEP_MS: Final = 10


# RdKafkaMessage as a row of the table, in words of 64 bits
_LAYOUT: Any = RdKafkaMessage  # its fields are made at run time
_ROW: Final = ctypes.sizeof(RdKafkaMessage) // 8
_VALUE, _VALUE_SIZE = _LAYOUT.payload.offset // 8, _LAYOUT.payload_size.offset // 8
_KEY, _KEY_SIZE = _LAYOUT.key.offset // 8, _LAYOUT.key_size.offset // 8
_OPAQUE = _LAYOUT.opaque.offset // 8
_ERROR_BITS: Final = 0xFFFF_FFFF  # `err` is half of a row's first word; nobody sets the other half
ANY_PARTITION: Final = -1  # librdkafka chooses, for each record
# Of syslog's levels, as the binding translates them
_LEVELS: Final = (50, 50, 50, 40, 30, 20, 20, 10)


class BulkClient:
    """Takes the settings of confluent_kafka's Producer, `stats_cb` included.

    Threads: produce() from one; the rest from any. Errors: ConnectError when librdkafka refuses the settings.

    The callback of produce() is called on the thread that polls, for messages that are refused, and is released when
    the last of the call's messages has ended: as with confluent_kafka's Producer and `delivery.report.only.error`.
    """

    @staticmethod
    def can_have(config: Mapping[str, Any]) -> bool:
        """Whether there can be one with these settings: functions among them are for the binding only."""
        return is_callable() and not any(callable(value) for value in config.values())

    def __init__(self, config: Mapping[str, Any], log: ClientLog) -> None:
        self._log = log
        self._take_statistics: Callable[[str], None] = config.get("stats_cb", lambda text: None)
        self._calls = threading.Condition()  # guards the two below
        self._running_calls = 0
        self._is_closed = False
        self._in_flight = CallsInFlight()
        self._table = bytearray()
        self._table_address = 0
        self._has_keys = False  # in the table
        self._library = librdkafka()
        log.settings(config)  # it keeps the CA of these settings for its messages; its callbacks are called below
        own = {"log.queue": True, "delivery.report.only.error": False}  # what was acknowledged is counted
        self._handle = _opened(self._library, {**producer_settings(config), **own})
        self._library.rd_kafka_set_log_queue(self._handle, None)
        self._queue = self._library.rd_kafka_queue_get_main(self._handle)

    def __len__(self) -> int:
        """Messages that have not ended, and events that were not polled yet."""
        with self._call() as is_open:
            return int(self._library.rd_kafka_outq_len(self._handle)) if is_open else 0

    def produce(
        self,
        topic: str,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        on_delivery: OnDelivery,
        partition: int = ANY_PARTITION,
    ) -> list[tuple[int, KafkaError]]:
        """Hand over records without timestamps and headers; gives the rows that were not taken, and why.

        With a partition librdkafka has nothing to choose for each record: 0.70 us of CPU a record instead of 0.85 (100
        B, all threads, medians of 3). Once the queue is full, no later row is taken.
        Errors: ConnectError for a name that no topic can have; KafkaException when the client can write no more.
        """
        refused: list[tuple[int, KafkaError]] = []
        with self._call() as is_open:
            if not is_open:
                raise ConnectError(f"Records could not be written to topic {topic!r}: the producer is closed")
            handle = self._library.rd_kafka_topic_new(self._handle, topic.encode(), None)
            if not handle:
                error = KafkaError(self._library.rd_kafka_last_error())
                raise ConnectError(f"Records could not be written to topic {topic!r}: {error.str()}")
            try:
                for start in range(0, len(values), _ROWS_AT_ONCE):
                    end = min(start + _ROWS_AT_ONCE, len(values))
                    place = None if partition == ANY_PARTITION else (topic, partition)
                    number = self._in_flight.begin(end - start, on_delivery, place)  # reports may come at once
                    some_keys = None if keys is None else keys[start:end]
                    some = self._produce_rows(handle, partition, some_keys, values[start:end], number)
                    refused += [(start + row, error) for row, error in some]
                    if some and some[-1][1].code() == KafkaError._QUEUE_FULL:  # later rows must not overtake these
                        refused += [(row, some[-1][1]) for row in range(end, len(values))]
                        break
            finally:
                self._library.rd_kafka_topic_destroy(handle)
        return refused

    def partitions_of(self, topic: str, timeout_s: float) -> list[int]:
        """The partitions of a topic; none of one that is not there, or of which nobody tells within the time."""
        with self._call() as is_open:
            handle = self._library.rd_kafka_topic_new(self._handle, topic.encode(), None) if is_open else None
            if not handle:
                return []
            found = POINTER(RdKafkaMetadata)()
            try:
                wait_ms = int(timeout_s * 1000)
                if self._library.rd_kafka_metadata(self._handle, 0, handle, ctypes.byref(found), wait_ms):
                    return []
                answer: Any = found.contents  # its fields are made at run time
                topics = answer.topics[: answer.topic_count]
                return [each.id for one in topics for each in one.partitions[: one.partition_count]]
            finally:
                if found:
                    self._library.rd_kafka_metadata_destroy(found)
                self._library.rd_kafka_topic_destroy(handle)

    def poll(self, timeout_s: float = 0) -> None:
        """Take what librdkafka reports; waits up to the time for the first.

        Errors: KafkaException, as from the binding, when the client can write no more.
        """
        wait_ms = int(timeout_s * 1000)
        with self._call() as is_open:
            events: list[int] = []
            try:
                while is_open and (event := self._library.rd_kafka_queue_poll(self._queue, wait_ms)):
                    events.append(event)
                    wait_ms = 0
                self._take(events)
                if is_open:
                    self._raise_if_dead()
            finally:
                for event in events:
                    self._library.rd_kafka_event_destroy(event)

    def flush(self, timeout_s: float) -> None:
        """Have everything sent without further waiting for more; comes back when the time is over or all has ended."""
        with self._call() as is_open:
            if is_open:  # waits for messages whose reports are polled meanwhile: here they are polled after it
                self._library.rd_kafka_flush(self._handle, min(int(timeout_s * 1000), _FLUSH_STEP_MS))
        self.poll()

    def purge(self) -> None:
        """Drop what has not ended: it ends as refused when it is polled. Quick."""
        with self._call() as is_open:
            if is_open:
                self._library.rd_kafka_purge(self._handle, PURGE_ALL)

    def close(self) -> None:
        """End the client; what has not ended is dropped without a report. Idempotent."""
        with self._calls:
            if self._is_closed:
                return
            self._is_closed = True
            is_left_alone = self._calls.wait_for(lambda: not self._running_calls, _CALLS_END_S)
        if is_left_alone:  # else its threads live on: memory that a call still uses must not be freed
            self._library.rd_kafka_queue_destroy(self._queue)
            self._library.rd_kafka_destroy(self._handle)

    @contextmanager
    def _call(self) -> Iterator[bool]:
        """Around calls of librdkafka: close() waits for them. Gives whether they may be made."""
        with self._calls:
            is_open = not self._is_closed
            self._running_calls += is_open
        try:
            yield is_open
        finally:
            if is_open:
                with self._calls:
                    self._running_calls -= 1
                    self._calls.notify_all()

    # --- to librdkafka ---

    def _produce_rows(
        self,
        topic: int,
        partition: int,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        number: int,
    ) -> list[tuple[int, KafkaError]]:
        rows = len(values)
        table = self._table_of(rows)
        words = memoryview(table).cast("q")
        value_column = _fill(words, _VALUE, _VALUE_SIZE, values, rows)
        key_column = None
        if keys is not None or self._has_keys:
            key_column = _fill(words, _KEY, _KEY_SIZE, keys, rows)
            self._has_keys = True
        words[_OPAQUE : _ROW * rows : _ROW] = _view(_numbers_of(number, rows))
        taken = self._library.rd_kafka_produce_batch(topic, partition, MESSAGE_COPY, self._table_address, rows)
        del value_column, key_column  # the rows pointed into them
        if taken == rows:
            return []
        self._in_flight.ended({number: rows - taken})
        codes = memoryview(table).cast("i")[: 2 * _ROW * rows : 2 * _ROW]
        if KafkaError._FATAL in (refused := codes.tolist()):
            raise KafkaException(self._cause_of_death())
        return [(row, _not_taken(code)) for row, code in enumerate(refused) if code]

    def _table_of(self, rows: int) -> bytearray:
        """Memory for rows, kept from call to call."""
        if len(self._table) < 8 * _ROW * rows:
            self._table = bytearray(8 * _ROW * rows)
            self._table_address = ctypes.addressof(ctypes.c_char.from_buffer(self._table))
            self._has_keys = False
        return self._table

    # --- from librdkafka ---

    def _take(self, events: Sequence[int]) -> None:
        kinds = [(self._library.rd_kafka_event_type(event), event) for event in events]
        deliveries = [event for kind, event in kinds if kind == EVENT_DELIVERIES]
        if deliveries:
            self._take_deliveries(deliveries)
        for kind, event in kinds:
            if kind == EVENT_ERROR:
                self._take_error(event)
            elif kind == EVENT_LOG:
                self._take_log(event)
            elif kind == EVENT_STATISTICS:
                self._take_statistics(self._library.rd_kafka_event_stats(event).decode())

    def _take_deliveries(self, events: Sequence[int]) -> None:
        """Each event has messages of one request, or refused ones. It gives each of them once."""
        unknown: list[tuple[int, int, int]] = []
        for event in events:
            count, first = self._library.rd_kafka_event_message_count(event), 0
            if self._in_flight.are_in_order and not self._library.rd_kafka_event_error(event):
                first = self._library.rd_kafka_event_message_next(event)
                call, row = divmod(RdKafkaMessage.from_address(first).opaque, _ROWS_AT_ONCE)
                if self._in_flight.ended_in_order(call, row, count):
                    continue
            unknown.append((event, count, first))
        if unknown:
            self._look_at_messages(unknown)

    def _look_at_messages(self, events: Sequence[tuple[int, int, int]]) -> None:
        """Look at each message of these events, given with their counts and with a first that was already taken out.

        All together, as brokers may answer for a few at a time.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        pointers, count = (ctypes.c_void_p * sum(size for _, size, _ in events))(), 0
        for event, size, first in events:
            if first:
                pointers[count] = first
                count, size = count + 1, size - 1
            place = ctypes.byref(pointers, count * ctypes.sizeof(ctypes.c_void_p))
            count += self._library.rd_kafka_event_message_array(event, place, size)
        addresses = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(pointers)])
        errors, numbers = _words_at(addresses, 0, _OPAQUE)
        is_refused = pc.not_equal(pc.bit_wise_and(errors, pa.scalar(_ERROR_BITS)), pa.scalar(0))
        if is_refused.true_count:
            for address in addresses.filter(is_refused).to_pylist():
                self._refuse(address)
        ended = pc.value_counts(pc.shift_right(numbers, pa.scalar(_ROW_BITS)))
        self._in_flight.ended(dict(zip(ended.field(0).to_pylist(), ended.field(1).to_pylist(), strict=True)))

    def _refuse(self, address: int) -> None:
        message = RdKafkaMessage.from_address(address)
        on_delivery = self._in_flight.on_delivery(message.opaque >> _ROW_BITS)
        topic = self._library.rd_kafka_topic_name(message.topic).decode()
        key = ctypes.string_at(message.key, message.key_size) if message.key else None
        value = ctypes.string_at(message.payload, message.payload_size) if message.payload else None
        on_delivery(KafkaError(message.err), RefusedRecord(topic, message.partition, key, value))

    def _take_error(self, event: int) -> None:
        code = self._library.rd_kafka_event_error(event)
        text = (self._library.rd_kafka_event_error_string(event) or b"").decode(errors="replace")
        if code != KafkaError._FATAL:  # of which poll() asks
            self._log.on_error(KafkaError(code, text))

    def _raise_if_dead(self) -> None:
        """Errors: KafkaException.

        Asked for, as no event says so where the error has a code of its own; and messages that are taken in the moment
        in which the client dies stay in its queue without an end.
        """
        if self._library.rd_kafka_fatal_error(self._handle, None, 0):
            raise KafkaException(self._cause_of_death())

    def _cause_of_death(self) -> KafkaError:
        """What librdkafka means where it says that an error is fatal."""
        room = ctypes.create_string_buffer(_TEXT_BYTES)
        code = self._library.rd_kafka_fatal_error(self._handle, room, _TEXT_BYTES)
        return KafkaError(code, room.value.decode(errors="replace"), fatal=True)

    def _take_log(self, event: int) -> None:
        facility, text, level = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int()
        self._library.rd_kafka_event_log(event, ctypes.byref(facility), ctypes.byref(text), ctypes.byref(level))
        name = self._library.rd_kafka_name(self._handle).decode()
        said = [(part.value or b"").decode(errors="replace") for part in (facility, text)]
        self._log.log(_LEVELS[min(max(level.value, 0), len(_LEVELS) - 1)], "%s [%s] %s", said[0], name, said[1])


def _opened(library: Any, settings: Mapping[str, Any]) -> int:
    room = ctypes.create_string_buffer(_TEXT_BYTES)
    config = library.rd_kafka_conf_new()
    for key, value in settings.items():
        if value is None or callable(value):
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if library.rd_kafka_conf_set(config, key.encode(), text.encode(), room, _TEXT_BYTES):
            library.rd_kafka_conf_destroy(config)
            raise ConnectError(f"The producer cannot be built: {room.value.decode(errors='replace')}")
    events = EVENT_DELIVERIES | EVENT_LOG | EVENT_ERROR | EVENT_STATISTICS
    library.rd_kafka_conf_set_events(config, events)
    handle = library.rd_kafka_new(PRODUCER, config, room, _TEXT_BYTES)
    if not handle:
        library.rd_kafka_conf_destroy(config)
        raise ConnectError(f"The producer cannot be built: {room.value.decode(errors='replace')}")
    return int(handle)


def _fill(words: memoryview, at: int, size_at: int, column: Sequence[bytes | None] | None, rows: int) -> object:
    """Put address and size of each value into the table; gives what must live as long as those are used."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None:
        words[at : _ROW * rows : _ROW] = words[size_at : _ROW * rows : _ROW] = memoryview(bytes(8 * rows)).cast("q")
        return None
    made = column.column if isinstance(column, ByteColumn) else pa.array(column, pa.binary())
    _, ends, data = made.buffers()
    offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, ends], offset=made.offset).cast(pa.int64())
    starts = offsets.slice(0, rows)
    addresses = pc.add(starts, data.address if data is not None else ends.address)
    if made.null_count:  # librdkafka tells an empty value from none by its address
        addresses = pc.if_else(made.is_valid(), addresses, 0)
    words[at : _ROW * rows : _ROW] = _view(addresses)
    words[size_at : _ROW * rows : _ROW] = _view(pc.subtract(offsets.slice(1), starts))
    return made


@cache
def _first_numbers() -> pa.Int64Array:
    import pyarrow as pa

    return pa.array(range(_ROWS_AT_ONCE), pa.int64())


def _numbers_of(call: int, rows: int) -> pa.Int64Array:
    """What the messages of a call are known by."""
    import pyarrow.compute as pc

    return pc.add(_first_numbers().slice(0, rows), call << _ROW_BITS)


def _view(numbers: pa.Int64Array) -> memoryview:
    return memoryview(numbers.buffers()[1]).cast("q")[numbers.offset : numbers.offset + len(numbers)]


def _words_at(addresses: pa.Int64Array, *places: int) -> list[pa.Int64Array]:
    """The words at these places behind each address: the memory from the first to the last of them, as a column.

    None but the asked for words of it are read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = pc.min_max(addresses)
    first, size = bounds["min"].as_py(), bounds["max"].as_py() - bounds["min"].as_py() + 8 * _ROW
    words = pa.Array.from_buffers(pa.int64(), size // 8, [None, pa.foreign_buffer(first, size)])
    rows = pc.shift_right(pc.subtract(addresses, pa.scalar(first)), pa.scalar(3))
    return [words.slice(place).take(rows) for place in places]


def _not_taken(code: int) -> KafkaError:
    return KafkaError(code, f"Unable to produce message: {KafkaError(code).str()}")
