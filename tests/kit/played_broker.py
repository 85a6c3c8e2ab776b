"""A broker that librdkafka plays in threads of this process, and that refuses requests when it is asked to."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int16, c_size_t, c_void_p
from typing import Any, Final

from kconnect.runtime.kafka.librdkafka import PRODUCER, librdkafka

__all__ = [
    "CONSUMER_GROUP_HEARTBEAT",
    "END_TRANSACTION",
    "INIT_PRODUCER_ID",
    "PRODUCE",
    "PlayedBroker",
    "played_broker",
]

PRODUCE: Final = 0
INIT_PRODUCER_ID: Final = 22
END_TRANSACTION: Final = 26
CONSUMER_GROUP_HEARTBEAT: Final = 68
_TEXT_BYTES: Final = 512


class PlayedBroker:
    """Has each topic that it is asked for, with four partitions if it was not made before. Source: rdkafka_mock.h."""

    def __init__(self, library: Any, handle: int) -> None:
        self._library = library
        self._cluster = library.rd_kafka_mock_cluster_new(handle, 1)
        self.bootstrap: str = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def make_topic(self, name: str, partitions: int) -> None:
        assert self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1) == 0

    def refuse(self, request: int, *codes: int) -> None:
        """The next requests of this kind are answered with these errors."""
        errors = (c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, request, len(codes), errors)

    def forget(self, request: int) -> None:
        """It has no version of this kind of request any more."""
        assert self._library.rd_kafka_mock_set_apiversion(self._cluster, request, -1, -1) == 0

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)


@contextmanager
def played_broker() -> Iterator[PlayedBroker]:
    library = librdkafka()
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"rd_kafka_mock_{name}")
        function.restype, function.argtypes = result, arguments
    settings = library.rd_kafka_conf_new()  # belongs to the client that is made with it
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    library.rd_kafka_conf_set(settings, b"log_level", b"0", text, _TEXT_BYTES)
    handle = library.rd_kafka_new(PRODUCER, settings, text, _TEXT_BYTES)
    assert handle, text.value
    try:
        broker = PlayedBroker(library, handle)
        try:
            yield broker
        finally:
            broker.close()
    finally:
        library.rd_kafka_destroy(handle)


_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "cluster_new": (c_void_p, (c_void_p, c_int)),
    "cluster_bootstraps": (c_char_p, (c_void_p,)),
    "cluster_destroy": (None, (c_void_p,)),
    "topic_create": (c_int, (c_void_p, c_char_p, c_int, c_int)),
    "set_apiversion": (c_int, (c_void_p, c_int16, c_int16, c_int16)),
    "push_request_errors_array": (None, (c_void_p, c_int16, c_size_t, POINTER(c_int))),
}
