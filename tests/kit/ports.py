"""Ports nobody uses."""

from __future__ import annotations

import os
import random
import socket

__all__ = ["free_port", "is_listening"]

# Below those that the system gives out by itself (from 32,768 on), so that nothing else takes one between the look and
# its use; each process of a run on several has its own.
_FIRST, _EACH = 15_000, 4_000
_RANDOM = random.SystemRandom()  # hypothesis seeds the other one
# Whoever was given one may listen later, or again; and topics and groups are named after ports
_GIVEN: set[int] = set()


def free_port() -> int:
    """A port on 127.0.0.1 that is free now, and that this process gives to nobody else."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
    first = _FIRST + process * _EACH
    if len(_GIVEN) > _EACH // 2:
        _GIVEN.clear()  # thousands of tests ago
    while True:
        port = _RANDOM.randrange(first, first + _EACH)
        if port in _GIVEN:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _GIVEN.add(port)
        return port


def is_listening(port: int) -> bool:
    """Whether something accepts connections on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
