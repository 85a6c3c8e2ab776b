"""Statuses and offsets while the broker is away: nothing put is lost, reads end, and all goes on when it is back."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError, TimedOutError
from kconnect.model import RunState, TaskId
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, TopicUse
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kconnect.worker.distributed import offset_topic_clients, status_topic_clients
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

A = b'["c",{"p":"a"}]'
TASK = TaskId("c", 0)


class CountingLog(CompactedLog):
    """Counts the attempts to write."""

    attempts = 0

    def send(self, key, value):
        self.attempts += 1
        return super().send(key, value)


def log_of(clients, admin):
    spec = LogSpec(topic=clients.topic, consumer=clients.log.consumer, producer=clients.log.producer)
    return CountingLog(spec, admin)


def read_again(offsets):
    """What is there for A. Its own patience is short: the client may not have found its broker again."""
    try:
        return offsets.get([A])
    except ConnectError as err:
        raise AssertionError(f"{err}") from err


def test_what_was_put_while_the_broker_was_away_is_written_when_it_is_back(own_broker, request):
    worker = {
        "bootstrap.servers": own_broker.bootstrap,
        "status.storage.topic": topic_for(request, "-statuses"),
        "offset.storage.topic": topic_for(request, "-offsets"),
        "delivery.timeout.ms": "1000",
        "reconnect.backoff.max.ms": "500",
    }
    of_statuses = status_topic_clients(worker, client_id_base="outage-")
    of_offsets = offset_topic_clients(worker, client_id_base="outage-")
    for clients in (of_statuses, of_offsets):
        create_topic(own_broker.bootstrap, clients.topic)
    with KafkaAdmin(of_statuses.log.admin, "outage") as admin:
        status_log = log_of(of_statuses, admin)
        statuses = TopicStatusStore(status_log)
        offsets = TopicOffsetStore(log_of(of_offsets, admin), read_timeout_s=2.0, write_timeout_s=1.0)
        statuses.start()
        offsets.start()
        try:
            statuses.put("c", StoredStatus(RunState.RUNNING, "w", 1))
            statuses.flush(10)
            own_broker.kill()
            old, new = StoredStatus(RunState.RUNNING, "w", 1), StoredStatus(RunState.FAILED, "w", 1, "boom")
            statuses.put(TASK, old)
            statuses.put_topic(TopicUse("t", "c", 0, 5))
            with pytest.raises(TimedOutError, match=r"offset\.flush\.timeout\.ms"):
                offsets.set({A: b'{"at":1}'})
            with pytest.raises(ConnectError, match="offsets"):
                offsets.get([A])
            eventually(lambda: status_log.attempts >= 1 + 2 + 2, 20, "both writes are tried again")
            statuses.put(TASK, new)
            own_broker.start()
            statuses.flush(30)
            eventually(lambda: statuses.status(TASK) == new and "t" in statuses.topics("c"), 15)
            eventually(lambda: read_again(offsets) == {A: b'{"at":1}'}, 15)
        finally:
            statuses.stop()
            offsets.stop()
