"""What commands say of a worker that is starting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kconnect.client.worker_start import start_of
from kconnect.errors import ConnectError
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kconnect.model import ConnectorStatus


# Longer than any answer of a worker that has started; shorter than the patience of who looks at an empty screen
_PATIENCE_S = 1.0


@contextmanager
def reporting_start(session: CliSession) -> Iterator[None]:
    """Inside, a request that waits for a starting worker says so after a second."""
    if session.direct is not None:
        yield
        return
    timer = threading.Timer(_PATIENCE_S, _tell, (session,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def report_unassigned(session: CliSession, statuses: Iterable[ConnectorStatus]) -> None:
    """Say why tasks are UNASSIGNED, where their worker is starting."""
    if text := unassigned_text(session, statuses):
        session.say(f"{session.url} is {text}")


def unassigned_text(session: CliSession, statuses: Iterable[ConnectorStatus]) -> str:
    """What a start says, where tasks are UNASSIGNED because their worker is starting; else empty."""
    start = session.reader.health().start if has_unassigned(statuses) else None
    return "" if start is None else start.text


def has_unassigned(statuses: Iterable[ConnectorStatus]) -> bool:
    return any(str(task.state) == "UNASSIGNED" for status in statuses for task in status.tasks)


def _tell(session: CliSession) -> None:
    """On the timer's thread, with a client of its own. The request itself tells what is wrong, if anything is."""
    try:
        with session.another_client() as client:
            start = start_of(client)
    except ConnectError:
        return
    if start is not None:
        session.say(f"{session.url} is {start.text} Waiting for it.")
