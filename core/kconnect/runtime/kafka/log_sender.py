"""LogSender: writes single records; its own thread completes their futures."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.model import LogPosition
from kconnect.runtime.config.rights import Right
from kconnect.runtime.kafka.client_statistics import Throttled
from kconnect.runtime.kafka.clients import ClientLog, kafka_errors, producer_client
from kconnect.runtime.kafka.retriable_codes import RETRIABLE_CODES

log = logging.getLogger(__name__)

_Sent: TypeAlias = tuple[int, bytes, bytes | None, Future[LogPosition]]
"""A number in the order of sending, key, value, and what becomes of it."""

# The length of one wait for acknowledgements, which end it at once.
_SERVE_S: Final = 0.1
# Where the broker answers, all is acknowledged long before; whoever sends waits for it
_MOVE_S: Final = 1.0
# Purged messages are reported at once, unless the machine is frozen.
_PURGE_S: Final = 2.0


class LogSender:
    """Writes records one by one, in call order. Threads: any.

    Lifecycle: constructed -> start() -> stop().
    Source: KafkaBasedLog.createProducer: acks=all and one request in flight whatever the settings say. A record is
    retried forever unless they set delivery.timeout.ms.
    Differs: with a full queue a record fails with RetriableError at once, where Java waits max.block.ms for room.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], *, is_idempotent: bool, throttled: Throttled | None = None
    ) -> None:
        self._topic = topic
        self._is_idempotent = is_idempotent
        self._log = ClientLog(log, f"Producer of log of {topic}", throttled)
        self._client = self._made(config)
        self._renewal: Mapping[str, Any] | None = None
        self._numbers = count()
        self._unmoved: list[_Sent] | None = None  # while the client is replaced: what it has not delivered
        self._stop = threading.Event()
        # Held while sending, replacing and closing, so that nothing is sent to a closed client; a callback may send
        self._ending = threading.RLock()
        self._is_ended = False  # guarded by _ending
        self._served = threading.Condition()  # notified when the thread has taken reports in; guards the next
        self._flushing = 0  # threads that wait in flush()
        self._thread = threading.Thread(target=self._serve, name=f"log-send-{topic}", daemon=True)

    @property
    def last_error(self) -> str | None:
        return self._log.last_error

    def start(self) -> None:
        self._thread.start()

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        """Write one record. Callbacks of its future run on this sender's thread and must not block or flush; one that
        is added when the future has ended runs at once, as always.
        """
        done: Future[LogPosition] = Future()
        with self._ending:
            if self._is_ended:
                raise ConnectError(f"The log of {self._topic} is stopped")
            sent = (next(self._numbers), key, value, done)
            if self._unmoved is not None:
                self._unmoved.append(sent)
            else:
                self._produce(self._client, sent)
        return done

    def renew(self, config: Mapping[str, Any]) -> None:
        """Have another client write from now on, and what this one has not delivered, in order. Threads: any."""
        self._renewal = config

    def flush(self, timeout_s: float) -> bool:
        """Wait until all sends have succeeded or failed; False if the timeout came first.

        The sender's thread alone takes reports in: of two threads each is given some, and futures end out of order.
        """
        with self._served:
            self._flushing += 1
            try:
                return self._served.wait_for(self._has_reported_all, timeout_s)
            finally:
                self._flushing -= 1

    def stop(self, timeout_s: float) -> None:
        """Drop unacknowledged records; their futures fail with ConnectError. Idempotent."""
        with self._ending:
            if self._is_ended:
                return
            self._is_ended = True
        self._client.purge(in_queue=True, in_flight=True, blocking=False)
        self._stop.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimedOutError(f"A callback of what was sent to {self._topic} did not return within {timeout_s:g} s")
        with kafka_errors("The producer cannot be closed"):
            self._client.close()

    def _has_reported_all(self) -> bool:
        with self._ending:
            return not len(self._client)

    def _made(self, config: Mapping[str, Any]) -> Producer:
        fixed = {
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,
            "enable.idempotence": self._is_idempotent,
        }
        # Callers wait for each record: batching would gain nothing.
        return producer_client({"linger.ms": 0, **config, **fixed}, self._log)

    def _produce(self, client: Producer, sent: _Sent) -> None:
        _, key, value, done = sent

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                done.set_result(LogPosition(self._topic, message.partition() or 0, message.offset() or 0))
            elif self._unmoved is not None and error.code() in _PURGED:
                self._unmoved.append(sent)
            else:
                done.set_exception(self._refusal(error))

        try:
            client.produce(self._topic, value, key, on_delivery=delivered)
        except BufferError:
            done.set_exception(RetriableError(f"Too many records for topic {self._topic} are not acknowledged yet"))
        except KafkaException as error:
            done.set_exception(self._refusal(error.args[0]))

    def _replace(self, config: Mapping[str, Any]) -> None:
        """Sends wait meanwhile: a record must not overtake one before it that the former client retries.

        A record whose acknowledgement did not come in time may be there twice, as after any retry.
        """
        try:
            fresh = self._made(config)
        except ConnectError as error:
            log.error("The producer of the log of %s stays as it was: %s", self._topic, error)
            return
        with self._ending:
            if self._is_ended:
                return
            former, self._unmoved = self._client, []
            former.flush(_MOVE_S)
            former.purge(in_queue=True, in_flight=True, blocking=True)
            former.flush(_PURGE_S)
            unmoved, self._unmoved = sorted(self._unmoved, key=lambda sent: sent[0]), None
            self._client = fresh
            for sent in unmoved:
                self._produce(fresh, sent)

    def _serve(self) -> None:
        while not self._stop.is_set():
            if (renewal := self._renewal) is not None:
                self._renewal = None
                self._replace(renewal)
            self._take_reports()
        deadline = time.monotonic() + _PURGE_S
        while len(self._client) and time.monotonic() < deadline:
            self._take_reports()

    def _take_reports(self) -> None:
        take = self._client.flush if self._flushing else self._client.poll  # a flush does not wait for linger.ms
        try:
            take(_SERVE_S)
        except Exception:  # top of the thread; an idempotent producer may fail for good
            log.exception("Acknowledgements of topic %s cannot be read, retrying", self._topic)
            self._stop.wait(1.0)
        with self._served:
            self._served.notify_all()

    def _refusal(self, error: KafkaError) -> ConnectError:
        doing = f"A record could not be written to topic {self._topic}"
        if error.code() in _PURGED:
            return ConnectError(f"{doing}: the log was stopped before it was acknowledged")
        if error.code() in RETRIABLE_CODES:
            return RetriableError(f"{doing}: {error.str()}")
        return self._log.error(doing, error, Right("WRITE", "topic", self._topic))


_PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
