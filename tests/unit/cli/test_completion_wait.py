"""How long a Tab may wait for names of the cluster."""

from __future__ import annotations

import socket
import time

import pytest

from kconnect_cli.completion.candidates import TIMEOUT, LiveNames
from kit.pace import now


@pytest.mark.parametrize(("given", "least_s", "most_s"), [("", 0.4, 3), ("1500ms", 1.4, 6), ("soon", 0.4, 3)])
def test_a_worker_that_says_nothing_is_waited_for_as_long_as_the_variable_says(
    monkeypatch: pytest.MonkeyPatch, given: str, least_s: float, most_s: float
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("KCONNECT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv(TIMEOUT, given)
        began_s, began = time.monotonic(), now()
        offered = LiveNames(["connectors", "pause"]).sources()["names"]([])
        assert list(offered) == []
        assert time.monotonic() - began_s >= least_s
        assert now() - began < most_s
