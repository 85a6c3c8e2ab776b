"""Groups of records written whole or not at all: by the one that has the right to write, and as one batch.

KafkaExclusiveWriter writes them in transactions, for whoever last claimed the right; BatchWriter writes a few without
one, atomically on a topic with one partition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kconnect.errors import ConnectError, FencedError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import LogPosition
from kconnect.runtime.config.rights import Right, transaction_rights
from kconnect.runtime.kafka.client_statistics import Throttled
from kconnect.runtime.kafka.clients import ClientLog, kafka_errors, producer_client

log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.05
# The minimum time for a last attempt, and the maximum for an abort after the deadline.
_LEAST_S: Final = 0.1
_UNDO_S: Final = 5.0


class KafkaExclusiveWriter:
    """An ExclusiveWriter on a topic, through a transactional producer. All workers of a cluster use the same id.

    States: without right -> claim() -> write()s -> without right (fenced, or stop()) -> claim() ... Threads: any; calls
    are serialised.
    Source: KafkaConfigBackingStore.claimWritePrivileges and sendPrivileged (KIP-618, Kafka 4.3).
    Differs: a write that failed and was aborted keeps the right; Java gives it up after any failure.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, Any],
        transactional_id: str,
        *,
        timeout_setting: str = "",
        renewed: Callable[[], Mapping[str, Any]] | None = None,
        throttled: Throttled | None = None,
    ) -> None:
        """`renewed`: what `config` is now, where that may change: the next write then claims by another client.

        `throttled` hears of quotas that hold it back.
        """
        self._topic = topic
        self._id = transactional_id
        self._settings = renewed or (lambda: config)
        self._made_of: Mapping[str, Any] | None = None
        self._in_setting = f" ({timeout_setting})" if timeout_setting else ""
        self._log = ClientLog(log, f"Exclusive producer of {topic}", throttled)
        self._lock = threading.Lock()  # guards the client and the transaction
        self._client: Producer | None = None

    def claim(self, timeout_s: float) -> None:
        """Claim the right to write, fencing off the previous owner and aborting its open transaction.

        Errors: TimedOutError; ConnectError, such as missing rights on the transactional id. Nobody has the right then.
        """
        doing = f"The right to write to topic {self._topic} as {self._id} cannot be claimed"
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._claim(doing, deadline, timeout_s)

    def write(self, entries: Sequence[tuple[bytes, bytes | None]], timeout_s: float) -> None:
        """Write all or nothing.

        Errors: FencedError if another writer has claimed the right since, or it was never claimed: claim it again.
        TimedOutError, ConnectError: nothing was written, except that a timeout during the commit leaves the outcome
        open: the next claim settles it, and reading the topic to its end after that shows all or nothing.
        """
        doing = f"{pluralize(len(entries), 'record')} could not be written to topic {self._topic} in a transaction"
        deadline = time.monotonic() + timeout_s
        with self._lock:
            client = self._client
            if client is None:
                raise FencedError(f"{doing}: the right to write as {self._id} was not claimed")
            if self._settings() is not self._made_of:  # the brokers may refuse what the client shows
                client = self._claim(doing, deadline, timeout_s)
            try:
                self._transact(client, entries, deadline)
            except KafkaException as error:
                self._undo(client, error.args[0])
                raise self._error(doing, error.args[0], timeout_s) from error
            except BufferError as error:
                self._undo(client, None)
                raise ConnectError(f"{doing}: they do not fit the producer's queue (producer buffer.memory)") from error
            except BaseException:
                self._drop_client()
                raise

    def stop(self) -> None:
        """Give up the right. Idempotent."""
        with self._lock:
            self._drop_client()

    def _claim(self, doing: str, deadline: float, timeout_s: float) -> Producer:
        """Holds the lock."""
        self._drop_client()
        self._made_of = self._settings()
        client = self._client = producer_client(self._client_settings(self._made_of), self._log)
        try:
            _retry_until(deadline, lambda left_s: client.init_transactions(left_s))
        except KafkaException as error:
            self._drop_client()
            raise self._error(doing, error.args[0], timeout_s) from error
        except BaseException:
            self._drop_client()
            raise
        return client

    def _client_settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {
            # Idempotence alone keeps the order here, so five requests may be in flight, as in Java.
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": 5,
            **config,
            "acks": "all",
            "enable.idempotence": True,
            "transactional.id": self._id,
        }

    def _transact(self, client: Producer, entries: Sequence[tuple[bytes, bytes | None]], deadline: float) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failed.append(error)

        client.begin_transaction()
        for key, value in entries:
            client.produce(self._topic, value, key, on_delivery=delivered)
        try:
            _retry_until(deadline, lambda left_s: client.commit_transaction(left_s))
        except KafkaException as error:
            if (
                failed and not error.args[0].fatal()
            ):  # names the refused record and why; the commit only says that one was refused
                raise KafkaException(failed[0]) from error
            raise

    def _undo(self, client: Producer, error: KafkaError | None) -> None:
        """Abort; if that fails, drop the producer and with it the claim: the next claim aborts."""
        if error is not None and (error.fatal() or error.code() in _FENCED or error.code() in _OUT_OF_TIME):
            self._drop_client()
            return
        try:
            client.abort_transaction(_UNDO_S)
        except KafkaException as second:
            log.warning("A transaction on topic %s cannot be aborted: %s", self._topic, second.args[0].str())
            self._drop_client()

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        client.purge(in_queue=True, in_flight=True, blocking=False)
        with suppress(KafkaException):  # a client that failed reports it again; the reason was reported before
            client.flush(_LEAST_S)  # serves the reports of what was purged
        # It ends with its last reference. Its close() would abort what is open, which only warns when it was fenced.

    def _error(self, doing: str, error: KafkaError, timeout_s: float) -> ConnectError:
        if error.code() in _FENCED:
            return FencedError(f"{doing}: another writer has claimed the right of {self._id} since")
        if error.code() in _OUT_OF_TIME:
            why = f": {self._log.last_error}" if self._log.last_error else ""
            return TimedOutError(f"{doing} within {timeout_s:g} s{self._in_setting}{why}")
        needs = (Right("WRITE", "topic", self._topic), *transaction_rights(self._id))
        return self._log.error(doing, error, *needs)


