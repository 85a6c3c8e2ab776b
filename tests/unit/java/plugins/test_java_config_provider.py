"""A config provider of Java's is one object in Java, which threads ask side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from kconnect.errors import TimedOutError
from kconnect.java.plugins.java_error import JavaHostDiedError
from kconnect.java.plugins.worker_plugins import JavaConfigProvider
from kit.waiting import stand_still


class Wire:
    """Stands for a connection to Java: what two threads ask at once comes to the wrong one, or to none."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._number = jvm.number
        self._in_use = threading.Lock()

    def call(self, method: str, **arguments: Any) -> Any:
        assert self._in_use.acquire(blocking=False), "two ask at once"
        try:
            if self._number != self._jvm.number:
                raise JavaHostDiedError("gone")
            if arguments.get("path") == "hangs":
                self._jvm.answers.wait(20)
            stand_still(0.001)
        finally:
            self._in_use.release()
        return {"data": {key: f"{key} of {arguments['path']}" for key in arguments.get("keys", ())}, "ttl": None}

    def close(self) -> None: ...


class Jvm:
    def __init__(self) -> None:
        self.number = 1
        self.answers = threading.Event()
        self.roles: list[str] = []


class Vault(JavaConfigProvider):
    turn_s = 0.2
    jvm: ClassVar[Jvm]

    @classmethod
    def connect(cls, role: str, **_: Any) -> Any:
        cls.jvm.roles.append(role)
        return Wire(cls.jvm)


@pytest.fixture
def vault() -> Iterator[Vault]:
    Vault.jvm = Jvm()
    made = Vault()
    made.configure({})
    yield made
    made.close()


def user_of(vault: Vault, path: str) -> str:
    return vault.get(path, ["user"]).values["user"]


def asked_until_refused(vault: Vault) -> None:
    while True:
        user_of(vault, "quick")


def test_threads_that_ask_it_side_by_side_get_each_its_own_answer(vault: Vault) -> None:
    paths = [f"path {number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda path: user_of(vault, path), paths)) == [f"user of {path}" for path in paths]
    assert Vault.jvm.roles.count("worker") == 1
    assert len(Vault.jvm.roles) <= 5, "connections are used again"


def test_one_that_waits_for_an_answer_holds_up_nobody(vault: Vault) -> None:
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(user_of, vault, "hangs")
        assert user_of(vault, "quick") == "user of quick"
        assert not late.done()
        Vault.jvm.answers.set()
        assert late.result(10) == "user of hangs"


def test_when_none_of_eight_has_an_answer_it_is_said(vault: Vault) -> None:
    with ThreadPoolExecutor(8) as pool:
        late = [pool.submit(user_of, vault, "hangs") for _ in range(8)]
        with pytest.raises(TimedOutError, match="has not answered any of 8 other requests for 0 s"):
            asked_until_refused(vault)
        Vault.jvm.answers.set()
        assert [one.result(10) for one in late] == ["user of hangs"] * 8


def test_it_is_made_again_when_its_jvm_is_gone(vault: Vault) -> None:
    assert user_of(vault, "a") == "user of a"
    Vault.jvm.number = 2
    assert user_of(vault, "b") == "user of b"
    assert Vault.jvm.roles == ["worker", "worker_again"] * 2
