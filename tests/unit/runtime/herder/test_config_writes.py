"""What a leader writes to the config topic, in which order, and what counts as written."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError, TimedOutError
from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.cluster.performer import carry_out
from kconnect.runtime.herder.decisions.request_signatures import KeyForm
from kconnect.runtime.herder.decisions.writes import (
    ConfigWrite,
    NewSessionKey,
    PutConfig,
    PutRestart,
    PutStopped,
    PutTasks,
    RemoveConfig,
)
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.config_topic import RestartRequested
from kconnect.runtime.storage.record_log import MemoryTopic
from kit.record_logs import ScriptedLog


class SlowLog(ScriptedLog):
    """Reads to the end that are scripted to, in their order, are not done in time."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(topic)
        self.slow_reads: list[bool] = []

    def read_to_end(self, timeout_s: float, *, awaits_open_transactions: bool = True) -> None:
        super().read_to_end(timeout_s, awaits_open_transactions=awaits_open_transactions)
        if self.slow_reads and self.slow_reads.pop(0):
            raise TimedOutError("not read to its end")


@pytest.fixture
def log() -> SlowLog:
    return SlowLog(MemoryTopic("configs"))


@pytest.fixture
def configs(log: SlowLog) -> TopicConfigStore:
    store = TopicConfigStore(log)
    store.start()
    store.put_connector_config("c", {"name": "c"})
    store.put_task_configs("c", [{"n": "0"}])
    log.sent.clear()
    return store


def write(configs: TopicConfigStore, what: ConfigWrite) -> None:
    carry_out(what, configs, KeyForm(), 1.0)


def keys(log: SlowLog) -> list[str]:
    return [key.decode() for key, _ in log.sent]


@pytest.mark.parametrize(
    ("what", "written"),
    [
        (PutConfig("c", {"name": "c"}), ["connector-c"]),
        (PutConfig("c", {"name": "c"}, TargetState.PAUSED), ["target-state-c", "connector-c"]),
        (RemoveConfig("c"), ["connector-c", "target-state-c"]),
        (PutTasks("c", [{"n": "1"}, {"n": "2"}]), ["task-c-0", "task-c-1", "commit-c"]),
        (PutStopped("c"), ["commit-c", "target-state-c"]),
        (PutRestart(RestartRequested("c", False, True)), ["restart-connector-c"]),
        (NewSessionKey(5), ["session-key"]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_what_is_written_in_which_order(
    configs: TopicConfigStore, log: SlowLog, what: ConfigWrite, written: list[str]
) -> None:
    write(configs, what)
    assert keys(log) == written


def test_a_stopped_connector_has_no_tasks_any_more(configs: TopicConfigStore) -> None:
    write(configs, PutStopped("c"))
    assert configs.snapshot().target_state("c") is TargetState.STOPPED
    assert configs.snapshot().task_count("c") == 0


def test_a_connector_whose_tasks_can_not_be_taken_away_is_not_stopped(configs: TopicConfigStore, log: SlowLog) -> None:
    log.problems = [ConnectError("Could not write task configs to config topic")]
    with pytest.raises(ConnectError, match="Could not write task configs"):
        write(configs, PutStopped("c"))
    assert keys(log) == ["commit-c"]
    assert configs.snapshot().target_state("c") is TargetState.STARTED
    assert configs.snapshot().raw_task_config(TaskId("c", 0)) == {"n": "0"}


def test_a_stop_that_was_written_is_done_though_it_is_not_read_back_in_time(
    configs: TopicConfigStore, log: SlowLog
) -> None:
    log.slow_reads = [False, False, True]
    write(configs, PutStopped("c"))
    assert log.slow_reads == []
    assert keys(log) == ["commit-c", "target-state-c"]
