"""Finds the broker that leads the group, and opens connections to it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

from kconnect.runtime.config.addresses import Address
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.errors import GroupRefusal, Unanswered
from kconnect.runtime.herder.group.frames import FindCoordinator, KnownBrokers
from kconnect.runtime.herder.group.security import Access


class Coordinator:
    """Remembers the coordinator's address until a caller finds it gone. Threads: any; lookups hold no lock."""

    def __init__(self, access: Access, group_id: str, timeout_s: float) -> None:
        """`timeout_s` is for opening one connection, and for one answer of a lookup."""
        self._access = access
        self._group_id = group_id
        self._timeout_s = timeout_s
        self._lock = threading.Lock()  # guards the two below
        self._address: Address | None = None
        self._brokers: tuple[Address, ...] = ()

    def connect(self, within_s: float = float("inf")) -> BrokerConnection:
        """A new connection to the coordinator, which is looked up if it is unknown.

        Errors: Unanswered, GroupRefusal if no broker knows it; ConnectError if one side refuses the other.
        """
        deadline = time.monotonic() + within_s
        address = self.find(within_s)
        try:
            return BrokerConnection(address, self._access, self._time_left(deadline))
        except Unanswered:
            self.forget(address)
            raise

    def find(self, within_s: float = float("inf")) -> Address:
        """The coordinator's address, which is looked up if it is unknown. Errors: as `connect`."""
        with self._lock:
            address = self._address
        if address is None:
            address = self._found(time.monotonic() + within_s)
            with self._lock:
                self._address = address
        return address

    def forget(self, address: Address) -> None:
        """It does not lead the group any more, or does not answer."""
        with self._lock:
            if self._address == address:
                self._address = None

    def _found(self, deadline: float) -> Address:
        problem: Unanswered | GroupRefusal = Unanswered("no broker is known")
        for address in self._candidates():
            try:
                connection = BrokerConnection(address, self._access, self._time_left(deadline))
            except Unanswered as err:
                problem = err
                continue
            try:
                return self._look_up(connection)
            except (Unanswered, GroupRefusal) as err:
                problem = err
            finally:
                connection.close()
        raise problem

    def _time_left(self, deadline: float) -> float:
        left = min(self._timeout_s, deadline - time.monotonic())
        if left <= 0:
            raise Unanswered("no broker answers in time")
        return left

    def _look_up(self, connection: BrokerConnection) -> Address:
        found = connection.ask(FindCoordinator(self._group_id), self._timeout_s)
        brokers = connection.ask(KnownBrokers(), self._timeout_s)
        with self._lock:
            self._brokers = tuple(brokers)
        if found.error:
            raise GroupRefusal(found.error, "asking who leads the group")
        return found.host, found.port

    def _candidates(self) -> Iterator[Address]:
        """Brokers heard of in any order, then those of `bootstrap.servers`, each once."""
        with self._lock:
            known = list(self._brokers)
        random.shuffle(known)
        bootstrap = list(self._access.bootstrap)
        random.shuffle(bootstrap)
        yield from dict.fromkeys([*known, *bootstrap])
