"""The config store on a log in memory, behaviour by behaviour of Kafka's own KafkaConfigBackingStoreTest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from kconnect.errors import ConfigError, ConflictError, ConnectError, FencedError, TimedOutError
from kconnect.model import LogPosition, TargetState, TaskId
from kconnect.storage import config_topic
from kconnect.storage.config_clients import config_topic_clients
from kconnect.storage.config_store import READ_WRITE_TIMEOUT_S, TopicConfigStore
from kconnect.storage.config_topic import LoggerLevelSet, RestartRequested, SessionKeySet
from kconnect.storage.record_log import Entry, MemoryLog, MemoryTopic, MemoryWriter
from kconnect.storage.session_key import SessionKey
from kconnect.storage.snapshot import ConnectorRemoved, ConnectorUpdated, TargetStateChanged, TasksUpdated
from kconnect.testing import ManualClock

C1, C2 = "connector1", "connector2"
CONFIGS = ({"config-key-one": "1"}, {"config-key-two": "2"}, {"config-key-three": "3"})
TASKS = (TaskId(C1, 0), TaskId(C1, 1))


@pytest.fixture
def topic():
    return MemoryTopic("configs")


def started(topic, **more):
    """A store that was started, and the list of its news."""
    store, news = TopicConfigStore(MemoryLog(topic), **more), []
    store.set_listener(news.append)
    store.start()
    return store, news


def has(topic, *entries: tuple[str, str | None]):
    for key, value in entries:
        topic.append(key.encode(), None if value is None else value.encode())


def writes(topic) -> list[str]:
    return [record.key.decode() for record in topic.records]


CONNECTOR = [("connector-connector1", '{"properties":{"config-key-one":"1"}}')]
TWO_TASKS = [
    ("task-connector1-0", '{"properties":{"config-key-one":"1"}}'),
    ("task-connector1-1", '{"properties":{"config-key-two":"2"}}'),
    ("commit-connector1", '{"tasks":2}'),
]


def test_starting_reads_what_is_there_and_stopping_ends_the_news(topic):  # testStartStop
    has(topic, *CONNECTOR)
    store, news = started(topic)
    assert store.contains(C1)
    store.stop()
    has(topic, ("connector-connector2", '{"properties":{}}'))
    assert (store.contains(C2), news) == (False, [])
    store.stop()


def test_a_snapshot_can_not_change_the_store(topic):  # testSnapshotCannotMutateInternalState
    has(topic, *CONNECTOR, *TWO_TASKS)
    store, _ = started(topic)
    snapshot = store.snapshot()
    for mapping in (snapshot.configs, snapshot.configs[C1], snapshot.task_configs[C1], snapshot.target_states):
        with pytest.raises(TypeError):
            mapping["x"] = "y"
    store.put_connector_config(C1, CONFIGS[2])
    assert snapshot.config(C1) == CONFIGS[0]
    assert store.snapshot().config(C1) == CONFIGS[2]


def test_connectors_are_there_as_soon_as_they_are_put_and_gone_when_removed(topic):  # testPutConnectorConfig
    store, news = started(topic)
    assert (store.snapshot().offset, store.snapshot().config(C1)) == (-1, None)
    store.put_connector_config(C1, CONFIGS[0])
    assert (store.snapshot().offset, store.snapshot().config(C1)) == (1, CONFIGS[0])
    store.put_connector_config(C2, CONFIGS[1])
    assert (store.snapshot().offset, store.snapshot().connectors) == (2, (C1, C2))
    store.remove_connector_config(C2)
    after = store.snapshot()
    assert (after.offset, after.config(C1), after.config(C2), after.target_state(C2)) == (4, CONFIGS[0], None, None)
    assert news == [ConnectorUpdated(C1), ConnectorUpdated(C2), ConnectorRemoved(C2)]


def test_a_first_target_state_is_written_before_its_connector_and_is_no_news(
    topic,
):  # testPutConnectorConfigWithTargetState
    store, news = started(topic)
    store.put_connector_config(C1, CONFIGS[0], TargetState.STOPPED)
    assert writes(topic) == ["target-state-connector1", "connector-connector1"]
    assert (store.snapshot().offset, store.snapshot().target_state(C1)) == (2, TargetState.STOPPED)
    assert news == [ConnectorUpdated(C1)]


class RefusingLog(MemoryLog):
    """Its producer is told that it may not write."""

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        done: Future[LogPosition] = Future()
        done.set_exception(ConnectError("not authorized to access topic configs"))
        return done


def test_what_the_producer_fails_with_is_told(topic):  # testPutConnectorConfigProducerError
    store = TopicConfigStore(RefusingLog(topic))
    store.start()
    with pytest.raises(ConnectError, match="Error writing connector configuration to topic configs: not auth") as told:
        store.put_connector_config(C1, CONFIGS[0])
    assert isinstance(told.value.__cause__, ConnectError)
    with pytest.raises(ConnectError, match="Error writing target state to topic configs: not authorized"):
        store.put_target_state(C1, TargetState.PAUSED)
    assert store.snapshot().connectors == ()


class SlowLog(MemoryLog):
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

    def read_to_end(self, timeout_s: float) -> None:
        self.given_s.append(timeout_s)
        super().read_to_end(timeout_s)


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


def test_a_producer_slower_than_the_deadline_is_told_with_the_time(topic):
    clock = ManualClock()
    store = TopicConfigStore(SlowLog(topic, clock, [31]), clock=clock)
    store.start()
    with pytest.raises(TimedOutError, match=r"Error writing session key to topic configs: .* within 30 s"):
        store.put_session_key(SessionKey(b"k", "HmacSHA256", 1))


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


def test_a_claim_that_fails_is_told_and_leaves_nothing_open(topic):
    writer = UnclaimableWriter(topic)
    store, _ = started(topic, exclusive_writer=writer)
    with pytest.raises(ConnectError, match="Failed to claim the right to write to topic configs: coordinator"):
        store.claim_write_privileges()
    assert writer.stops == 1


def test_without_exactly_once_nothing_has_to_be_claimed(topic):
    store, _ = started(topic)
    store.claim_write_privileges()
    store.put_connector_config(C1, CONFIGS[0])
    assert store.contains(C1)


def test_a_target_state_deleted_without_its_connector_is_started(topic):  # testRestoreTargetStateUnexpectedDeletion
    has(topic, *CONNECTOR, *TWO_TASKS[:2], ("target-state-connector1", None), TWO_TASKS[2])
    store, _ = started(topic)
    assert (store.snapshot().offset, store.snapshot().connectors) == (5, (C1,))
    assert store.snapshot().target_state(C1) is TargetState.STARTED


def test_target_states_of_old_workers_and_of_connectors_yet_to_come_are_kept(topic):  # testRestoreTargetState
    legacy = ("target-state-connector1", '{"state":"PAUSED"}')
    stopped = ("target-state-connector2", '{"state":"PAUSED","state.v2":"STOPPED"}')
    has(topic, *CONNECTOR, *TWO_TASKS[:2], legacy, TWO_TASKS[2], stopped)
    store, news = started(topic)
    snapshot = store.snapshot()
    assert (snapshot.offset, snapshot.connectors) == (6, (C1,))
    assert (snapshot.target_state(C1), snapshot.target_state(C2)) == (TargetState.PAUSED, TargetState.STOPPED)
    assert news == []


def test_a_start_gives_the_last_of_everything_and_no_news(topic):  # testRestore
    has(
        topic,
        ("tasks-fencing-connector1", '{"task-count":6}'),
        *CONNECTOR,
        ("task-connector1-0", '{"properties":{"config-key-one":"1"}}'),
        ("task-connector1-1", '{"properties":{"config-key-one":"1"}}'),
        ("connector-connector1", '{"properties":{"config-key-two":"2"}}'),
        ("tasks-fencing-connector1", '{"task-count":9}'),
        ("commit-connector1", '{"tasks":2}'),
        ("connector-connector1", '{"properties":{"config-key-three":"3"}}'),  # after the commit: counts
        ("task-connector1-0", '{"properties":{"config-key-two":"2"}}'),  # after the commit: waits for the next
        ("logger-cluster-a", '{"level":"INFO"}'),
    )
    store, news = started(topic)
    snapshot = store.snapshot()
    assert (snapshot.offset, snapshot.connectors, snapshot.tasks(C1)) == (10, (C1,), TASKS)
    assert (snapshot.config(C1), snapshot.applied_config(C1)) == (CONFIGS[2], CONFIGS[1])
    assert snapshot.task_config(TASKS[0]) == snapshot.task_config(TASKS[1]) == CONFIGS[0]
    assert (snapshot.target_state(C1), snapshot.task_count_record(C1)) == (TargetState.STARTED, 9)
    assert (snapshot.inconsistent, snapshot.is_pending_fencing(C1), news) == (frozenset(), True, [])


def test_a_connector_deleted_before_its_commit_is_not_there(topic):  # testRestoreConnectorDeletion
    deletion = [("connector-connector1", None), ("target-state-connector1", None)]
    has(topic, *CONNECTOR, *TWO_TASKS[:2], *deletion, TWO_TASKS[2])
    store, news = started(topic)
    snapshot = store.snapshot()
    assert (snapshot.offset, snapshot.connectors, snapshot.tasks(C1), snapshot.target_state(C1)) == (6, (), (), None)
    assert (snapshot.inconsistent, news) == (frozenset(), [])


def test_a_commit_of_no_tasks_takes_the_former_ones_away(topic):  # testRestoreZeroTasks
    later = [
        ("connector-connector1", '{"properties":{"config-key-three":"3"}}'),
        ("task-connector1-0", '{"properties":{"config-key-two":"2"}}'),
        ("commit-connector1", '{"tasks":0}'),
    ]
    has(topic, *CONNECTOR, *TWO_TASKS, *later)
    store, _ = started(topic)
    snapshot = store.snapshot()
    assert (snapshot.offset, snapshot.config(C1), snapshot.tasks(C1)) == (7, CONFIGS[2], ())
    assert (snapshot.task_configs[C1], snapshot.inconsistent) == ({}, frozenset())


@pytest.mark.parametrize("include_tasks", [True, False])
@pytest.mark.parametrize("only_failed", [True, False])
def test_restart_requests_are_written_and_told(
    topic, include_tasks, only_failed
):  # testPutRestartRequestOnlyFailed, testPutRestartRequestOnlyFailedIncludingTasks, testRecordToRestartRequest
    store, news = started(topic)
    request = RestartRequested(C1, only_failed=only_failed, include_tasks=include_tasks)
    store.put_restart_request(request)
    assert news == [request]
    assert writes(topic) == ["restart-connector-connector1"]


def test_a_restart_request_without_only_failed_is_for_all(topic):  # testRecordToRestartRequestOnlyFailedInconsistent
    _, news = started(topic)
    has(topic, ("restart-connector-connector1", '{"include-tasks":true,"only-failed":"yes"}'))
    assert news == [RestartRequested(C1, only_failed=False, include_tasks=True)]


def test_a_restart_request_without_include_tasks_is_for_the_connector(
    topic,
):  # testRecordToRestartRequestIncludeTasksInconsistent
    _, news = started(topic)
    has(topic, ("restart-connector-connector1", '{"only-failed":true}'))
    assert news == [RestartRequested(C1, only_failed=True, include_tasks=False)]


WORKER = {"bootstrap.servers": "127.0.0.1:9092", "group.id": "my-cluster"}


@pytest.mark.parametrize("own", [{}, {"transactional.id": "mine", "enable.idempotence": "false"}])
def test_the_leaders_producer_is_transactional_whatever_the_user_says(
    own,
):  # testFencableProducerPropertiesInsertedByDefault, testFencableProducerPropertiesOverrideUserSuppliedValues
    clients = config_topic_clients({**WORKER, **own, "exactly.once.source.support": "preparing"}, client_id_base="c-")
    assert clients.leader is not None
    fixed = {"transactional.id": "connect-cluster-my-cluster", "enable.idempotence": "true", "acks": "all"}
    assert {key: clients.leader[key] for key in fixed} == fixed
    assert len(clients.warnings) == len(own)


@pytest.mark.parametrize(
    ("support", "own", "level"),
    [
        # testConsumerPropertiesNotInsertedByDefaultWithoutExactlyOnceSourceEnabled
        ("preparing", {}, "read_uncommitted"),
        ("disabled", {}, "read_uncommitted"),
        # testConsumerPropertiesDoNotOverrideUserSuppliedValuesWithoutExactlyOnceSourceEnabled
        ("preparing", {"isolation.level": "read_committed"}, "read_committed"),
        # testConsumerPropertiesInsertedByDefaultWithExactlyOnceSourceEnabled
        ("enabled", {}, "read_committed"),
        # testConsumerPropertiesOverrideUserSuppliedValuesWithExactlyOnceSourceEnabled
        ("enabled", {"isolation.level": "read_uncommitted"}, "read_committed"),
    ],
)
def test_the_log_is_read_committed_with_exactly_once_and_else_as_the_user_says(support, own, level):
    clients = config_topic_clients({**WORKER, **own, "exactly.once.source.support": support}, client_id_base="c-")
    assert clients.isolation_level == level


def test_client_ids_name_the_topic_and_the_leader():  # testClientIds
    clients = config_topic_clients({**WORKER, "exactly.once.source.support": "enabled"}, client_id_base="base-")
    assert clients.leader is not None
    ids = [kind["client.id"] for kind in (clients.log.producer, clients.log.consumer, clients.leader)]
    assert ids == ["base-configs", "base-configs", "base-configs-leader"]
    assert config_topic_clients(WORKER, client_id_base="base-").leader is None


def test_a_topic_of_two_partitions_is_refused():  # testExceptionOnStartWhenConfigTopicHasMultiplePartitions
    store = TopicConfigStore(MemoryLog(MemoryTopic("configs", partitions=2)))
    with pytest.raises(ConfigError, match=r"required to have a single partition .* but found 2 partitions") as told:
        store.start()
    assert told.value.problems[0].key == "config.storage.topic"


def test_a_deletion_by_another_worker_takes_tasks_and_what_waits_along(topic):  # testBackgroundConnectorDeletion
    has(topic, *CONNECTOR, *TWO_TASKS, ("task-connector1-0", '{"properties":{"x":"waits"}}'))
    store, news = started(topic)
    assert store.snapshot().task_count(C1) == 2
    has(topic, ("connector-connector1", None), ("target-state-connector1", None))
    store.refresh(0)
    assert news == [ConnectorRemoved(C1)]
    snapshot = store.snapshot()
    assert (snapshot.contains(C1), snapshot.task_count(C1), snapshot.task_config(TASKS[0])) == (False, 0, None)
    has(topic, *CONNECTOR, ("commit-connector1", '{"tasks":1}'))
    assert store.snapshot().inconsistent == {C1}  # the task that waited went with the deletion


def test_a_new_whole_set_ends_what_compaction_and_a_lost_leader_left(
    topic,
):  # testPutTaskConfigsDoesNotResolveAllInconsistencies
    has(topic, *CONNECTOR, *TWO_TASKS, ("task-connector1-0", '{"properties":{"config-key-two":"2"}}'))
    topic.compact()
    store, news = started(topic)
    snapshot = store.snapshot()
    assert (snapshot.offset, snapshot.connectors, snapshot.inconsistent) == (5, (C1,), {C1})
    assert (snapshot.tasks(C1), snapshot.task_config(TASKS[0]), snapshot.task_config(TASKS[1])) == ((), None, None)
    store.put_task_configs(C1, CONFIGS[:1])
    after = store.snapshot()
    assert (after.offset, after.tasks(C1), after.task_config(TASKS[0])) == (7, TASKS[:1], CONFIGS[0])
    assert (after.inconsistent, news) == (frozenset(), [TasksUpdated(C1, TASKS[:1])])


def test_restart_requests_from_before_the_start_are_no_news(topic):  # testRestoreRestartRequestInconsistentState
    has(topic, ("restart-connector-connector1", "{}"), ("restart-connector-connector1", '{"only-failed":1}'))
    _, news = started(topic)
    assert news == []


def test_a_set_of_no_tasks_is_only_a_commit(topic):  # testPutTaskConfigsZeroTasks
    store, news = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    store.put_task_configs(C1, [])
    assert writes(topic)[1:] == ["commit-connector1"]
    assert (store.snapshot().offset, store.snapshot().tasks(C1)) == (2, ())
    assert news == [ConnectorUpdated(C1), TasksUpdated(C1, ())]


def test_removing_tasks_is_a_set_of_no_tasks(topic):
    store, _ = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    store.put_task_configs(C1, CONFIGS)
    store.remove_task_configs(C1)
    assert store.snapshot().tasks(C1) == ()


def test_a_target_state_of_another_worker_is_news_for_a_connector_that_is_there(
    topic,
):  # testBackgroundUpdateTargetState
    has(topic, *CONNECTOR)
    store, news = started(topic)
    has(topic, ("target-state-connector1", '{"state":"PAUSED","state.v2":"PAUSED"}'))
    has(topic, ("target-state-connector2", '{"state":"PAUSED","state.v2":"STOPPED"}'))
    assert news == [TargetStateChanged(C1)]
    assert store.snapshot().target_state(C1) is TargetState.PAUSED
    assert store.snapshot().target_state(C2) is TargetState.STOPPED


def test_the_same_target_state_again_is_no_news(topic):  # testSameTargetState
    has(topic, *CONNECTOR)
    store, news = started(topic)
    store.put_target_state(C1, TargetState.STARTED)
    assert (news, store.snapshot().target_state(C1)) == ([], TargetState.STARTED)


def test_levels_of_loggers_are_written_and_only_new_ones_are_told(topic):  # testPutLogLevel
    has(topic, ("logger-cluster-org.old", '{"level":"WARN"}'))
    store, news = started(topic)
    store.put_logger_level("org.apache", "ERROR")
    has(topic, ("logger-cluster-org.other", '{"level":5}'))
    assert news == [LoggerLevelSet("org.apache", "ERROR")]


def test_task_count_records_end_the_wait_for_fencing_and_sets_are_counted(topic):  # testTaskCountRecordsAndGenerations
    store, _ = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    before = store.snapshot()
    assert (before.is_pending_fencing(C1), before.task_count_record(C1), before.task_config_generation(C1)) == (
        False,
        None,
        None,
    )
    store.put_task_configs(C1, CONFIGS[:2])
    after = store.snapshot()
    assert (after.is_pending_fencing(C1), after.task_count_record(C1), after.task_config_generation(C1)) == (
        True,
        None,
        0,
    )
    store.put_task_count_record(C1, 4)
    fenced = store.snapshot()
    assert (fenced.is_pending_fencing(C1), fenced.task_count_record(C1), fenced.task_config_generation(C1)) == (
        False,
        4,
        0,
    )
    store.put_task_configs(C1, CONFIGS[:1])
    assert (store.snapshot().is_pending_fencing(C1), store.snapshot().task_config_generation(C1)) == (True, 1)


def test_tasks_are_there_when_the_whole_set_is(topic):  # testPutTaskConfigs
    store, news = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    assert store.snapshot().task_config(TASKS[0]) is None
    store.put_task_configs(C1, CONFIGS[:2])
    snapshot = store.snapshot()
    assert (snapshot.offset, snapshot.tasks(C1), snapshot.inconsistent) == (4, TASKS, frozenset())
    assert [snapshot.task_config(task) for task in TASKS] == [*CONFIGS[:2]]
    assert writes(topic)[1:] == ["task-connector1-0", "task-connector1-1", "commit-connector1"]
    assert news == [ConnectorUpdated(C1), TasksUpdated(C1, TASKS)]


def test_only_tasks_of_the_connector_that_changed_are_told(topic):  # testPutTaskConfigsStartsOnlyReconfiguredTasks
    store, news = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    store.put_connector_config(C2, CONFIGS[1])
    store.put_task_configs(C1, CONFIGS[:2])
    store.put_task_configs(C2, CONFIGS[2:])
    assert news[2:] == [TasksUpdated(C1, TASKS), TasksUpdated(C2, (TaskId(C2, 0),))]
    assert store.snapshot().task_config(TASKS[0]) == CONFIGS[0]
    assert store.snapshot().task_config(TaskId(C2, 0)) == CONFIGS[2]


def test_tasks_are_written_when_all_before_was_read(topic):
    store, _ = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    with topic.held_back():
        store.put_task_configs(C1, CONFIGS[:2])
        assert store.snapshot().tasks(C1) == TASKS


def test_a_session_key_is_news(topic):
    store, news = started(topic)
    key = SessionKey(b"secret", "HmacSHA256", 5)
    store.put_session_key(key)
    assert (store.snapshot().session_key, news) == (key, [SessionKeySet(key)])


def test_bad_records_are_logged_with_their_place_and_change_nothing(topic, caplog):
    has(topic, *CONNECTOR, ("connector-connector1", '{"properties":{"password":1}}'), ("what-is-this", "{}"))
    has(topic, ("task-connector1-x", "{}"), ("commit-connector1", None))
    store, _ = started(topic)
    assert store.snapshot().config(C1) == CONFIGS[0]
    assert store.snapshot().offset == 5
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "Ignored the record connector-connector1 at offset 1 of configs: 'properties' has a setting 'password' that is "
        "a number, not text",
        "Ignored the unknown record what-is-this at offset 2 of configs",
        "Ignored the record task-connector1-x at offset 3 of configs: the key does not end with the number of a task",
    ]


def test_a_value_that_is_no_json_is_not_counted_as_read_as_in_java(topic):
    has(topic, *CONNECTOR, ("connector-connector1", "{no"))
    store, _ = started(topic)
    assert store.snapshot().offset == 1


def test_settings_are_resolved_where_they_are_asked_for_and_applied_ones_once(topic):
    asked = []

    def transform(config, connector):
        asked.append(connector)
        return {key: f"{value}/{len(asked)}" for key, value in config.items()}

    has(topic, *CONNECTOR, *TWO_TASKS)
    store, _ = started(topic, transform=transform)
    snapshot = store.snapshot()
    assert (snapshot.raw_config(C1), snapshot.raw_task_config(TASKS[1])) == (CONFIGS[0], CONFIGS[1])
    assert asked == []
    assert snapshot.config(C1) == {"config-key-one": "1/1"}
    assert snapshot.task_config(TASKS[1]) == {"config-key-two": "2/2"}
    assert snapshot.applied_config(C1) == store.snapshot().applied_config(C1) == {"config-key-one": "1/3"}
    assert asked == [C1, C1, None]


def test_news_come_without_a_lock_so_that_a_listener_may_look(topic):
    store, seen = TopicConfigStore(MemoryLog(topic)), []
    store.set_listener(lambda change: seen.append((change, store.snapshot().connectors, store.contains(C1))))
    store.start()
    store.put_connector_config(C1, CONFIGS[0])
    assert seen == [(ConnectorUpdated(C1), (C1,), True)]


def test_a_store_that_joins_later_sees_the_same(topic):
    store, _ = started(topic)
    store.put_connector_config(C1, CONFIGS[0])
    store.put_task_configs(C1, CONFIGS[:2])
    store.put_target_state(C1, TargetState.STOPPED)
    other, _ = started(topic)
    assert other.snapshot().config(C1) == store.snapshot().config(C1)
    assert other.snapshot().tasks(C1) == store.snapshot().tasks(C1)
    assert other.snapshot().target_states == store.snapshot().target_states
    assert config_topic.encode_commit(C1, 2)[1] in [record.value for record in topic.records]
