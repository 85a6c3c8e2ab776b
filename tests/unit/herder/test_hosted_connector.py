"""A connector instance whose plugin fails from a thread of its own, while its state changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kconnect.config.variables import Resolved
from kconnect.herder.connectors.context import SinkHostContext
from kconnect.herder.connectors.hosted_connector import ConnectorParts, HostedConnector, PluginTimes
from kconnect.metrics import PluginMetricsRegistry
from kconnect.model import RunState, TargetState
from kit.sample_connectors import SampleSink

# Long enough for the thread that fails to be heard, if nothing keeps it from that
_HEARD_S = 0.3


class Listener:
    """Notes the states told; while it is told `during`, the plugin fails on another thread."""

    def __init__(self, during: RunState) -> None:
        self.told: list[RunState] = []
        self.host: HostedConnector | None = None
        self._during = during
        self._monitor = threading.Thread(target=self._fail)

    def __call__(self, state: RunState, trace: str | None = None, version: str | None = None) -> None:
        if state is self._during:
            self._monitor.start()
            self._monitor.join(_HEARD_S)
        self.told.append(state)

    def join(self) -> None:
        self._monitor.join(10)
        assert not self._monitor.is_alive()

    def _fail(self) -> None:
        assert self.host is not None
        self.host.fail(RuntimeError("the table is gone"))


def hosted(listener: Listener) -> HostedConnector:
    metrics = PluginMetricsRegistry().of_plugin(connector="c")
    parts = ConnectorParts(
        "c", SampleSink, lambda host: SinkHostContext(host, lambda: None, metrics), listener, PluginTimes()
    )
    listener.host = HostedConnector(parts, lambda: Resolved({}))
    return listener.host


@pytest.fixture
def made() -> Iterator[list[HostedConnector]]:
    """Connectors of a test, which are shut down behind it."""
    connectors: list[HostedConnector] = []
    yield connectors
    for connector in connectors:
        connector.shut_down()


@pytest.mark.parametrize(
    ("target", "shown"),
    [(TargetState.STARTED, RunState.RUNNING), (TargetState.PAUSED, RunState.PAUSED)],
)
def test_a_connector_that_fails_while_its_new_state_is_told_is_shown_failed(
    made: list[HostedConnector], target: TargetState, shown: RunState
) -> None:
    listener = Listener(during=shown)
    made.append(hosted(listener))
    made[0].transition_to(target)
    listener.join()
    assert listener.told == [shown, RunState.FAILED]
    assert not made[0].is_running


def test_a_connector_that_fails_while_it_is_stopped_is_shown_as_what_it_is(made: list[HostedConnector]) -> None:
    listener = Listener(during=RunState.STOPPED)
    made.append(hosted(listener))
    made[0].transition_to(TargetState.STARTED)
    made[0].transition_to(TargetState.STOPPED)
    listener.join()
    assert listener.told == [RunState.RUNNING, RunState.STOPPED, RunState.FAILED]


def test_a_failure_while_the_end_of_a_connector_is_told_is_told_no_more(made: list[HostedConnector]) -> None:
    """A state told late would cover what another worker that runs the connector by then says of it."""
    listener = Listener(during=RunState.UNASSIGNED)
    made.append(hosted(listener))
    made[0].transition_to(TargetState.STARTED)
    made[0].shut_down()
    listener.join()
    assert listener.told == [RunState.RUNNING, RunState.UNASSIGNED]
