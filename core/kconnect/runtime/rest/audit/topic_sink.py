"""The audit log as a topic: a record for each line, keyed by connector, acknowledged by all in-sync replicas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, Final

from kconnect.errors import ConnectError

if TYPE_CHECKING:
    from kconnect.runtime.kafka.log_sender import LogSender

# A broker that is there answers in milliseconds; the line is sent again afterwards
_ACKNOWLEDGED_S: Final = 10.0
_STOP_S: Final = 2.0


class TopicSink:
    """Implements Sink. The topic must exist, unless the brokers create topics by themselves."""

    def __init__(self, topic: str, settings: Callable[[], Mapping[str, Any]]) -> None:
        """`settings`: librdkafka's, of a producer."""
        self._topic = topic
        self._settings = settings
        self._sender: LogSender | None = None

    @property
    def where(self) -> str:
        return f"The audit log in topic {self._topic} (kconnect.audit.log.topic)"

    def write(self, line: bytes) -> None:
        """A line that is not acknowledged in time is sent again, and may then be there twice (same `request_id`)."""
        sender = self._started()
        connector = json.loads(line)["connector"] or ""
        try:
            sender.send(connector.encode(), line.rstrip(b"\n")).result(_ACKNOWLEDGED_S)
        except FutureTimeoutError:
            self.close()
            raise ConnectError(f"no broker acknowledged it within {_ACKNOWLEDGED_S:g} s") from None

    def close(self) -> None:
        if self._sender is not None:
            sender, self._sender = self._sender, None
            sender.stop(_STOP_S)

    def _started(self) -> LogSender:
        if self._sender is None:
            from kconnect.runtime.kafka.log_sender import LogSender

            self._sender = LogSender(self._topic, self._settings(), is_idempotent=False)
            self._sender.start()
        return self._sender
