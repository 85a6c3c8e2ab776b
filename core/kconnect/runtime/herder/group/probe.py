"""Checks that a worker's brokers answer, over one connection that is kept open."""

from __future__ import annotations

import random
import time

from kconnect.errors import ConnectError
from kconnect.runtime.config.addresses import Address
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.errors import Unanswered
from kconnect.runtime.herder.group.frames import ApiVersions, KnownBrokers
from kconnect.runtime.herder.group.security import Access

# The share of the timeout that one address may take while there are others
_SHARE = 3


class BrokerProbe:
    """Any broker will do: those of `bootstrap.servers`, and those heard of since. Threads: one."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: tuple[Address, ...] = ()
        self._connection: BrokerConnection | None = None

    def ask(self, within_s: float) -> None:
        """Return when a broker has answered. Errors: ConnectError with the address and why, also when one refuses us.

        A broken connection proves nothing: brokers close idle ones, and are restarted one after the other.
        """
        deadline = time.monotonic() + within_s
        if self._connection is not None and not self._connection.is_worn:
            try:
                self._connection.ask(ApiVersions(), within_s / _SHARE)
            except (Unanswered, ConnectError):
                self._connection = None  # it has closed itself
            else:
                return
        self.close()
        self._connection = self._connected(deadline)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, deadline: float) -> BrokerConnection:
        problems: dict[str, None] = {}
        addresses = self._addresses()
        for number, address in enumerate(addresses):
            left_s = deadline - time.monotonic()
            share_s = left_s / min(_SHARE, len(addresses) - number)
            try:
                connection = BrokerConnection(address, self._access, max(share_s, 0.01))
                brokers = connection.ask(KnownBrokers(), max(deadline - time.monotonic(), 0.01))
                self._known = tuple(brokers)
            except (Unanswered, ConnectError) as err:
                problem = str(err).rstrip(".")
                doubt = self._access.doubt(problem) if isinstance(err, Unanswered) else None
                problems[f"{problem}: {doubt}" if doubt else problem] = None
            else:
                return connection
        raise ConnectError("; ".join(problems))

    def _addresses(self) -> list[Address]:
        bootstrap, known = list(self._access.bootstrap), list(self._known)
        random.shuffle(bootstrap)
        random.shuffle(known)
        return list(dict.fromkeys([*bootstrap, *known]))
