"""Which connectors' configs the config providers watch, where they can tell changes themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from kconnect.runtime.config.variables import Variables


class WatchedConfigs:
    """The subscriptions of all connectors. States: open -> closed. Threads: any.

    `look` is called on a thread of the provider and must return at once.
    """

    def __init__(self, variables: Variables, look: Callable[[str], None]) -> None:
        self._variables = variables
        self._look = look
        self._lock = threading.RLock()  # guards the two below; a provider may call back while it subscribes
        self._watched: dict[str, tuple[Mapping[str, str], Callable[[], None]]] = {}
        self._closed = False

    def watch(self, connector: str, config: Mapping[str, str]) -> None:
        """Watch the references of this config, in place of those watched so far; an empty one ends it."""
        with self._lock:
            if self._closed or self._watched.get(connector, ({}, None))[0] == config:
                return
            self._end(connector)
            if config:
                end = self._variables.watch(config, f"connector {connector}", partial(self._look, connector))
                self._watched[connector] = (config, end)

    def close(self) -> None:
        """End all subscriptions. Idempotent."""
        with self._lock:
            self._closed = True
            for connector in list(self._watched):
                self._end(connector)

    def _end(self, connector: str) -> None:
        _, end = self._watched.pop(connector, (None, None))
        if end is not None:
            end()
