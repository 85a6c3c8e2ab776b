"""librdkafka's own functions, called by ctypes: those of the very library that confluent_kafka brings."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any, Final

import confluent_kafka.cimpl

PRODUCER: Final = 0
MESSAGE_COPY: Final = 2
EVENT_DELIVERIES: Final = 0x1
EVENT_LOG: Final = 0x4
EVENT_ERROR: Final = 0x8
EVENT_STATISTICS: Final = 0x40
PURGE_ALL: Final = 0x1 | 0x2 | 0x4  # in queue, in flight, without waiting


class RdKafkaMessage(ctypes.Structure):
    """rd_kafka_message_t of rdkafka.h, which has been the same since librdkafka 0.9."""

    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("payload_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("opaque", c_size_t),
    )


class RdKafkaPartition(ctypes.Structure):
    """rd_kafka_metadata_partition_t of librdkafka's header."""

    _fields_ = (
        ("id", c_int32),
        ("err", c_int),
        ("leader", c_int32),
        ("replica_count", c_int),
        ("replicas", c_void_p),
        ("isr_count", c_int),
        ("isrs", c_void_p),
    )


class RdKafkaTopic(ctypes.Structure):
    """rd_kafka_metadata_topic_t of librdkafka's header."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition_count", c_int),
        ("partitions", POINTER(RdKafkaPartition)),
        ("err", c_int),
    )


class RdKafkaMetadata(ctypes.Structure):
    """rd_kafka_metadata_t of librdkafka's header, as far as it is read."""

    _fields_ = (
        ("broker_count", c_int),
        ("brokers", c_void_p),
        ("topic_count", c_int),
        ("topics", POINTER(RdKafkaTopic)),
    )


@cache
def is_callable() -> bool:
    """Whether we can call the library: not if confluent_kafka was linked with it in a way that hides its names."""
    try:
        librdkafka()
    except (OSError, AttributeError):
        return False
    return ctypes.sizeof(RdKafkaMessage) == 72  # BulkClient fills it as nine words of 64 bits


@cache
def librdkafka() -> Any:
    """The library, its functions typed. Calls let other threads of Python run meanwhile.

    Errors: OSError, AttributeError where it cannot be called.
    """
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)  # finds what the binding is linked with
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "conf_new": (c_void_p, ()),
    "conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "conf_set_events": (None, (c_void_p, c_int)),
    "conf_destroy": (None, (c_void_p,)),
    "new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "destroy": (None, (c_void_p,)),
    "name": (c_char_p, (c_void_p,)),
    "set_log_queue": (c_int, (c_void_p, c_void_p)),
    "outq_len": (c_int, (c_void_p,)),
    "flush": (c_int, (c_void_p, c_int)),
    "purge": (c_int, (c_void_p, c_int)),
    "fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "last_error": (c_int, ()),
    "metadata": (c_int, (c_void_p, c_int, c_void_p, POINTER(POINTER(RdKafkaMetadata)), c_int)),
    "metadata_destroy": (None, (POINTER(RdKafkaMetadata),)),
    "topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "topic_destroy": (None, (c_void_p,)),
    "topic_name": (c_char_p, (c_void_p,)),
    "produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "queue_get_main": (c_void_p, (c_void_p,)),
    "queue_destroy": (None, (c_void_p,)),
    "queue_poll": (c_void_p, (c_void_p, c_int)),
    "event_type": (c_int, (c_void_p,)),
    "event_message_count": (c_size_t, (c_void_p,)),
    "event_message_next": (c_void_p, (c_void_p,)),
    "event_message_array": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "event_error": (c_int, (c_void_p,)),
    "event_error_string": (c_char_p, (c_void_p,)),
    "event_log": (c_int, (c_void_p, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_int))),
    "event_stats": (c_char_p, (c_void_p,)),
    "event_destroy": (None, (c_void_p,)),
}
