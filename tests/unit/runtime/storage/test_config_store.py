"""The config store on a log in memory, behaviour by behaviour of Kafka's own KafkaConfigBackingStoreTest."""

from __future__ import annotations

import pytest

from kconnect.model import TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.config_topic import LoggerLevelSet, RestartRequested, SessionKeySet
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import ConnectorRemoved, ConnectorUpdated, TargetStateChanged, TasksUpdated
from kit.config_records import C1, C2, CONFIGS, CONNECTOR, TASKS, TWO_TASKS, has, started


@pytest.fixture
def topic():
    return MemoryTopic("configs")


def writes(topic) -> list[str]:
    return [record.key.decode() for record in topic.records]


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


@pytest.mark.parametrize("include_tasks", [True, False])
@pytest.mark.parametrize("only_failed", [True, False])
def test_restart_requests_are_written_and_reported(
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


def test_levels_of_loggers_are_written_and_only_new_ones_are_reported(topic):  # testPutLogLevel
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


def test_only_tasks_of_the_connector_that_changed_are_reported(topic):  # testPutTaskConfigsStartsOnlyReconfiguredTasks
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
    store, seen = TopicConfigStore(MemoryRecordLog(topic)), []
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
