"""What a worker waits for while it starts, as commands and screens show it: `Spark is starting (3 s).`"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kconnect.errors import ConnectError, NotFoundError
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kconnect.client import ConnectClient
    from kconnect.model import ConnectorStatus


_JAVAS_WORDS = "Worker is still starting up."
# Longer than any answer of a worker that has started; shorter than the patience of who looks at an empty screen
_PATIENCE_S = 1.0


def start_of(client: ConnectClient) -> dict[str, Any] | None:
    """What /health says of a worker that is starting; None for any other. Workers before Kafka 3.9 cannot say it."""
    try:
        body = client.health()
    except NotFoundError:
        return None
    return body if body.get("status") == "starting" else None


def start_text(body: dict[str, Any] | None) -> str:
    """`starting: Spark is starting (3 s).`; empty for a worker that does not."""
    if body is None:
        return ""
    waits_for = str(body.get("message", "")).removeprefix(_JAVAS_WORDS).strip()
    return f"starting: {waits_for}" if waits_for else "starting"


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
    """Works as `start_text`, where tasks are UNASSIGNED because their worker is starting; else empty."""
    if session.direct is not None or not has_unassigned(statuses):
        return ""
    return start_text(start_of(session.client))


def has_unassigned(statuses: Iterable[ConnectorStatus]) -> bool:
    return any(str(task.state) == "UNASSIGNED" for status in statuses for task in status.tasks)


def _tell(session: CliSession) -> None:
    """On the timer's thread, with a client of its own. The request itself tells what is wrong, if anything is."""
    try:
        with session.another_client() as client:
            text = start_text(start_of(client))
    except ConnectError:
        return
    if text:
        session.say(f"{session.url} is {text} Waiting for it.")