def _retry_until(deadline: float, attempt: Any) -> None:
    """Call `attempt(seconds left)` until it succeeds; retriable errors are retried until the deadline."""
    while True:
        try:
            attempt(max(deadline - time.monotonic(), _LEAST_S))
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() + _PAUSE_S > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
_OUT_OF_TIME: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})


_ANY_PARTITION: Final = -1
_MIN_DEADLINE_MS: Final = 100
# The largest batch that brokers accept by default (message.max.bytes)
_BATCH_BYTES: Final = 1_000_000
# Purged messages are reported immediately.
_PURGE_S: Final = 1.0


class BatchEntry(NamedTuple):
    """A record to write; if `partition` is None, the key's hash decides, as in Java's producer."""

    key: bytes
    value: bytes | None
    partition: int | None = None


class BatchWriter:
    """Writes batch after batch to one topic. A context manager. Threads: one.

    Records of one partition go in one batch, which a broker appends atomically: a crash leaves all of them or none.
    Above 1 MB there are several batches, in order.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], timeout_s: float, *, timeout_setting: str) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._setting = timeout_setting
        self._log = ClientLog(log, f"Producer of {topic}")
        self._is_known = False
        deadline_ms = max(int(timeout_s * 1000), _MIN_DEADLINE_MS)
        fixed = {
            "acks": "all",
            "enable.idempotence": False,  # as Java's producers of internal topics
            "max.in.flight.requests.per.connection": 1,
            "batch.size": _BATCH_BYTES,
            "batch.num.messages": 100_000,
            "message.timeout.ms": deadline_ms,
            # Nothing is sent before flush(), and then everything
            "linger.ms": min(deadline_ms - 1, 60_000),
        }
        self._client = producer_client({**config, **fixed}, self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, entries: Sequence[BatchEntry]) -> list[LogPosition]:
        """Write the records with acks=all and return their positions, in the order of the entries.

        Errors: TimedOutError if the outcome is unknown; ConnectError if the broker refuses a record.
        """
        doing = f"{pluralize(len(entries), 'record')} could not be written to topic {self._topic}"
        end = time.monotonic() + self._timeout_s
        found: dict[int, LogPosition] = {}
        failed: list[KafkaError] = []
        try:
            self._learn_partitions(doing)
            for number, entry in enumerate(entries):
                partition = _ANY_PARTITION if entry.partition is None else entry.partition
                report = self._report(number, found, failed)
                self._client.produce(self._topic, entry.value, entry.key, partition, report)
            self._client.flush(max(end - time.monotonic(), 0.1))
        except KafkaException as error:
            raise self._error(doing, error.args[0]) from error
        except ConnectError:
            self._client.poll(0)  # brings the client's own errors, which tell more
            self._log.raise_if_refused()
            raise
        finally:
            if len(self._client):
                self._purge()
        self._raise_unless_all(doing, len(entries) - len(found), failed)
        return [found[number] for number in range(len(entries))]

    def close(self) -> None:
        """Close the client; unacknowledged records are dropped. Idempotent."""
        self._purge()

    def _learn_partitions(self, doing: str) -> None:
        """Fetch the topic's metadata; without it the records would wait and then be sent one by one."""
        if self._is_known:
            return
        with kafka_errors(doing):
            topic = self._client.list_topics(self._topic, timeout=self._timeout_s).topics[self._topic]
        if topic.error is not None:
            raise self._error(doing, topic.error)
        self._is_known = True

    def _error(self, doing: str, error: KafkaError) -> ConnectError:
        return self._log.error(doing, error, Right("WRITE", "topic", self._topic))

    def _report(
        self, number: int, found: dict[int, LogPosition], failed: list[KafkaError]
    ) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                found[number] = LogPosition(self._topic, message.partition() or 0, message.offset() or 0)

        return delivered

    def _raise_unless_all(self, doing: str, missing: int, failed: Sequence[KafkaError]) -> None:
        if not missing:
            return
        self._log.raise_if_refused()
        for error in failed:
            if error.code() not in _NOT_WRITTEN_IN_TIME:
                raise self._error(doing, error)
        why = f" ({self._log.last_error})" if self._log.last_error else ""
        raise TimedOutError(
            f"{doing} within {self._timeout_s:g} s ({self._setting}): they may have been written or not{why}"
        )

    def _purge(self) -> None:
        self._client.purge(in_queue=True, in_flight=True, blocking=False)
        self._client.flush(_PURGE_S)


_NOT_WRITTEN_IN_TIME: Final = frozenset(
    {KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
)
