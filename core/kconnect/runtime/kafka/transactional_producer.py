"""TransactionalProducer: a RecordProducer whose records are committed together or not at all."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError, FencedError, TimedOutError
from kconnect.runtime.config.rights import transaction_rights
from kconnect.runtime.kafka.client_statistics import ClientUsage
from kconnect.runtime.kafka.clients import ClientLog, producer_client
from kconnect.runtime.kafka.producer import RecordProducer

log = logging.getLogger(__name__)

# How long one wait for the coordinator lasts before the stop is checked again.
_STEP_S: Final = 0.5
_PAUSE_S: Final = 0.05
_DEFAULT_TIMEOUT_MS: Final = 60_000  # Java's, and librdkafka's
# The broker ends transactions of this producer's after its transaction.timeout.ms anyway; this is for readers' sake.
_ABORT_S: Final = 5.0
# Markers are written within milliseconds.
_KNOWN_S: Final = 1.0
# Each of the short-lived producers has three threads and a connection; 16 at once fence 100 ids in about a second.
_FENCERS: Final = 16


class TransactionExpiredError(ConnectError):
    """The broker has aborted the transaction: it was open for longer than transaction.timeout.ms."""


class TransactionalProducer(RecordProducer):
    """States: made -> claim() -> ( begin() -> sends -> commit() | abort() )* -> close().

    Threads: one, except for what RecordProducer allows from any. Errors: FencedError if another producer has claimed
    the id since; it is then unusable. TransactionExpiredError. Otherwise ConnectError: abort, then continue.
    Source: o.a.k.clients.producer.KafkaProducer (Kafka 4.3).
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        *,
        report_each: bool = False,
        note_usage: Callable[[ClientUsage], None] | None = None,
    ) -> None:
        super().__init__(config, name, report_each=report_each, note_usage=note_usage)
        self._id = str(config["transactional.id"])
        self._timeout_s = int(config.get("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS)) / 1000
        self._open_since_s: float | None = None
        self._is_broken = False

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open_since_s is not None

    @property
    def timeout_s(self) -> float:
        """transaction.timeout.ms"""
        return self._timeout_s

    def claim(self, timeout_s: float, give_up: Callable[[], bool]) -> bool:
        """Fence off the id's previous owner, and end its open transaction. Returns False if `give_up` ended the wait.

        Errors: TimedOutError; ConnectError.
        """
        doing = f"The transactional id {self._id} cannot be claimed"
        return self._insist(self._client.init_transactions, doing, timeout_s, give_up)

    def begin(self) -> None:
        """Begin a transaction, if none is open."""
        if self._open_since_s is not None:
            return
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            raise self._failed("A transaction cannot be begun", error.args[0]) from error
        self._open_since_s = time.monotonic()

    def commit(self, give_up: Callable[[], bool]) -> bool:
        """Wait for all acknowledgements, then commit. Returns False if `give_up` ended the wait: the outcome is then
        unknown.

        After an error nothing is committed, unless transaction.timeout.ms ran out: the next claim finds out.
        """
        doing = "A transaction cannot be committed"
        done = self._insist(self._client.commit_transaction, doing, self._timeout_s, give_up)
        if done:
            self._open_since_s = None
        return done

    def abort(self) -> None:
        """Discard everything sent since begin(). Errors: those of the class; TimedOutError."""
        if self._open_since_s is None:
            return
        # While markers of the transaction before are being written the broker takes no partition into this one.
        # librdkafka tries again, but would have a transaction aborted meanwhile of which the broker knows nothing yet
        # (INVALID_TXN_STATE, which is fatal). What is acknowledged is in it
        self.flush(_KNOWN_S)
        self._discard()

    def _discard(self) -> None:
        self._insist(self._client.abort_transaction, "A transaction cannot be aborted", _ABORT_S, lambda: False)
        self._open_since_s = None

    def why_broken(self) -> ConnectError | None:
        """The error that ended this producer for good, if any: refused records only show that there is one."""
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            fatal: KafkaError = error.args[0]
            return self._failed("The producer can write no more", fatal) if fatal.fatal() else None
        self._open_since_s = time.monotonic()
        return None

    def close(self) -> None:
        """Abort the open transaction, so that readers need not wait for the broker to do so; then as
        RecordProducer.close.
        """
        if self._open_since_s is not None and not self._is_broken and not self._is_closed:
            with suppress(ConnectError):  # fenced, or no broker: the next claim aborts it
                self._discard()
        # Of a fenced one, as it drops its messages: that has been reported
        with suppress(KafkaException, ConnectError):
            super().close()

    def _broken_by(self, error: KafkaError) -> ConnectError:
        return self._failed("The producer can write no more", error)

    def _end_client(self) -> None:
        """A broken one ends with its last reference: its close() would abort a transaction that cannot be aborted."""
        if not self._is_broken:
            super()._end_client()

    def _insist(
        self, attempt: Callable[[float], None], doing: str, timeout_s: float, give_up: Callable[[], bool]
    ) -> bool:
        deadline = time.monotonic() + timeout_s
        while not give_up():
            left_s = deadline - time.monotonic()
            try:
                attempt(min(max(left_s, _PAUSE_S), _STEP_S))
            except KafkaException as error:
                if not error.args[0].retriable() or left_s <= 0:
                    raise self._failed(doing, error.args[0], timeout_s) from error
                self._log.raise_if_refused()
                if error.args[0].code() != KafkaError._TIMED_OUT:
                    time.sleep(_PAUSE_S)
            else:
                return True
        self._is_broken = True  # a call was left in its middle, and blocks all others
        return False

    def _insist_apart(self, attempt: Callable[[float], None], doing: str, give_up: Callable[[], bool]) -> bool:
        """Works as `_insist`, for a call that may never return: it is left on a thread of its own, and the producer
        broken.

        librdkafka looks at no clock while it waits for the coordinator of a group (confluentinc/librdkafka 5456).
        """
        ended: Future[bool] = Future()

        def insist() -> None:
            try:
                ended.set_result(self._insist(attempt, doing, self._timeout_s, give_up))
            except BaseException as error:
                ended.set_exception(error)

        # A daemon: it has nothing to finish, and must not keep the process from ending
        threading.Thread(target=insist, name=f"transaction-{self._id}", daemon=True).start()
        deadline = time.monotonic() + self._timeout_s + 2 * _STEP_S  # it says itself that it is late if it can
        while not ended.done() and not give_up() and time.monotonic() < deadline:
            wait([ended], _STEP_S)
        if ended.done():
            return ended.result()
        self._is_broken = True
        if give_up():
            return False
        raise TimedOutError(f"{doing} within {self._timeout_s:g} s (transaction.timeout.ms)")

    def _failed(self, doing: str, error: KafkaError, timeout_s: float | None = None) -> ConnectError:
        self._is_broken = self._is_broken or error.fatal() or error.code() in _OUT_OF_TIME
        since_s = self._open_since_s
        is_overdue = since_s is not None and time.monotonic() - since_s >= self._timeout_s
        if error.code() in _FENCED and is_overdue:  # the broker reports the same for both
            return TransactionExpiredError(
                f"{doing}: the broker has aborted it after {self._timeout_s:g} s (transaction.timeout.ms)"
            )
        return _transaction_error(doing, self._id, error, timeout_s, self._log)


def fence_producers(configs: Sequence[Mapping[str, Any]], name: str, timeout_s: float) -> None:
    """Fence off the producers of these transactional ids, side by side: each config names one.

    Errors: TimedOutError, ConnectError for the first id that could not be claimed.
    Source: Admin#fenceProducers. Differs: librdkafka's admin cannot do it, so that a short-lived producer claims each.
    """
    deadline, client_log = time.monotonic() + timeout_s, ClientLog(log, name)
    stopped = threading.Event()
    with ThreadPoolExecutor(min(_FENCERS, max(len(configs), 1)), thread_name_prefix="fence-producers") as pool:
        fences = (partial(_fence, config, client_log, deadline, timeout_s, stopped) for config in configs)
        ended: list[Future[None]] = [pool.submit(fence) for fence in fences]
        try:
            for each in ended:
                each.result()
        except ConnectError:
            stopped.set()
            raise


def _fence(
    config: Mapping[str, Any], client_log: ClientLog, deadline: float, timeout_s: float, stopped: threading.Event
) -> None:
    name = str(config["transactional.id"])
    client = producer_client({**config, "acks": "all", "message.timeout.ms": 0}, client_log)
    while not stopped.is_set():
        left_s = deadline - time.monotonic()
        try:
            client.init_transactions(min(max(left_s, _PAUSE_S), _STEP_S))
        except KafkaException as error:
            doing = f"The producer {name} of a former task cannot be fenced off"
            if not error.args[0].retriable() or left_s <= 0:
                raise _transaction_error(doing, name, error.args[0], timeout_s, client_log) from error
            client_log.raise_if_refused()
        else:
            return


def _transaction_error(
    doing: str, name: str, error: KafkaError, timeout_s: float | None, client_log: ClientLog
) -> ConnectError:
    if error.code() in _FENCED:
        return FencedError(
            f"{doing}: there is a newer producer with the same transactionalId {name} which fences the current one"
        )
    if error.code() in _OUT_OF_TIME and timeout_s is not None:
        why = f": {client_log.last_error}" if client_log.last_error else ""
        return TimedOutError(f"{doing} within {timeout_s:g} s (transaction.timeout.ms){why}")
    return client_log.error(doing, error, *transaction_rights(name))


_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_OUT_OF_TIME: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})
