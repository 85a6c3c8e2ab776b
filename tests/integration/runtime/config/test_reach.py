"""Looking for brokers over real sockets."""

from __future__ import annotations

import socket
import threading

import pytest

from kconnect.runtime.config.reach import hello_of_broker, reach_any
from kit.pace import now
from kit.ports import free_port


def test_one_that_listens_is_found_whatever_the_others_do():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = reach_any([("127.0.0.1", free_port()), ("127.0.0.1", port)], 5)
    assert found.address == ("127.0.0.1", port)


def test_nobody_is_known_at_once_and_named_with_the_reason():
    port = free_port()
    began = now()
    found = reach_any([("127.0.0.1", port), ("no.such.host.invalid", 1)], 30)
    assert now() - began < 10
    assert (found.address, found.is_open) == (None, False)
    assert found.refused["127.0.0.1", port] == "Connection refused"
    assert ("no.such.host.invalid", 1) in found.refused


def test_silence_ends_with_the_time_and_is_no_refusal():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        place = full.getsockname()
        waiting = []
        for _ in range(4):  # the kernel takes one or two more than it was reported, and then says nothing
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(place)
            waiting.append(sock)
        found = reach_any([place], 0.3)
        for sock in waiting:
            sock.close()
    assert (found.address, found.is_open, dict(found.refused)) == (None, True, {})


@pytest.mark.parametrize("tls", [False, True])
def test_one_that_takes_connections_and_says_nothing_is_reported_from_one_that_answers(tls):
    hello = hello_of_broker(tls=tls)
    with socket.create_server(("127.0.0.1", 0)) as frozen, socket.create_server(("127.0.0.1", 0)) as answers:
        places = [frozen.getsockname(), answers.getsockname()]
        assert reach_any(places[:1], 5).address == places[0]
        silent = reach_any(places[:1], 0.3, hello)
        assert (silent.address, silent.is_open) == (None, True)

        def answer() -> None:
            with answers.accept()[0] as taken:
                assert taken.recv(5)
                taken.sendall(b"x")

        thread = threading.Thread(target=answer)
        thread.start()
        assert reach_any(places, 20, hello).address == places[1]
        thread.join()


def test_a_real_broker_answers_the_hello(broker):
    host, _, port = broker.bootstrap.rpartition(":")
    assert reach_any([(host, int(port))], 20, hello_of_broker(tls=False)).address is not None
