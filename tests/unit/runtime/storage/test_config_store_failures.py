"""Writes of the config store that are refused or late: one deadline for each, and what is reported."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from kconnect.errors import ConnectError, TimedOutError
from kconnect.model import LogPosition, TargetState
from kconnect.runtime.storage.config_store import READ_WRITE_TIMEOUT_S, TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.testing import ManualClock
from kit.config_records import C1, CONFIGS


@pytest.fixture
def topic():
    return MemoryTopic("configs")


class RefusingLog(MemoryRecordLog):
    """Its producer is refused."""

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        done: Future[LogPosition] = Future()
        done.set_exception(ConnectError("not authorized to access topic configs"))
        return done


def test_what_the_producer_fails_with_is_reported(topic):  # testPutConnectorConfigProducerError
    store = TopicConfigStore(RefusingLog(topic))
    store.start()
    with pytest.raises(
        ConnectError, match="Error writing connector configuration to topic configs: not auth"
    ) as reported:
        store.put_connector_config(C1, CONFIGS[0])
    assert isinstance(reported.value.__cause__, ConnectError)
    with pytest.raises(ConnectError, match="Error writing target state to topic configs: not authorized"):
        store.put_target_state(C1, TargetState.PAUSED)
    assert store.snapshot().connectors == ()


class SlowLog(MemoryRecordLog):
    """Each acknowledgement takes a while, of which the clock knows; notes how long it was given."""

    def __init__(self, topic: MemoryTopic, clock: ManualClock, takes_s: Sequence[float]) -> None:
        super().__init__(topic)
        self.clock, self.takes_s, self.given_s = clock, list(takes_s), []

    def send(self, key, value):
        log, done = self, super().send(key, value)

        class Slow(Future):
            def result(self, timeout=None):
                log.given_s.append(timeout)
                took_s = log.takes_s.pop(0)
                log.clock.advance(min(took_s, timeout))
                if took_s > timeout:
                    raise TimeoutError
                return done.result()

        return Slow()

    def read_to_end(self, timeout_s: float, *, awaits_open_transactions: bool = True) -> None:
        self.given_s.append(timeout_s)
        super().read_to_end(timeout_s, awaits_open_transactions=awaits_open_transactions)


def test_one_deadline_of_30_s_spans_all_writes_and_the_way_back(topic):  # testRemoveConnectorConfigSlowProducer
    clock = ManualClock()
    log = SlowLog(topic, clock, [READ_WRITE_TIMEOUT_S - 1, 1])
    store = TopicConfigStore(log, clock=clock)
    store.start()
    log.given_s.clear()
    store.remove_connector_config(C1)
    assert log.given_s == [30, 1, 0]


def test_tasks_are_written_at_the_end_of_what_was_read_and_committed_when_they_were_read_back(topic):
    clock = ManualClock()
    log = SlowLog(topic, clock, [1, 1, 1])
    store = TopicConfigStore(log, clock=clock)
    store.start()
    log.given_s.clear()
    store.put_task_configs(C1, CONFIGS[:2])
    read_before, first, second, read_tasks, commit, read_commit = log.given_s
    assert (read_before, first, second, read_tasks, commit, read_commit) == (30, 30, 29, 28, 28, 27)


def test_a_producer_slower_than_the_deadline_is_reported_with_the_time(topic):
    clock = ManualClock()
    store = TopicConfigStore(SlowLog(topic, clock, [31]), clock=clock)
    store.start()
    with pytest.raises(TimedOutError, match=r"Error writing session key to topic configs: .* within 30 s"):
        store.put_session_key(SessionKey(b"k", "HmacSHA256", 1))
