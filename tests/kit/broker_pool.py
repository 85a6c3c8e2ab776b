"""A broker for tests that stop, kill or freeze theirs: who gives it back running leaves it to the next one.

Between two tests it stands still (SIGSTOP): an idle broker takes as much of the processor in a minute and a half as its
start. One that a test has stopped, or left frozen, is replaced when the next one asks.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from kconnect.java.devbroker.dev_broker import ask_broker
from kit.brokers import PatientBroker
from kit.leaks import KEPT
from kit.ports import free_port
from kit.waiting import eventually

__all__ = ["BrokerPool"]

_ANSWERS_S: Final = 30.0
# After a kill a broker waits at its start until the session of the one that was killed is over. Of consumers it takes
# sessions shorter than the usual 6 s, for tests that would wait for the one of a process they killed
_SETTINGS: Final = {"broker.session.timeout.ms": "2000", "group.min.session.timeout.ms": "1000"}
# Its controller misses a broker that has been silent for so long, be it of the same process, and takes it in again
_SHORT_S: Final = 1.5
# Three heartbeats: if it is missed at all it is before the first, and it is back by the next
_STEADY_S: Final = 1.5


class BrokerPool:
    """One broker at a time, in folders below `folder`. Threads: one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._broker: PatientBroker | None = None
        self._pid: int | None = None
        self._frozen_at = 0.0
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[PatientBroker]:
        """A running broker, with whatever the tests before have left in it."""
        broker = self._woken() or self._started()
        self._broker = None
        try:
            yield broker
        except BaseException:
            broker.kill()
            raise
        finally:
            self._take_back(broker)

    def close(self) -> None:
        """End the one that is left."""
        if self._broker is not None:
            self._discard(self._broker)

    def _started(self) -> PatientBroker:
        self._count += 1
        broker = PatientBroker(free_port(), self._folder / f"{self._count}", settings=_SETTINGS)
        broker.start()
        return broker

    def _woken(self) -> PatientBroker | None:
        broker = self._broker
        if broker is None or self._pid is None or broker.pid != self._pid:
            KEPT.discard(self._pid or 0)
            return None
        psutil.Process(self._pid).resume()
        stood_s = time.monotonic() - self._frozen_at
        since = time.monotonic()

        def is_steady() -> bool:
            nonlocal since
            if not _answers(broker):
                since = time.monotonic()
                return False
            return stood_s < _SHORT_S or time.monotonic() - since > _STEADY_S

        eventually(is_steady, _ANSWERS_S, "the broker that stood still answers")
        return broker

    def _take_back(self, broker: PatientBroker) -> None:
        """Keep it if it runs and answers, else end it."""
        KEPT.discard(self._pid or 0)
        pid = broker.pid
        if pid is None or psutil.Process(pid).status() == psutil.STATUS_STOPPED or not _answers(broker):
            self._discard(broker)
            return
        psutil.Process(pid).suspend()
        KEPT.add(pid)
        self._broker, self._pid, self._frozen_at = broker, pid, time.monotonic()

    def _discard(self, broker: PatientBroker) -> None:
        broker.kill()
        KEPT.discard(self._pid or 0)
        self._broker = self._pid = None
        shutil.rmtree(broker.folder.path)


def _answers(broker: PatientBroker) -> bool:
    answer = ask_broker("127.0.0.1", broker.port, timeout_s=5.0)
    return answer is not None and answer.is_ready
