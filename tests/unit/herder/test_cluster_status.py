"""Statuses of a worker that was out of its group: what others have taken over meanwhile is not covered."""

from __future__ import annotations

import pytest

from kconnect.errors import TimedOutError
from kconnect.herder.cluster.status import ClusterStatus
from kconnect.model import ConnectorType, RunState, TaskId, TaskState
from kconnect.storage.record_log import MemoryLog, MemoryTopic
from kconnect.storage.status_store import TopicStatusStore
from kconnect.storage.status_topic import StoredStatus

TASK = TaskId("conn", 0)
WITHIN_S = 5.0


class Store(TopicStatusStore):
    """Does not reach the topic's end while it `is_late`."""

    is_late = False

    def refresh(self, timeout_s: float) -> None:
        if self.is_late:
            raise TimedOutError("not read to its end")
        super().refresh(timeout_s)


@pytest.fixture
def topic():
    return MemoryTopic("status")


@pytest.fixture
def stores(topic):
    return [Store(MemoryLog(topic)) for _ in range(2)]


@pytest.fixture
def workers(topic, stores):
    """The frozen worker's statuses, and the store of the worker that takes over, on one topic."""
    for store in stores:
        store.start()
    frozen = ClusterStatus(stores[0])
    frozen.worker_id, frozen.generation = "frozen:8083", 6
    frozen.set_connector("conn", RunState.RUNNING)
    frozen.expect_task(TASK, 1, None)
    frozen.report_task(TASK, 1, RunState.RUNNING, None)
    yield topic, frozen, stores[1]
    for store in stores:
        store.stop()


def stop_all(status):
    status.withhold()
    status.end_runs([TASK])
    status.set_connector("conn", RunState.UNASSIGNED)


def test_a_worker_that_wakes_does_not_cover_what_runs_elsewhere(workers):
    topic, frozen, other = workers
    with topic.held_back():  # the frozen worker has not read it
        for subject in ("conn", TASK):
            other.put(subject, StoredStatus(RunState.RUNNING, "other:8083", 7))
        stop_all(frozen)
        frozen.generation = 8
        frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "other:8083", 7)
    assert other.status(TASK).state is RunState.RUNNING


def test_what_others_run_is_not_covered_when_that_is_not_read_in_time(workers, stores):
    """The broker has just come back, say: who runs what by now is not known."""
    topic, frozen, other = workers
    with topic.held_back():
        for subject in ("conn", TASK):
            other.put(subject, StoredStatus(RunState.RUNNING, "other:8083", 7))
        stop_all(frozen)
        frozen.generation = 8
        stores[0].is_late = True
        frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "other:8083", 7)
    frozen.set_connector("conn", RunState.UNASSIGNED)  # withheld no more
    assert other.status("conn") == StoredStatus(RunState.UNASSIGNED, "frozen:8083", 8)


def test_what_nobody_took_over_is_unassigned_once_the_worker_is_back(workers):
    _, frozen, other = workers
    stop_all(frozen)
    assert other.status("conn").state is RunState.RUNNING
    frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.UNASSIGNED, "frozen:8083", 6)


def test_what_the_worker_was_given_again_meanwhile_stays_running(workers):
    _, frozen, other = workers
    stop_all(frozen)
    frozen.generation = 8
    frozen.set_connector("conn", RunState.RUNNING)
    frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "frozen:8083", 8)


def test_in_the_group_stops_are_written_at_once(workers):
    _, frozen, other = workers
    frozen.set_connector("conn", RunState.UNASSIGNED)
    assert other.status("conn").state is RunState.UNASSIGNED
    frozen.release(WITHIN_S)
    stop_all(frozen)
    frozen.release(WITHIN_S)
    frozen.set_connector("conn", RunState.RUNNING)
    frozen.set_connector("conn", RunState.UNASSIGNED)
    assert other.status("conn").state is RunState.UNASSIGNED


def test_what_this_worker_gave_up_is_unassigned_though_the_topic_can_not_be_written(workers):
    _topic, frozen, other = workers
    stop_all(frozen)
    assert other.status(TASK).state is RunState.RUNNING, "nobody else can know"
    status = frozen.find_connector("conn", ConnectorType.SOURCE)
    assert status.connector.state is RunState.UNASSIGNED
    assert [task.state for task in status.tasks] == [RunState.UNASSIGNED]
    assert frozen.task(TASK).state is RunState.UNASSIGNED
    assert frozen.left_here() == {"conn"}


def test_what_a_worker_before_this_one_had_is_unassigned(topic, stores):
    """A worker was killed, and starts again at the same address while Kafka is away."""
    for store in stores:
        store.start()
    stores[1].put("conn", StoredStatus(RunState.RUNNING, "here:8083", 6))
    stores[1].put(TASK, StoredStatus(RunState.FAILED, "here:8083", 6, "boom"))
    again = ClusterStatus(stores[0])
    again.worker_id = "here:8083"
    status = again.find_connector("conn", ConnectorType.SOURCE)
    assert status.connector.state is RunState.UNASSIGNED
    assert [(task.state, task.trace) for task in status.tasks] == [(RunState.FAILED, "boom")]
    for store in stores:
        store.stop()


def test_what_other_workers_run_is_the_last_word_of_theirs(workers):
    _topic, frozen, other = workers
    stop_all(frozen)
    other.put(TASK, StoredStatus(RunState.RUNNING, "other:8083", 7))
    assert frozen.task(TASK).state is RunState.RUNNING
    assert frozen.task(TASK).worker_id == "other:8083"


def test_a_failure_that_could_not_be_written_is_shown_where_it_happened(workers):
    topic, frozen, other = workers
    with topic.held_back():
        frozen.report_task(TASK, 1, RunState.FAILED, "boom")
        assert frozen.task(TASK) == TaskState(0, RunState.FAILED, "frozen:8083", "boom", None)
    assert other.status(TASK).state is RunState.FAILED
