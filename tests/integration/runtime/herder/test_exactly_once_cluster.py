"""Exactly-once sources on two workers of a cluster: fencing rounds, task counts, offsets that are changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kconnect.errors import FencedError
from kconnect.java.devbroker import DevBroker
from kconnect.model import ConnectorOffset, RunState, TargetState
from kconnect.runtime.config.exactly_once_settings import exactly_once_producer
from kconnect.runtime.herder.cluster.fenced_starts import fence_zombies
from kconnect.runtime.kafka import KafkaRecord, TransactionalProducer
from kconnect.runtime.storage.offset_topic import encode_key
from kconnect.testing.thread_launcher import ThreadLauncher
from kconnect.worker import DistributedWorker
from kit.distributed_worker import workers
from kit.numbered_source import NUMBERED
from kit.topics import committed_values, open_transaction
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

MOST = 2_000


@pytest.fixture
def cluster(broker: DevBroker, topic: str) -> Iterator[list[DistributedWorker]]:
    settings = {"exactly_once_source_support": "enabled", "offset_flush_interval_ms": "200"}
    with workers(broker.bootstrap, f"eos-{topic[-6:]}", 2, launcher=ThreadLauncher, **settings) as made:
        yield made


def create(cluster: list[DistributedWorker], name: str, topic: str, **more: str) -> DistributedWorker:
    leader = next(worker for worker in cluster if worker.herder.is_leader)
    config = {"name": name, "connector.class": NUMBERED, "topic": topic, "most": str(MOST), "tasks.max": "4", **more}
    leader.herder.put_connector(name, config, replace=True)
    return leader


def await_states(worker: DistributedWorker, name: str, count: int, state: RunState = RunState.RUNNING) -> None:
    def reached() -> bool:
        tasks = next((status.tasks for status in worker.statuses() if status.name == name), ())
        assert not [task.trace for task in tasks if task.state is RunState.FAILED and state is not task.state]
        return [task.state for task in tasks] == [state] * count

    eventually(reached, 20, f"{count} tasks of {name} {state}")


def numbers(tasks: int) -> list[bytes]:
    return sorted(f"{task}:{number}".encode() for task in range(tasks) for number in range(MOST))


def test_tasks_are_fenced_recorded_and_deliver_once_when_their_number_changes(
    broker: DevBroker, topic: str, cluster: list[DistributedWorker]
) -> None:
    leader = create(cluster, "counted", topic, tasks="3")
    await_states(leader, "counted", 3)
    assert leader.herder.assembly.cluster.configs.snapshot().task_count_record("counted") == 3
    create(cluster, "counted", topic, tasks="4")
    await_states(leader, "counted", 4)
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) >= 4 * MOST, 30, "all are there")
    assert sorted(committed_values(broker.bootstrap, topic)) == numbers(4)
    snapshot = leader.herder.assembly.cluster.configs.snapshot()
    assert snapshot.task_count_record("counted") == 4
    assert not snapshot.is_pending_fencing("counted")
    leader.herder.delete_connector("counted")


def test_offsets_of_a_connector_with_a_topic_of_its_own_are_reset_in_both(
    broker: DevBroker, topic: str, cluster: list[DistributedWorker]
) -> None:
    """What hangs for 90 s in Java 4.3.0 and leaves the connector's own topic as it was."""
    leader = create(cluster, "reset", topic, **{"offsets.storage.topic": f"{topic}-own"})
    herder = leader.herder
    await_states(leader, "reset", 1)
    at_end = [ConnectorOffset({"task": "0"}, {"next": MOST})]
    eventually(lambda: herder.connector_offsets("reset") == at_end, 20, "all committed")
    herder.set_target_state("reset", TargetState.STOPPED)
    eventually(lambda: not herder.connector_info("reset").tasks, 20, "no tasks")
    assert "reset successfully" in herder.reset_connector_offsets("reset")
    assert herder.connector_offsets("reset") == []
    assert herder.assembly.cluster.configs.snapshot().task_count_record("reset") == 0
    back = [ConnectorOffset({"task": "0"}, {"next": MOST - 5})]
    assert "altered successfully" in herder.alter_connector_offsets("reset", back)
    assert herder.connector_offsets("reset") == back
    herder.set_target_state("reset", TargetState.STARTED)
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) == MOST + 5, 30, "the last five came again")
    herder.delete_connector("reset")


def test_offsets_are_shown_while_a_transaction_is_open(
    broker: DevBroker, topic: str, cluster: list[DistributedWorker]
) -> None:
    leader = create(cluster, "open", topic)
    herder = leader.herder
    await_states(leader, "open", 1)
    at_end = [ConnectorOffset({"task": "0"}, {"next": MOST})]
    eventually(lambda: herder.connector_offsets("open") == at_end, 20, "all committed")
    with open_transaction(broker.bootstrap, f"eos-{topic[-6:]}-offset", encode_key("open", {"task": "0"})):
        assert herder.connector_offsets("open") == at_end
    herder.delete_connector("open")


def test_a_fenced_producer_can_not_commit(broker: DevBroker, topic: str) -> None:
    worker = {"bootstrap.servers": broker.bootstrap, "group.id": "eos-late"}
    producers = []
    for task in range(2):
        settings, _ = exactly_once_producer(worker, {}, name="late", task=task)
        producer = TransactionalProducer(settings, f"late-{task}")
        assert producer.claim(20, lambda: False)
        producer.begin()
        delivery = producer.delivery(lambda is_acked: None)
        producer.send(KafkaRecord(topic, value=b"late"), delivery, lambda: False)
        delivery.complete()
        del delivery
        assert producer.flush(10)
        producers.append(producer)
    fence_zombies("late", 2, worker, {}, 20)
    for producer in producers:
        with pytest.raises(FencedError, match="a newer producer with the same transactionalId eos-late-late-"):
            producer.commit(lambda: False)
        producer.close()
    assert committed_values(broker.bootstrap, topic) == []
