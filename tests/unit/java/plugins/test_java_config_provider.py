"""A config provider of Java's has one connection, whoever asks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kconnect.java.plugins.catalogue import JavaConfigProvider
from kit.waiting import stand_still


class Wire:
    """Stands for the connection to Java: what two threads ask at once comes to the wrong one, or to none."""

    def __init__(self) -> None:
        self._in_use = threading.Lock()

    def call(self, method: str, **arguments: Any) -> Any:
        assert self._in_use.acquire(blocking=False), "two ask at once"
        stand_still(0.001)
        self._in_use.release()
        return {"data": {key: f"{key} of {arguments['path']}" for key in arguments.get("keys", ())}, "ttl": None}

    def close(self) -> None: ...


class Vault(JavaConfigProvider):
    @classmethod
    def connect(cls, role: str, **_: Any) -> Any:
        return Wire()


def test_threads_that_ask_it_side_by_side_get_each_its_own_answer() -> None:
    vault = Vault()
    vault.configure({})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: vault.get(f"path {number}", ["user"]).values, range(40)))
    assert found == [{"user": f"user of path {number}"} for number in range(40)]
    vault.close()
