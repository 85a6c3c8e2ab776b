"""What the config store makes of a topic as it finds it: old, cut, compacted, damaged."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.model import TargetState
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.snapshot import TasksUpdated
from kit.config_records import C1, C2, CONFIGS, CONNECTOR, TASKS, TWO_TASKS, has, started


@pytest.fixture
def topic():
    return MemoryTopic("configs")


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


def test_a_topic_of_two_partitions_is_refused():  # testExceptionOnStartWhenConfigTopicHasMultiplePartitions
    store = TopicConfigStore(MemoryRecordLog(MemoryTopic("configs", partitions=2)))
    with pytest.raises(ConfigError, match=r"required to have a single partition .* but found 2 partitions") as reported:
        store.start()
    assert reported.value.problems[0].key == "config.storage.topic"


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


def test_bad_records_are_logged_with_their_place_and_change_nothing(topic, caplog):
    has(topic, *CONNECTOR, ("connector-connector1", '{"properties":{"password":1}}'), ("what-is-this", "{}"))
    has(topic, ("task-connector1-x", "{}"), ("commit-connector1", None))
    store, _ = started(topic)
    assert store.snapshot().config(C1) == CONFIGS[0]
    assert store.snapshot().offset == 5
    reported = [record.getMessage() for record in caplog.records]
    assert reported == [
        "Ignored the record connector-connector1 at offset 1 of configs: 'properties' has a setting 'password' that is "
        "a number, not text",
        "Ignored the unknown record what-is-this at offset 2 of configs",
        "Ignored the record task-connector1-x at offset 3 of configs: the key does not end with the number of a task",
    ]


def test_a_value_that_is_no_json_is_not_counted_as_read_as_in_java(topic):
    has(topic, *CONNECTOR, ("connector-connector1", "{no"))
    store, _ = started(topic)
    assert store.snapshot().offset == 1
