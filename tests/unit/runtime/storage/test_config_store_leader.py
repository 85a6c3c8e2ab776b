"""The right to write the config topic, with exactly-once support: claimed, lost, one transaction a write."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kconnect.errors import ConflictError, ConnectError, FencedError
from kconnect.model import TargetState
from kconnect.runtime.storage.config_topic import RestartRequested
from kconnect.runtime.storage.record_log import Entry, MemoryTopic, MemoryWriter
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import ConnectorUpdated
from kit.config_records import C1, C2, CONFIGS, started


@pytest.fixture
def topic():
    return MemoryTopic("configs")


class CountingWriter(MemoryWriter):
    """Notes its transactions and how often it was claimed and let go."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(topic)
        self.transactions: list[list[str]] = []
        self.claims = self.stops = 0

    def claim(self, timeout_s: float) -> None:
        self.claims += 1
        super().claim(timeout_s)

    def write(self, entries: Sequence[Entry], timeout_s: float) -> None:
        super().write(entries, timeout_s)
        self.transactions.append([key.decode() for key, _ in entries])

    def stop(self) -> None:
        self.stops += 1
        super().stop()


def test_write_privileges_are_claimed_lost_to_another_and_claimed_again(topic):  # testWritePrivileges
    writer = CountingWriter(topic)
    store, news = started(topic, exclusive_writer=writer)
    with pytest.raises(ConflictError, match="without claiming write privileges first") as refused:
        store.put_task_count_record(C1, 6)
    assert not isinstance(refused.value, FencedError)

    store.claim_write_privileges()
    store.claim_write_privileges()
    store.put_task_count_record(C1, 6)
    assert (writer.claims, store.snapshot().task_count_record(C1)) == (1, 6)

    MemoryWriter(topic).claim(1)  # another leader
    with pytest.raises(FencedError, match="Failed to perform fencable send to topic configs"):
        store.put_connector_config(C2, CONFIGS[0])
    assert writer.stops == 1
    with pytest.raises(ConflictError, match="without claiming"):
        store.put_connector_config(C2, CONFIGS[0])
    assert not store.contains(C2)

    store.put_target_state(C2, TargetState.PAUSED)  # anybody may
    store.put_logger_level("a", "INFO")

    store.claim_write_privileges()
    store.put_connector_config(C2, CONFIGS[0])
    store.stop()
    assert (writer.claims, writer.stops) == (2, 2)
    assert writer.transactions == [["tasks-fencing-connector1"], ["connector-connector2"]]
    assert ConnectorUpdated(C2) in news


def test_each_logical_write_is_one_transaction(topic):
    writer = CountingWriter(topic)
    store, _ = started(topic, exclusive_writer=writer)
    store.claim_write_privileges()
    store.put_connector_config(C1, CONFIGS[0], TargetState.STARTED)
    store.put_task_configs(C1, CONFIGS[:2])
    store.put_restart_request(RestartRequested(C1, only_failed=True, include_tasks=True))
    store.put_session_key(SessionKey(b"k", "HmacSHA256", 1))
    store.put_target_state(C1, TargetState.PAUSED)
    store.put_logger_level("a", "INFO")
    store.put_task_configs(C1, [])
    store.remove_connector_config(C1)
    assert writer.transactions == [
        ["target-state-connector1", "connector-connector1"],
        ["task-connector1-0", "task-connector1-1"],
        ["commit-connector1"],
        ["restart-connector-connector1"],
        ["session-key"],
        ["commit-connector1"],
        ["connector-connector1", "target-state-connector1"],
    ]


class UnclaimableWriter(CountingWriter):
    """Nobody gives it the right."""

    def claim(self, timeout_s: float) -> None:
        raise ConnectError("coordinator not available")


def test_a_claim_that_fails_is_reported_and_leaves_nothing_open(topic):
    writer = UnclaimableWriter(topic)
    store, _ = started(topic, exclusive_writer=writer)
    with pytest.raises(ConnectError, match="coordinator not available"):
        store.claim_write_privileges()
    assert writer.stops == 1


def test_without_exactly_once_nothing_has_to_be_claimed(topic):
    store, _ = started(topic)
    store.claim_write_privileges()
    store.put_connector_config(C1, CONFIGS[0])
    assert store.contains(C1)
