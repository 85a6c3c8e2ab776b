"""Who creates a flow's connectors, and when: a worker that becomes the leader, once."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from kconnect.errors import ConflictError, NotFoundError
from kconnect.model import ConnectorInfo, ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskState
from kconnect.worker.mirror import Flow
from kconnect.worker.mirror.flows import FlowConnectors

_WANTED = {"MirrorSourceConnector": {"name": "MirrorSourceConnector", "topics": "orders"}, "Other": {"name": "Other"}}


class Herder:
    """A cluster in memory."""

    def __init__(self) -> None:
        self.is_leader = False
        self.configs: dict[str, Mapping[str, str]] = {}
        self.written: list[str] = []
        self.refuses = 0
        self.task_state = RunState.RUNNING

    def connector_config(self, name: str) -> Mapping[str, str]:
        if name not in self.configs:
            raise NotFoundError(f"Unknown connector {name}")
        return self.configs[name]

    def connector_status(self, name: str) -> ConnectorStatus:
        self.connector_config(name)
        tasks = (TaskState(0, self.task_state, "w:1"),)
        return ConnectorStatus(name, ConnectorState(RunState.RUNNING, "w:1"), tasks, ConnectorType.SOURCE)

    def put_connector(self, name: str, config: Mapping[str, str], *, replace: bool) -> tuple[bool, ConnectorInfo]:
        assert replace
        if self.refuses:
            self.refuses -= 1
            raise ConflictError("A rebalance is in progress")
        self.configs[name] = config
        self.written.append(name)
        return True, ConnectorInfo(name, config, (), ConnectorType.SOURCE)


@pytest.fixture
def herder() -> Herder:
    return Herder()


@pytest.fixture
def connectors(herder: Herder) -> FlowConnectors:
    return FlowConnectors(Flow("A", "B"), _WANTED, herder)


def test_only_a_new_leader_writes_and_only_what_is_different(herder: Herder, connectors: FlowConnectors) -> None:
    connectors.look()
    assert herder.written == []
    herder.is_leader = True
    connectors.look()
    assert herder.written == ["MirrorSourceConnector", "Other"]
    assert herder.configs == _WANTED

    # Somebody changes one by hand: it stays so, until another worker leads
    herder.configs["Other"] = {"name": "Other", "tasks.max": "3"}
    connectors.look()
    assert herder.written == ["MirrorSourceConnector", "Other"]
    herder.is_leader = False
    connectors.look()
    herder.is_leader = True
    connectors.look()
    assert herder.written == ["MirrorSourceConnector", "Other", "Other"]


def test_what_is_refused_is_tried_again_later_each_time(herder: Herder, connectors: FlowConnectors) -> None:
    herder.is_leader, herder.refuses = True, 2
    assert [connectors.look() for _ in range(3)] == [5.0, 15.0, 1.0]
    assert herder.configs == _WANTED


def test_states_are_reported_when_they_change(
    herder: Herder, connectors: FlowConnectors, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    herder.is_leader = True
    for state in (RunState.RUNNING, RunState.RUNNING, RunState.FAILED):
        herder.task_state = state
        connectors.look()
    reported = [record.message for record in caplog.records if record.message.startswith("Flow A->B: ")]
    assert [line.count("FAILED") for line in reported] == [0, 2]
    assert "MirrorSourceConnector RUNNING (1 task RUNNING)" in reported[0]
