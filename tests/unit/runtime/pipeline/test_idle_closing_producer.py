"""A producer without a client while it is idle: when it may close, who holds it awake, what does not change."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.kafka import KafkaRecord
from kconnect.runtime.pipeline.unit_producer import ClientUse, IdleClosingProducer
from kit.memory_producer import MemoryProducer
from kit.waiting import eventually


def never() -> bool:
    return False


class Clients:
    """Opens memory producers for one idle-closing producer; `now_s` is its clock."""

    def __init__(self) -> None:
        self.opened: list[MemoryProducer] = []
        self.now_s = 0.0
        self.fail_with: ConnectError | None = None
        self.reported: list[bool] = []
        self.producer = IdleClosingProducer("orders-0", self._open, lambda: self.now_s)

    @property
    def newest(self) -> MemoryProducer:
        return self.opened[-1]

    def _open(self) -> MemoryProducer:
        if self.fail_with is not None:
            raise self.fail_with
        self.opened.append(MemoryProducer())
        return self.newest

    def send(self, value: bytes = b"v") -> bool:
        delivery = self.producer.delivery(self.reported.append)
        sent = self.producer.send(KafkaRecord("t", value=value), delivery, never)
        if sent:
            delivery.complete()
        return sent

    def acknowledge(self) -> None:
        self.newest.acknowledge(len(self.newest.sent))
        self.producer.serve()

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds
        self.producer.serve()

    def are_closed(self) -> bool:
        return all(client.is_closed for client in self.opened)


def test_an_unused_client_may_be_closed_soon_and_one_that_was_used_later() -> None:
    use = ClientUse(100.0)
    assert not use.may_close(109.9)
    assert use.may_close(110.0)
    use.begin()
    use.end(110.0)
    assert not use.may_close(169.9)
    assert use.may_close(170.0)


def test_a_client_may_not_be_closed_while_anybody_holds_it_and_a_look_is_no_use() -> None:
    use = ClientUse(0.0)
    use.begin()
    use.begin()
    use.end_look()
    assert not use.may_close(1000.0)
    use.end_look()
    assert use.may_close(1000.0)


def test_it_has_a_client_from_the_start_so_that_wrong_settings_fail_there() -> None:
    assert len(Clients().opened) == 1

    def refuse() -> MemoryProducer:
        raise ConfigError("no such setting")

    with pytest.raises(ConfigError, match="no such setting"):
        IdleClosingProducer("orders-0", refuse)


def test_its_client_is_closed_when_idle_and_the_next_record_opens_another() -> None:
    clients = Clients()
    assert clients.send(b"1")
    clients.acknowledge()
    clients.pass_by(59)
    assert not clients.newest.is_closed
    clients.pass_by(1)
    eventually(clients.are_closed, 10, "the idle client is closed")
    assert (len(clients.producer), clients.producer.last_error, clients.producer.flush(0)) == (0, None, True)
    assert clients.send(b"2")
    clients.acknowledge()
    assert [client.log for client in clients.opened] == [[("t", None, b"1")], [("t", None, b"2")]]
    assert clients.reported == [True, True]


def test_a_record_on_its_way_keeps_the_client_however_long_that_takes() -> None:
    clients = Clients()
    clients.send()
    clients.pass_by(100_000)
    assert len(clients.producer) == 1
    clients.acknowledge()
    clients.pass_by(59)
    assert clients.reported == [True]
    assert not clients.newest.is_closed


def test_a_unit_keeps_the_client_between_its_begin_and_its_first_record() -> None:
    clients = Clients()
    delivery = clients.producer.delivery(clients.reported.append)
    clients.pass_by(100_000)  # such as a process that was frozen just here
    assert clients.producer.send(KafkaRecord("t", value=b"v"), delivery, never)
    delivery.complete()
    del delivery
    clients.acknowledge()
    assert (clients.reported, len(clients.opened)) == ([True], 1)


def test_a_question_for_topics_wakes_it() -> None:
    clients = Clients()
    clients.pass_by(10)
    eventually(clients.are_closed, 10, "the unused client is closed")
    assert clients.producer.topic_names(1.0) == set()
    assert [client.is_closed for client in clients.opened] == [True, False]


def test_settings_that_are_wrong_when_it_wakes_are_an_error_of_the_record() -> None:
    clients = Clients()
    clients.pass_by(10)
    clients.fail_with = ConfigError("ssl.ca.location is gone")
    with pytest.raises(ConfigError, match="is gone"):
        clients.send()


@pytest.mark.parametrize("is_idle", [False, True])
def test_nothing_is_sent_once_it_is_abandoned(is_idle: bool) -> None:
    clients = Clients()
    if is_idle:
        clients.pass_by(10)
    clients.producer.abandon()
    assert not clients.send()
    assert clients.newest.sent == []


@pytest.mark.parametrize("is_idle", [False, True])
def test_none_is_opened_once_it_is_closed(is_idle: bool) -> None:
    clients = Clients()
    if is_idle:
        clients.pass_by(10)
    clients.producer.close()
    clients.producer.close()
    eventually(clients.are_closed, 10, "clients closed")
    clients.producer.serve()
    with pytest.raises(ConnectError, match="The producer of orders-0 is closed"):
        clients.send()


def test_a_client_that_takes_long_to_close_holds_nobody_up() -> None:
    may_close = threading.Event()

    class Slow(MemoryProducer):
        def close(self) -> None:
            assert may_close.wait(20)
            super().close()

    opened: list[Slow] = []
    now_s = 0.0

    def open_client() -> Slow:
        opened.append(Slow())
        return opened[-1]

    producer = IdleClosingProducer("orders-0", open_client, lambda: now_s)
    now_s = 10.0
    producer.serve()
    assert producer.topic_names(1.0) == set()
    assert [client.is_closed for client in opened] == [False, False]
    may_close.set()
    producer.close()
    eventually(lambda: all(client.is_closed for client in opened), 10, "both closed")


def test_two_threads_that_serve_it_and_one_that_sends_meet_no_closed_client() -> None:
    """The clock jumps a minute with each look, so that it closes the client whenever nothing is on its way."""
    clients = Clients()
    is_over = threading.Event()
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            while not is_over.is_set():
                clients.pass_by(60)
        except BaseException as failure:
            failures.append(failure)

    servers = [threading.Thread(target=serve) for _ in range(2)]
    for server in servers:
        server.start()
    try:
        eventually(clients.are_closed, 10, "it is closed, as nothing is on its way yet")
        for _ in range(300):
            assert clients.send()
            clients.acknowledge()
            assert clients.producer.flush(1)
    finally:
        is_over.set()
        for server in servers:
            server.join(10)
    assert failures == []
    assert clients.reported == [True] * 300
    assert len(clients.opened) > 1
    clients.producer.close()
    eventually(clients.are_closed, 10, "clients closed")
