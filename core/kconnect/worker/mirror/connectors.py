"""FlowConnectors: the leader of a flow's workers creates its connectors; each worker tells how they are.

Source: MirrorHerder (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self

from kconnect.errors import ConnectError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorInfo, ConnectorStatus
from kconnect.worker.mirror.settings import Flow

log = logging.getLogger(__name__)

# How soon a new leader, or a new state, is noticed: a look at what is in memory
_LOOK_S: Final = 1.0
_AGAIN_S: Final = (5.0, 15.0, 60.0)


class FlowHerder(Protocol):
    """What is needed of a worker's herder."""

    @property
    def is_leader(self) -> bool: ...
    def connector_config(self, name: str) -> Mapping[str, str]: ...
    def connector_status(self, name: str) -> ConnectorStatus: ...
    def put_connector(self, name: str, config: Mapping[str, str], *, replace: bool) -> tuple[bool, ConnectorInfo]: ...


class FlowConnectors:
    """A context manager, used while the worker is in its group: a thread looks after the connectors meanwhile.

    Only a leader writes, once each time it becomes one, and only what is different: a worker with an older file that
    joins changes nothing. Differs: what fails is tried again; Java's leader waits for the next election.
    """

    def __init__(self, flow: Flow, configs: Mapping[str, Mapping[str, str]], herder: FlowHerder) -> None:
        self._flow = flow
        self._configs = configs
        self._herder = herder
        self._stop = threading.Event()
        self._has_led = False
        self._failures = 0
        self._reported = ""
        self._thread = threading.Thread(target=self._run, name=f"mirror-{flow}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            wait_s = self.look()
            if self._stop.wait(wait_s):
                return

    def look(self) -> float:
        """One look: what a new leader has to write, and states that are new. Gives the seconds until the next."""
        if not self._herder.is_leader:
            self._has_led = False
        elif not self._has_led:
            try:
                self._configure()
            except ConnectError as err:
                wait_s = _AGAIN_S[min(self._failures, len(_AGAIN_S) - 1)]
                self._failures += 1
                log.error(
                    "The connectors of %s are not as the file has them: %s. Next try in %g s", self._flow, err, wait_s
                )
                return wait_s
            self._has_led, self._failures = True, 0
        self._tell()
        return _LOOK_S

    def _configure(self) -> None:
        for name, wanted in self._configs.items():
            try:
                if dict(self._herder.connector_config(name)) == wanted:
                    log.info("%s of %s is as the file has it", name, self._flow)
                    continue
            except NotFoundError:
                pass
            self._herder.put_connector(name, wanted, replace=True)
            log.info("This worker leads %s: it has configured %s", self._flow, name)

    def _tell(self) -> None:
        parts = []
        for name in self._configs:
            try:
                parts.append(_state(self._herder.connector_status(name)))
            except NotFoundError:
                return  # created just now, or by a leader that has not come to it yet
        message = "; ".join(parts)
        if message != self._reported:
            self._reported = message
            log.info("Flow %s: %s", self._flow, message)


def _state(status: ConnectorStatus) -> str:
    by_state: dict[str, int] = {}
    for task in status.tasks:
        by_state[str(task.state)] = by_state.get(str(task.state), 0) + 1
    tasks = ", ".join(f"{pluralize(count, 'task')} {state}" for state, count in sorted(by_state.items()))
    return f"{status.name} {status.connector.state} ({tasks or 'no tasks'})"
