"""Why a connector did not start: the worker's answer does not say; the connector's status has the trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect.logs.java_messages import is_failed_start

if TYPE_CHECKING:
    from kconnect.client import ConnectClient


@contextmanager
def cause_of_failed_start(client: ConnectClient, name: str) -> Iterator[None]:
    """Around a request that starts a connector: if it fails to start, the error says why, and that it exists now."""
    try:
        yield
    except ConnectError as err:
        if not is_failed_start(str(err)):
            raise
        trace = client.connector_status(name).connector.trace
        from kconnect.logs.traces import root_cause

        cause = root_cause(trace) or "the worker does not say why"
        raise ConnectError(
            f"Connector {name} exists now, but is FAILED: {cause}",
            hint=f"Correct its settings: connect config set {name} KEY=VALUE. "
            f"connect connectors show {name} has the trace; connect connectors delete {name} removes it.",
        ) from err
