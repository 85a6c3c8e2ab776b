"""Clients that live through a broker that stands still with requests on their way: none is left without answers.

`KCONNECT_FREEZES=100` freezes and wakes it a hundred times.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.model import TopicPartition
from kconnect.runtime.kafka.admin import KafkaAdmin
from kconnect.runtime.kafka.clients import ClientLog, admin_client
from kit.pace import ample_s
from kit.topics import create_topic
from kit.waiting import eventually

ROUNDS = int(os.environ.get("KCONNECT_FREEZES", "2"))
PARTITIONS = [TopicPartition("frozen", number) for number in range(10)]
# A client that has lost all its brokers is replaced after 12 s without answers, if the next request comes then
_RECOVERS_S = 25
# Time-outs of librdkafka that a round of some seconds reaches; a worker's are minutes
QUICK = {
    "socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "reconnect.backoff.max.ms": 1_000,
    "metadata.recovery.rebootstrap.trigger.ms": 4_000,
}


class Asker:
    """Asks for the ends of a topic on two threads, one with more patience than the other."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._admin = KafkaAdmin({"bootstrap.servers": bootstrap, **QUICK}, name)
        self._stop = threading.Event()
        self.answered_at = 0.0
        self._threads = [threading.Thread(target=self._run, args=(wait_s,), name=name) for wait_s in (1.0, 4.0)]
        for thread in self._threads:
            thread.start()

    def _run(self, wait_s: float) -> None:
        while not self._stop.wait(0.02):
            with suppress(ConnectError):
                self._admin.log_offsets(PARTITIONS, "end", wait_s)
                self.answered_at = time.monotonic()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._admin.close()


@pytest.mark.timeout(60 + 100 * ROUNDS)
def test_no_client_is_left_without_answers_when_a_broker_has_stood_still(own_broker: DevBroker) -> None:
    create_topic(own_broker.bootstrap, "frozen", partitions=len(PARTITIONS))
    chance, askers = random.Random(29), [Asker(own_broker.bootstrap, "asker-0")]
    try:
        for number in range(1, ROUNDS + 1):
            if len(askers) < 5:
                askers.append(Asker(own_broker.bootstrap, f"asker-{number}"))  # which has hardly begun
            for _ in range(chance.choice((1, 2))):
                _freeze(own_broker, chance.uniform(1, 6))
                threading.Event().wait(chance.uniform(0, 1))  # a moment in which it reads, or only begins to
            if number % 3 == 0:
                own_broker.kill()
                own_broker.start()
            since = time.monotonic()
            eventually(
                lambda since=since: all(asker.answered_at > since for asker in askers),  # type: ignore[misc]
                _RECOVERS_S,
                f"all {len(askers)} clients have answers after round {number}",
            )
    finally:
        for asker in askers:
            asker.stop()


def _freeze(broker: DevBroker, for_s: float) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        threading.Event().wait(for_s)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


class Others:
    """Whoever else asks the broker has answers, and has had them for long."""

    replaced = 0

    def answering(self) -> tuple[float, float] | None:
        return 0.0, time.monotonic() + 3_600

    def client_replaced(self) -> None:
        self.replaced += 1


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and says nothing: what a wedged client sees of the world."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_client_that_answers_nothing_while_kafka_does_is_replaced(broker: DevBroker, silent_port: int) -> None:
    """Found by the request after the one that had no answer, which is answered."""
    made: list[str] = []

    def make(config: Mapping[str, Any], log: ClientLog) -> Any:
        made.append("wedged" if not made else "well")
        servers = f"127.0.0.1:{silent_port}" if made[-1] == "wedged" else broker.bootstrap
        return admin_client({**config, "bootstrap.servers": servers}, log)

    others = Others()
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "tests", witness=others, make_client=make) as admin:
        with pytest.raises(ConnectError):
            admin.topic_names(0.3)
        assert admin.is_unanswered
        assert admin.silent_s() is not None
        assert isinstance(admin.topic_names(ample_s(5)), dict)
        assert (made, others.replaced, admin.silent_s()) == (["wedged", "well"], 1, None)
