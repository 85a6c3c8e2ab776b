"""The ports that documents tell their readers: one page at a time has them, also when two runs are side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kconnect.files.file_turn import turn
from kit.ports import is_listening

__all__ = ["usual_ports"]

_PORTS: Final = (9092, 9192, 8081, 8083, 8084, 8443, 5432)
# Of the machine, whatever TMPDIR a run has
_LOCK: Final = Path("/tmp") / f"kconnect-tests-usual-ports-{os.getuid()}"
# Each page has them for a minute or so, and whoever waits may see several go first
_WAIT_S: Final = 600.0


@contextmanager
def usual_ports() -> Iterator[None]:
    """Inside, this process alone has them. Errors: AssertionError that names those that another program has, before
    or behind it.
    """
    with turn(_LOCK, _WAIT_S) as is_ours:
        assert is_ours, f"another run of the tests has had the usual ports for long: see who holds {_LOCK}"
        _assert_free("Stop what listens there: documents use the usual ports.")
        yield
        _assert_free("Left listening by the page.")


def _assert_free(what: str) -> None:
    taken = [port for port in _PORTS if is_listening(port)]
    assert not taken, f"Ports are taken: {', '.join(map(str, taken))}. {what}"
