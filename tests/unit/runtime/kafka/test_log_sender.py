"""Which thread tells the writers of a log how their records ended, while others wait for the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest

from kconnect.errors import ConnectError
from kconnect.model import LogPosition
from kconnect.runtime.kafka.log_sender import LogSender
from kit.pace import ample_s
from kit.played_broker import played_broker

OWN = "log-send-orders"


@pytest.fixture
def open_sender() -> Iterator[Callable[[str], LogSender]]:
    opened: list[LogSender] = []

    def open_one(bootstrap: str) -> LogSender:
        sender = LogSender("orders", {"bootstrap.servers": bootstrap, "log_level": 0}, is_idempotent=False)
        opened.append(sender)
        return sender

    with played_broker() as broker:
        yield lambda bootstrap: open_one(bootstrap or broker.bootstrap)
        for sender in opened:
            sender.stop(ample_s(10))


class Reported:
    """What callbacks were reported, and on which threads; the first of them does not return before `held` is set."""

    def __init__(self) -> None:
        self.ends: list[tuple[int, str]] = []
        self.is_in = threading.Event()
        self.held = threading.Event()

    def note(self, number: int, done: Future[LogPosition]) -> None:
        self.ends.append((number, threading.current_thread().name))
        self.is_in.set()
        if number == 0:
            self.held.wait()


def test_futures_end_in_order_and_on_the_senders_thread_though_another_one_flushes(
    open_sender: Callable[[str], LogSender],
) -> None:
    sender, reported = open_sender(""), Reported()
    sender.send(b"k", b"0").add_done_callback(partial(reported.note, 0))
    sender.start()
    try:
        assert reported.is_in.wait(ample_s(20))
        for number in range(1, 4):
            sender.send(b"k", b"%d" % number).add_done_callback(partial(reported.note, number))
        assert not sender.flush(0.5)
        assert reported.ends == [(0, OWN)]
    finally:
        reported.held.set()
    assert sender.flush(ample_s(20))
    assert reported.ends == [(number, OWN) for number in range(4)]


def test_what_a_stop_drops_is_reported_on_the_senders_thread_too(open_sender: Callable[[str], LogSender]) -> None:
    sender, reported = open_sender("127.0.0.1:1"), Reported()
    reported.held.set()
    sent = sender.send(b"k", b"0")
    sent.add_done_callback(partial(reported.note, 0))
    sender.start()
    sender.stop(ample_s(10))
    assert reported.ends == [(0, OWN)]
    with pytest.raises(ConnectError, match="the log was stopped before it was acknowledged"):
        sent.result(0)
    assert sender.flush(0)
