"""UnitProducer: what the loops and dead letter queues need of a producer of Kafka.

IdleClosingProducer is that of a source, without a client while it has nothing to send for long.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Protocol

from kconnect.errors import ConnectError
from kconnect.runtime.kafka import AnyDelivery, Delivery, DeliveryFailure, KafkaBatch, KafkaRecord

log = logging.getLogger(__name__)


class UnitProducer(Protocol):
    """What a source loop needs from its producer; see RecordProducer, which implements it."""

    def __len__(self) -> int: ...

    @property
    def last_error(self) -> str | None: ...

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = ...
    ) -> Delivery: ...

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool: ...

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool: ...

    def serve(self, timeout_s: float = 0) -> None: ...

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = ...) -> bool: ...

    def abandon(self) -> None: ...

    def close(self) -> None: ...


# Creating a client again costs as much as 25 s of idling (2.5 ms of processor time against 0.1 ms a second,
# without TLS and passwords, which make it dearer): a source with a record now and then keeps its client.
_CLOSE_AFTER_S = 60.0
# A source that has sent nothing since its start has most likely nothing to send for long. The time is for the broker
# to refuse a password or a certificate, which fails the task at its start.
_UNUSED_CLOSE_AFTER_S = 10.0


class TopicProducer(UnitProducer, Protocol):
    """A producer that can be asked for the topics; RecordProducer is one."""

    def topic_names(self, timeout_s: float) -> Collection[str]: ...


class ClientUse:
    """Who uses a client, and so whether it may be closed for now. No clock: times come in. The owner locks."""

    def __init__(self, now_s: float) -> None:
        self._holders = 0
        self._since_s = now_s
        self._patience_s = _UNUSED_CLOSE_AFTER_S

    def begin(self) -> None:
        """Somebody needs the client from now on."""
        self._holders += 1

    def end(self, now_s: float) -> None:
        """One of them is done with it; it served records."""
        self._holders -= 1
        self._since_s, self._patience_s = now_s, _CLOSE_AFTER_S

    def end_look(self) -> None:
        """One of them is done with it, who only looked whether there was something to do."""
        self._holders -= 1

    def may_close(self, now_s: float) -> bool:
        """Nobody needs it, and nobody has for so long that the next use is not near."""
        return self._holders == 0 and now_s - self._since_s >= self._patience_s


class IdleClosingProducer:
    """Implements TopicProducer. States: awake (has a client) <-> closed while idle -> closed.

    Awake from the start, so that wrong settings fail the task there; closed when idle for a minute, or unused since the
    start; awake again with the next record, which takes 20 ms where it took 9. Each client of librdkafka has three
    threads that wake once a second: a thousand idle ones took 7 to 12 % of a core, closed they take none. What a client
    leaves on the heap goes back to the system: 0.33 MB each.
    A client is held from the begin of a unit until its end was reported, so none is closed with a record on its way.
    Threads: as RecordProducer. Errors: ConnectError; also when it wakes, should its settings be wrong by then.
    Differs: Java keeps the producer of an idle source, whose one thread sleeps.
    """

    def __init__(
        self, name: str, open_client: Callable[[], TopicProducer], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._open_client = open_client
        self._now_s = now_s
        self._lock = threading.Lock()  # guards the three below; never held while a client is called
        self._client: TopicProducer | None = open_client()
        self._use = ClientUse(now_s())
        self._is_closed = False
        self._is_abandoned = False

    def __len__(self) -> int:
        with self._looking() as client:
            return len(client) if client is not None else 0

    @property
    def last_error(self) -> str | None:
        client = self._client
        return client.last_error if client is not None else None

    def topic_names(self, timeout_s: float) -> Collection[str]:
        client = self._wake()
        try:
            return client.topic_names(timeout_s)
        finally:
            self._let_go()

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = lambda failure: False
    ) -> Delivery:
        """Works as RecordProducer.delivery; the client stays until the unit's end was reported."""
        return self._wake().delivery(partial(self._unit_ended, on_end), on_failure)

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool:
        return not self._is_abandoned and self._held().send_batch(records, delivery, give_up)

    def send(self, record: KafkaRecord, delivery: AnyDelivery, give_up: Callable[[], bool]) -> bool:
        return not self._is_abandoned and self._held().send(record, delivery, give_up)

    def serve(self, timeout_s: float = 0) -> None:
        """Let deliveries end; lets the client go when it was idle for long enough."""
        with self._looking() as client:
            if client is None:
                return
            client.serve(timeout_s)
        self._close_if_idle()

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        with self._looking() as client:
            return client is None or client.flush(timeout_s, give_up)

    def abandon(self) -> None:
        self._is_abandoned = True
        client = self._client
        if client is not None:
            client.abandon()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # --- who holds the client ---

    def _wake(self) -> TopicProducer:
        """The client, held until _let_go(). Threads: the sending one, so that none is opened twice."""
        with self._lock:
            client = self._client
            if client is not None:
                self._use.begin()
                return client
            if self._is_closed:
                raise ConnectError(f"The producer of {self._name} is closed")
        log.debug("The producer of %s connects again", self._name)
        client = self._open_client()  # outside the lock: those who serve must not wait for certificates to be read
        with self._lock:
            self._client, self._use = client, ClientUse(self._now_s())
            self._use.begin()
        return client

    def _held(self) -> TopicProducer:
        client = self._client
        assert client is not None, "sent without a delivery"
        return client

    def _let_go(self) -> None:
        with self._lock:
            self._use.end(self._now_s())

    def _unit_ended(self, on_end: Callable[[bool], None], is_acked: bool) -> None:
        on_end(is_acked)
        self._let_go()

    @contextlib.contextmanager
    def _looking(self) -> Iterator[TopicProducer | None]:
        """The client if there is one, held meanwhile; that does not count as use."""
        with self._lock:
            client, use = self._client, self._use
            use.begin()
        try:
            yield client
        finally:
            with self._lock:
                use.end_look()

    def _close_if_idle(self) -> None:
        with self._lock:
            client = self._client
            if client is None or not self._use.may_close(self._now_s()):
                return
            self._client = None
        log.debug("The producer of %s is closed while it is idle", self._name)
        # 0.5 ms, or as long as the system looks for a host's address: no task and no commit waits for that
        threading.Thread(target=_end, args=(client,), name=f"close-producer-{self._name}", daemon=True).start()


def _end(client: TopicProducer) -> None:
    client.close()
    return_freed_memory()


def return_freed_memory() -> None:
    """Give unused pages of the C heap back to the system; nothing where its library cannot (macOS, musl).

    glibc keeps them for each thread that ever allocated: 50 clients of librdkafka leave 17 MB behind when they are
    closed, which no thread takes up again. Takes some ms when there is much to give, 0.3 ms otherwise. Threads: any;
    others wait for memory meanwhile, so call it after something large has ended, not in a loop.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # TypeError: Windows wants a name
        ctypes.CDLL(None).malloc_trim(0)
