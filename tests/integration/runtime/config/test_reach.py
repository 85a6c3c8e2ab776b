"""Looking for brokers over real sockets."""

from __future__ import annotations

import socket

from kconnect.runtime.config.reach import reach_any
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
        for _ in range(4):  # the kernel takes one or two more than it was told, and then says nothing
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(place)
            waiting.append(sock)
        found = reach_any([place], 0.3)
        for sock in waiting:
            sock.close()
    assert (found.address, found.is_open, dict(found.refused)) == (None, True, {})
