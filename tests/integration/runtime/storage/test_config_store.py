"""What every ConfigStore keeps to: in memory and on a topic, with the log's own producer and with an exclusive one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pytest

from kconnect.errors import ConfigError, ConflictError, FencedError
from kconnect.model import TargetState, TaskId
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, KafkaExclusiveWriter, LogSpec
from kconnect.runtime.storage.config_clients import config_topic_clients, leader_transactional_id
from kconnect.runtime.storage.config_store import ConfigStore, Listener, TopicConfigStore
from kconnect.runtime.storage.config_topic import ForeignRecord, LoggerLevelSet, RestartRequested, SessionKeySet
from kconnect.runtime.storage.record_log import ExclusiveWriter, MemoryRecordLog, MemoryTopic, MemoryWriter, RecordLog
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import (
    Change,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateChanged,
    TasksUpdated,
)
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

WITHIN_S = 20.0
CONFIG = {"connector.class": "X", "name": "a-0", "ü→😀": '"'}


@dataclass
class Cluster:
    """One config topic; any number of workers' stores on it, which are stopped at the end of the test."""

    new_log: Callable[[], RecordLog]
    new_writer: Callable[[], ExclusiveWriter] | None
    stores: list[ConfigStore] = field(default_factory=list)

    def worker(self, listener: Listener | None = None) -> ConfigStore:
        store: ConfigStore = TopicConfigStore(self.new_log(), self.new_writer and self.new_writer())
        self.stores.append(store)
        store.set_listener(listener or (lambda change: None))
        store.start()
        return store

    def leader(self, listener: Listener | None = None) -> ConfigStore:
        store = self.worker(listener)
        store.claim_write_privileges()
        return store


KINDS = [
    "memory",
    "memory-exclusive",
    pytest.param("kafka", marks=pytest.mark.broker),
    pytest.param("kafka-exclusive", marks=pytest.mark.broker),
]


@pytest.fixture(scope="module", params=KINDS)
def ground(request) -> tuple[str | None, bool]:
    """Where the broker is (None: in memory), and whether the leader's writes are exclusive."""
    servers = None if "memory" in request.param else request.getfixturevalue("broker").bootstrap
    return servers, "exclusive" in request.param


@pytest.fixture
def cluster(ground, request) -> Iterator[Cluster]:
    servers, is_exclusive = ground
    name = topic_for(request)
    with ExitStack() as stack:
        if servers is None:
            found = _in_memory(MemoryTopic(name), is_exclusive)
        else:
            found = _on_kafka(servers, name, is_exclusive, stack)
        yield found
        for store in found.stores:
            store.stop()


def _in_memory(topic: MemoryTopic, is_exclusive: bool) -> Cluster:
    return Cluster(partial(MemoryRecordLog, topic), partial(MemoryWriter, topic) if is_exclusive else None)


def _on_kafka(servers: str, name: str, is_exclusive: bool, stack: ExitStack) -> Cluster:
    """As a worker sets its clients up, with exactly once enabled or disabled."""
    support = "enabled" if is_exclusive else "disabled"
    worker = {"bootstrap.servers": servers, "group.id": name, "exactly.once.source.support": support}
    clients = config_topic_clients(worker, client_id_base=f"{name}-")
    create_topic(servers, name, config={"cleanup.policy": "compact"})
    admin = stack.enter_context(KafkaAdmin(clients.log.admin, "test"))
    settings = clients.log
    spec = LogSpec(
        topic=name, consumer=settings.consumer, producer=settings.producer, isolation_level=clients.isolation_level
    )
    writer = clients.leader and partial(KafkaExclusiveWriter, name, clients.leader, leader_transactional_id(worker))
    return Cluster(partial(CompactedLog, spec, admin), writer)


def test_what_the_leader_writes_it_has_read_when_the_call_returns(cluster):
    store = cluster.leader()
    assert (store.snapshot().offset, store.snapshot().connectors) == (-1, ())
    store.put_connector_config("a-0", CONFIG, TargetState.PAUSED)
    assert (store.snapshot().config("a-0"), store.contains("a-0")) == (CONFIG, True)
    assert store.snapshot().target_state("a-0") is TargetState.PAUSED
    store.put_task_configs("a-0", [{"n": str(number)} for number in range(3)])
    assert [store.snapshot().task_config(task) for task in store.snapshot().tasks("a-0")] == [
        {"n": "0"},
        {"n": "1"},
        {"n": "2"},
    ]
    store.put_task_configs("a-0", [{"n": "3"}])
    assert (store.snapshot().task_count("a-0"), store.snapshot().task_config(TaskId("a-0", 0))) == (1, {"n": "3"})
    assert (store.snapshot().raw_task_config(TaskId("a-0", 1)), store.snapshot().inconsistent) == (None, frozenset())
    store.put_task_count_record("a-0", 3)
    assert (store.snapshot().task_count_record("a-0"), store.snapshot().is_pending_fencing("a-0")) == (3, False)
    key = SessionKey(b"0123", "HmacSHA256", 17)
    store.put_session_key(key)
    assert store.snapshot().session_key == key
    store.remove_connector_config("a-0")
    after = store.snapshot()
    assert (after.contains("a-0"), after.tasks("a-0"), after.target_state("a-0")) == (False, (), None)


