"""A connector instance whose plugin fails from a thread of its own, while its state changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress

import pytest

from kconnect.errors import ConnectError, TimedOutError
from kconnect.model import RunState, TargetState
from kconnect.runtime.config.variables import Resolved
from kconnect.runtime.herder.connectors.host import SinkHostContext
from kconnect.runtime.herder.connectors.hosted_connector import ConnectorParts, HostedConnector, PluginTimes
from kconnect.runtime.metrics import PluginMetricsRegistry
from kit.sample_connectors import SampleSink

# Longer than any test may take
_ENDLESS_S = 3600.0
# Long enough for the thread that fails to be heard, if nothing keeps it from that
_HEARD_S = 0.3


class Listener:
    """Notes the states reported; while it is reported `during`, the plugin fails on another thread."""

    def __init__(self, during: RunState) -> None:
        self.reported: list[RunState] = []
        self.host: HostedConnector | None = None
        self._during = during
        self._monitor = threading.Thread(target=self._fail)

    def __call__(self, state: RunState, trace: str | None = None, version: str | None = None) -> None:
        if state is self._during:
            self._monitor.start()
            self._monitor.join(_HEARD_S)
        self.reported.append(state)

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
def test_a_connector_that_fails_while_its_new_state_is_reported_is_shown_failed(
    made: list[HostedConnector], target: TargetState, shown: RunState
) -> None:
    listener = Listener(during=shown)
    made.append(hosted(listener))
    made[0].transition_to(target)
    listener.join()
    assert listener.reported == [shown, RunState.FAILED]
    assert not made[0].is_running


def test_a_connector_that_fails_while_it_is_stopped_is_shown_as_what_it_is(made: list[HostedConnector]) -> None:
    listener = Listener(during=RunState.STOPPED)
    made.append(hosted(listener))
    made[0].transition_to(TargetState.STARTED)
    made[0].transition_to(TargetState.STOPPED)
    listener.join()
    assert listener.reported == [RunState.RUNNING, RunState.STOPPED, RunState.FAILED]


def test_a_failure_while_the_end_of_a_connector_is_reported_is_reported_no_more(made: list[HostedConnector]) -> None:
    """A state reported late would cover what another worker that runs the connector by then says of it."""
    listener = Listener(during=RunState.UNASSIGNED)
    made.append(hosted(listener))
    made[0].transition_to(TargetState.STARTED)
    made[0].shut_down()
    listener.join()
    assert listener.reported == [RunState.RUNNING, RunState.UNASSIGNED]


@pytest.mark.parametrize("fails", ["throws", "raises", "hangs"])
def test_a_connector_that_does_not_start_is_shown_failed_with_its_version(
    made: list[HostedConnector], fails: str
) -> None:
    class Fails(SampleSink):
        def start(self, props: Mapping[str, str]) -> None:
            if fails == "hangs":
                let_go.wait(_ENDLESS_S)
            if fails == "throws":
                raise RuntimeError("no such table")
            self.context.raise_error(RuntimeError("no such table"))

    let_go, reported = threading.Event(), list[tuple[RunState, str | None]]()
    metrics = PluginMetricsRegistry().of_plugin(connector="c")
    parts = ConnectorParts(
        "c",
        Fails,
        lambda host: SinkHostContext(host, lambda: None, metrics),
        lambda state, trace=None, version=None: reported.append((state, version)),
        PluginTimes(call_s=0.01 if fails == "hangs" else 10),
    )
    made.append(HostedConnector(parts, lambda: Resolved({})))
    with suppress(ConnectError):  # its status says it
        made[0].transition_to(TargetState.STARTED)
    let_go.set()
    assert reported == [(RunState.FAILED, "4.3.0")]
    assert not made[0].is_running


class Hangs(SampleSink):
    """Hangs in start() or in stop() until it is let go, as a call into Java does."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place
        self.is_let_go = threading.Event()

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._hang("start")

    def stop(self) -> None:
        self._hang("stop")

    def _hang(self, place: str) -> None:
        if place == self._place and not self.is_let_go.wait(_ENDLESS_S):
            raise AssertionError("nobody let it go")


@pytest.mark.parametrize("place", ["start", "stop", "nowhere"])
@pytest.mark.parametrize("end", ["deleted", "stopped"])
def test_a_connector_that_hangs_is_let_go_of_when_it_is_given_up(place: str, end: str) -> None:
    plugin, metrics = Hangs(place), PluginMetricsRegistry().of_plugin(connector="c")
    parts = ConnectorParts(
        "c",
        lambda: plugin,
        lambda host: SinkHostContext(host, lambda: None, metrics),
        lambda state, trace=None, version=None: None,
        PluginTimes(call_s=0.01 if place == "start" else 10, stop_s=0.01 if place == "stop" else 10),
        plugin.is_let_go.set,
        lambda: ["odd.Odd.act(Odd.java:62)"],
    )
    connector = HostedConnector(parts, lambda: Resolved({}))
    with pytest.raises(TimedOutError, match=r"it is at odd\.Odd\.act") if place == "start" else nullcontext():
        connector.transition_to(TargetState.STARTED)
    assert not plugin.is_let_go.is_set()
    if end == "stopped":
        connector.transition_to(TargetState.STOPPED)
        assert plugin.is_let_go.is_set() == (place != "nowhere")
    connector.shut_down()
    assert plugin.is_let_go.is_set() == (place != "nowhere")