def test_other_workers_are_reported_of_everything_in_its_order(cluster):
    news: list[Change] = []
    leader, follower = cluster.leader(), cluster.worker(news.append)
    key, restart = SessionKey(b"0123", "HmacSHA256", 17), RestartRequested("c", only_failed=True, include_tasks=False)
    leader.put_session_key(key)
    leader.put_connector_config("c", CONFIG, TargetState.STARTED)
    leader.put_task_configs("c", [{}, {}])
    leader.put_restart_request(restart)
    leader.put_task_configs("c", [])
    leader.put_target_state("c", TargetState.STOPPED)
    leader.put_logger_level("org.x", "DEBUG")
    leader.remove_connector_config("c")
    expected = [
        SessionKeySet(key),
        ConnectorUpdated("c"),
        TasksUpdated("c", (TaskId("c", 0), TaskId("c", 1))),
        restart,
        TasksUpdated("c", ()),
        TargetStateChanged("c"),
        LoggerLevelSet("org.x", "DEBUG"),
        ConnectorRemoved("c"),
    ]
    eventually(lambda: len(news) >= len(expected), WITHIN_S, "the follower is reported")
    assert news == expected
    follower.refresh(WITHIN_S)
    assert follower.snapshot() == leader.snapshot()


def test_any_worker_may_say_what_is_wanted_of_a_connector(cluster):
    leader, follower = cluster.leader(), cluster.worker()
    leader.put_connector_config("c", CONFIG)
    follower.put_target_state("c", TargetState.PAUSED)
    follower.put_logger_level("org.x", "DEBUG")
    leader.refresh(WITHIN_S)
    assert leader.snapshot().target_state("c") is TargetState.PAUSED


def test_who_starts_later_sees_the_same_at_the_same_offset_and_is_reported_nothing(cluster):
    news: list[Change] = []
    leader = cluster.leader()
    for name in ("b", "a"):
        leader.put_connector_config(name, CONFIG)
        leader.put_task_configs(name, [CONFIG])
    leader.remove_connector_config("b")
    leader.put_connector_config("b", CONFIG, TargetState.STOPPED)
    late = cluster.worker(news.append)
    snapshot = late.snapshot()
    assert snapshot == leader.snapshot()
    assert snapshot.target_states == {"a": TargetState.STARTED, "b": TargetState.STOPPED}
    assert (snapshot.tasks("a"), snapshot.tasks("b"), news) == ((TaskId("a", 0),), (), [])
    assert snapshot.applied_config("a") == leader.snapshot().applied_config("a") == CONFIG


def test_a_stopped_store_is_reported_no_more_and_can_be_stopped_again(cluster):
    news: list[Change] = []
    leader, follower = cluster.leader(), cluster.worker(news.append)
    follower.stop()
    leader.put_connector_config("c", CONFIG)
    follower.stop()
    assert (news, follower.contains("c")) == ([], False)


def test_a_new_leader_takes_the_right_to_write_from_the_old_one(cluster):
    if cluster.new_writer is None:
        _without_exclusive_writers_all_may_write(cluster)
        return
    old, new = cluster.leader(), cluster.worker()
    with pytest.raises(ConflictError, match="without claiming"):
        new.put_connector_config("c", CONFIG)
    old.put_connector_config("c", {"by": "old"})
    new.claim_write_privileges()
    with pytest.raises(FencedError):
        old.put_connector_config("c", {"by": "old, too late"})
    with pytest.raises(ConflictError, match="without claiming"):
        old.put_task_configs("c", [{}])
    new.put_connector_config("d", {"by": "new"})
    assert (new.snapshot().config("c"), new.snapshot().config("d")) == ({"by": "old"}, {"by": "new"})
    old.claim_write_privileges()
    old.put_task_configs("c", [{"by": "old again"}])
    assert (old.snapshot().connectors, old.snapshot().task_count("c")) == (("c", "d"), 1)


def test_a_store_knows_which_record_of_a_leader_s_it_has_not_written(cluster):
    ours, theirs = cluster.leader(), cluster.worker()
    ours.put_connector_config("c", CONFIG, TargetState.PAUSED)
    ours.put_task_configs("c", [{"n": "0"}, {"n": "1"}])
    ours.put_session_key(SessionKey(b"k" * 32, "HmacSHA256", 1))
    theirs.refresh(WITHIN_S)
    assert theirs.foreign is not None
    assert theirs.foreign.key == "session-key"
    theirs.put_target_state("c", TargetState.STARTED)
    theirs.put_logger_level("root", "DEBUG")
    ours.refresh(WITHIN_S)
    assert ours.foreign is None, "its own, and what any worker may write"
    theirs.claim_write_privileges()
    theirs.put_connector_config("d", CONFIG)
    ours.refresh(WITHIN_S)
    assert ours.foreign == ForeignRecord("connector-d", ours.snapshot().offset - 1)
    late = cluster.worker()
    assert late.foreign is None, "what was there when it started is of whoever led before"


def _without_exclusive_writers_all_may_write(cluster: Cluster) -> None:
    old, new = cluster.worker(), cluster.worker()
    old.put_connector_config("c", CONFIG)
    new.put_connector_config("d", CONFIG)
    assert new.snapshot().connectors == ("c", "d")


@pytest.mark.broker
def test_a_topic_of_two_partitions_is_refused_and_nothing_is_left_running(broker, request):
    name, config = topic_for(request), {"bootstrap.servers": broker.bootstrap}
    create_topic(broker.bootstrap, name, partitions=2, config={"cleanup.policy": "compact"})
    with KafkaAdmin(config, "test") as admin:
        store = TopicConfigStore(CompactedLog(LogSpec(topic=name, consumer=config, producer=config), admin))
        with pytest.raises(ConfigError, match=r"single partition .* but found 2 partitions"):
            store.start()
