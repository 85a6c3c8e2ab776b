"""Statuses of a worker that was out of its group: what others have taken over meanwhile is not covered."""

from __future__ import annotations

import threading

import pytest

from kconnect.clock import ManualClock
from kconnect.errors import TimedOutError
from kconnect.model import ConnectorType, RunState, TaskId, TaskState
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.status_watch import StatusKeeper
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, encode_status, status_key
from kit.waiting import eventually

TASK = TaskId("conn", 0)
WITHIN_S = 5.0


class Store(TopicStatusStore):
    """Does not reach the topic's end while it `is_late`."""

    is_late = False
    refreshes = 0
    before_put = before_safe_put = before_refresh = None

    def put(self, subject, status):
        before, self.before_put = self.before_put, None
        if before is not None:
            before()
        super().put(subject, status)

    def put_safe(self, subject, status):
        before, self.before_safe_put = self.before_safe_put, None
        if before is not None:
            before()
        super().put_safe(subject, status)

    def refresh(self, timeout_s: float) -> None:
        before, self.before_refresh = self.before_refresh, None
        if before is not None:
            before()
        self.refreshes += 1
        if self.is_late:
            raise TimedOutError("not read to its end")
        super().refresh(timeout_s)


@pytest.fixture
def topic():
    return MemoryTopic("status")


@pytest.fixture
def stores(topic):
    return [Store(MemoryRecordLog(topic)) for _ in range(2)]


@pytest.fixture
def workers(topic, stores):
    """The frozen worker's statuses, and the store of the worker that takes over, on one topic."""
    for store in stores:
        store.start()
    frozen = ClusterStatus(stores[0])
    frozen.worker_id = "frozen:8083"
    frozen.take_generation(6)
    frozen.set_connector("conn", RunState.RUNNING)
    frozen.expect_task(TASK, 1, None)
    frozen.report_task(TASK, 1, RunState.RUNNING, None)
    yield topic, frozen, stores[1]
    for store in stores:
        store.stop()


def value_of(topic, subject):
    """The last value of its key."""
    return {record.key: record.value for record in topic.records}[status_key(subject)]


def stop_all(status):
    status.withhold()
    status.end_runs(status.runs_of([TASK]))
    status.set_connector("conn", RunState.UNASSIGNED)


def test_a_worker_that_wakes_does_not_cover_what_runs_elsewhere(workers):
    topic, frozen, other = workers
    with topic.held_back():  # the frozen worker has not read it
        for subject in ("conn", TASK):
            other.put(subject, StoredStatus(RunState.RUNNING, "other:8083", 7))
        stop_all(frozen)
        frozen.take_generation(8)
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
        frozen.take_generation(8)
        stores[0].is_late = True
        frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "other:8083", 7)
    frozen.set_connector("conn", RunState.UNASSIGNED)  # stopped in the group
    assert other.status("conn") == StoredStatus(RunState.UNASSIGNED, "frozen:8083", 8)


def test_what_could_not_be_released_is_released_by_the_keeper_once_it_is_read_who_runs_what(workers, stores, caplog):
    """Others would read RUNNING of this worker until the delay of the rebalance is over."""
    _, frozen, other = workers
    keeper = StatusKeeper(frozen, ManualClock(), is_ours=lambda _: False)
    frozen.look_again = keeper.note
    keeper.start()
    stop_all(frozen)
    other.put("conn", StoredStatus(RunState.RUNNING, "other:8083", 7))
    frozen.take_generation(8)
    stores[0].is_late = True
    frozen.release(WITHIN_S)
    try:
        late = stores[0].refreshes
        eventually(lambda: stores[0].refreshes > late + 3, WITHIN_S, "it is tried again and again")
        assert other.status(TASK).state is RunState.RUNNING
        assert caplog.text.count("Statuses of what was stopped out of the group are not written yet") == 1
        stores[0].is_late = False
        eventually(lambda: other.status(TASK).state is RunState.UNASSIGNED, WITHIN_S, "it is said that nobody runs it")
    finally:
        keeper.stop(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "other:8083", 7)
    assert frozen.left_here() == set()


def test_what_nobody_took_over_is_unassigned_once_the_worker_is_back(workers):
    _, frozen, other = workers
    stop_all(frozen)
    assert other.status("conn").state is RunState.RUNNING
    frozen.take_generation(8)
    frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.UNASSIGNED, "frozen:8083", 6)


def test_what_others_run_since_the_group_began_to_count_again_is_not_covered(workers):
    """Generation 6 is of its former life: that the topic has 1 and 2 since says nothing of what is newer."""
    topic, frozen, other = workers
    stop_all(frozen)
    other.put("conn", StoredStatus(RunState.RUNNING, "other:8083", 1))
    frozen.take_generation(2)
    before = len(topic.records)
    frozen.release(WITHIN_S)
    assert [record.key for record in topic.records[before:]] == [status_key(TASK)]


def test_what_was_deleted_meanwhile_is_not_written_again(workers):
    topic, frozen, other = workers
    stop_all(frozen)
    for subject in ("conn", TASK):
        topic.append(status_key(subject), None)
    frozen.take_generation(8)
    frozen.release(WITHIN_S)
    assert (other.last("conn"), other.last(TASK)) == (None, None)


@pytest.mark.parametrize("is_lost_during", [False, True], ids=["before it is read who has it", "meanwhile"])
def test_what_is_released_when_the_group_is_lost_again_waits_for_the_next_generation(is_lost_during, workers, stores):
    topic, frozen, other = workers
    stop_all(frozen)
    frozen.take_generation(8)
    if is_lost_during:
        stores[0].before_refresh = frozen.withhold
    else:
        frozen.withhold()
        stores[0].is_late = True  # the broker may be away, too
    before = len(topic.records)
    frozen.release(WITHIN_S)
    assert len(topic.records) == before
    stores[0].is_late = False
    frozen.take_generation(9)
    frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.UNASSIGNED, "frozen:8083", 6)


def test_what_the_worker_was_given_again_meanwhile_stays_running(workers):
    _, frozen, other = workers
    stop_all(frozen)
    frozen.take_generation(8)
    frozen.set_connector("conn", RunState.RUNNING)
    frozen.release(WITHIN_S)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "frozen:8083", 8)


def test_a_stop_that_was_withheld_does_not_cover_a_start_in_the_same_worker(workers, stores):
    """The pool writes what was withheld while another thread starts the connector again: RUNNING is the last word."""
    _, frozen, other = workers
    stop_all(frozen)
    frozen.take_generation(8)
    starting = threading.Thread(target=frozen.set_connector, args=("conn", RunState.RUNNING))

    def start_meanwhile():
        starting.start()
        starting.join(0.1)

    stores[0].before_safe_put = start_meanwhile
    frozen.release(WITHIN_S)
    starting.join(5)
    assert other.last("conn") == StoredStatus(RunState.RUNNING, "frozen:8083", 8)
    assert other.status("conn") == StoredStatus(RunState.RUNNING, "frozen:8083", 8)


def test_a_report_that_is_on_its_way_does_not_cover_the_stop_of_its_task(workers, stores):
    _, worker, other = workers
    stopping = threading.Thread(target=worker.end_runs, args=({TASK: 1},))

    def stop_meanwhile():
        stopping.start()
        stopping.join(0.1)

    stores[0].before_put = stop_meanwhile
    worker.report_task(TASK, 1, RunState.PAUSED, None)
    stopping.join(5)
    assert other.last(TASK) == StoredStatus(RunState.UNASSIGNED, "frozen:8083", 6)


def test_a_worker_that_wakes_writes_nothing_before_its_group_answers_and_then_what_it_runs(workers):
    topic, frozen, _ = workers
    looks, before = [], len(topic.records)
    frozen.is_in_touch, frozen.look_again = (lambda: False), looks.append
    frozen.report_task(TASK, 1, RunState.PAUSED, None)
    frozen.set_connector("conn", RunState.PAUSED)
    assert (len(topic.records), looks) == (before, [TASK, "conn"])
    assert not frozen.repeat(TASK)
    frozen.is_in_touch = lambda: True
    assert not frozen.repeat(TASK)
    assert frozen.repeat(TASK)  # it was written, and read back
    assert topic.records[-1].value == encode_status(StoredStatus(RunState.PAUSED, "frozen:8083", 6))


def test_what_a_late_record_covers_is_written_again_by_the_worker_that_runs_it(workers, caplog):
    topic, worker, other = workers
    for _ in range(2):
        late = StoredStatus(RunState.UNASSIGNED, "gone:8083", 5)
        topic.append(status_key("conn"), encode_status(late))
        assert (other.last("conn"), other.status("conn").state) == (late, RunState.RUNNING)
        worker.take_generation(worker.generation + 1)
        assert not worker.repeat("conn")
        assert other.last("conn") == StoredStatus(RunState.RUNNING, "frozen:8083", worker.generation)
        assert worker.repeat("conn")
    message = "Connector conn is RUNNING here, but the status topic says UNASSIGNED of worker gone:8083 in generation 5"
    assert message in caplog.text


def test_a_status_that_was_deleted_is_written_again_by_the_worker_that_runs_it(workers):
    topic, worker, other = workers
    topic.append(status_key(TASK), None)
    worker.repeat(TASK)
    assert other.status(TASK) == StoredStatus(RunState.RUNNING, "frozen:8083", 6)


def test_two_clusters_on_one_topic_are_reported_of_in_both_logs(workers, caplog):
    """Each sees the other's status at most five times, as each gives up after five of its own."""
    topic, worker, _ = workers
    for _ in range(3):
        topic.append(status_key("conn"), encode_status(StoredStatus(RunState.RUNNING, "other:8083", 6)))
        worker.repeat("conn")
    assert "workers of another group.id may use the same status.storage.topic" in caplog.text
    assert caplog.text.count("ERROR") == 1


def test_two_workers_that_both_run_it_do_not_write_for_ever(workers, caplog):
    topic, worker, _ = workers
    for _ in range(20):
        topic.append(status_key("conn"), encode_status(StoredStatus(RunState.RUNNING, "other:8083", 6)))
        worker.repeat("conn")
    of_connector = [record.value for record in topic.records if record.key == status_key("conn")]
    assert of_connector.count(encode_status(status_of("frozen:8083"))) == 1 + 5
    assert caplog.text.count("workers of another group.id may use the same status.storage.topic") == 1


def test_a_worker_does_not_write_again_what_another_has_in_a_newer_generation(workers):
    topic, worker, _ = workers
    topic.append(status_key("conn"), encode_status(StoredStatus(RunState.RUNNING, "other:8083", 7)))
    before = len(topic.records)
    assert worker.is_behind("conn")
    worker.set_connector("conn", RunState.PAUSED)
    assert len(topic.records) == before


def test_what_is_newer_than_the_group_is_of_a_former_life_if_the_group_goes_on_answering(workers):
    topic, worker, _ = workers
    topic.append(status_key("conn"), encode_status(StoredStatus(RunState.RUNNING, "other:8083", 70)))
    looks = [worker.is_behind("conn") for _ in range(16)]
    assert looks == [True] * 15 + [False]
    worker.repeat("conn")
    assert topic.records[-1].value == encode_status(status_of("frozen:8083"))


def status_of(worker_id):
    return StoredStatus(RunState.RUNNING, worker_id, 6)


def test_the_leader_deletes_again_what_was_said_late_of_a_connector_that_does_not_exist(workers):
    topic, leader, other = workers
    keeper = StatusKeeper(leader, ManualClock(), is_ours=lambda _: False, is_orphan=lambda subject: subject == "gone")
    topic.append(status_key("gone"), encode_status(StoredStatus(RunState.UNASSIGNED, "other:8083", 5)))
    keeper.note("gone")
    keeper.note("conn")
    keeper.look()
    assert (other.status("gone"), other.status("conn").state) == (None, RunState.RUNNING)


def test_the_leader_deletes_what_was_said_late_of_the_tasks_of_a_connector_that_does_not_exist_too(workers, stores):
    """A connector's status was deleted, its tasks' were known no more, and stayed in the topic for ever."""
    topic, leader, _ = workers
    late = TaskId("gone", 0)
    keeper = StatusKeeper(leader, ManualClock(), is_ours=lambda _: False, is_orphan={late, "gone"}.__contains__)
    for subject in (late, "gone"):
        stores[1].put(subject, StoredStatus(RunState.UNASSIGNED, "late:1", 5))
    keeper.note("gone")
    keeper.look()
    assert [value_of(topic, subject) for subject in (late, "gone")] == [None, None]


@pytest.mark.parametrize("is_new", [False, True], ids=["leader", "new leader"])
def test_a_tasks_status_that_is_read_before_the_tombstone_of_its_connector_is_deleted_too(workers, stores, is_new):
    """A task's last word follows its tombstone in one partition, its connector's tombstone stands in another."""
    topic, leader, _ = workers
    late = TaskId("gone", 0)
    keeper = StatusKeeper(leader, ManualClock(), is_ours=lambda _: False, is_orphan={late, "gone"}.__contains__)
    stores[1].put(late, StoredStatus(RunState.UNASSIGNED, "late:1", 5))
    stores[1].put("gone", StoredStatus(RunState.DESTROYED, "late:1", 5))
    if is_new:
        leader.clean_up(ClusterSnapshot(configs={"conn": {}}, task_counts={"conn": 1}))
    else:
        keeper.note(late)
        keeper.look()
    assert value_of(topic, late) is None
    assert "gone" not in stores[0].named()


def test_what_is_being_written_of_a_connector_that_does_not_exist_is_looked_at_again(workers, stores, monkeypatch):
    topic, leader, _ = workers
    late = TaskId("gone", 0)
    keeper = StatusKeeper(leader, ManualClock(), is_ours=lambda _: False, is_orphan=lambda subject: subject == late)
    stores[1].put(late, StoredStatus(RunState.UNASSIGNED, "late:1", 5))
    with monkeypatch.context() as during:
        during.setattr(stores[0], "is_writing", lambda subject: True)
        keeper.note(late)
        keeper.look()
    keeper.look()
    assert value_of(topic, late) is None


def test_a_new_leader_deletes_statuses_of_tasks_whose_connector_has_none(workers, stores):
    topic, leader, _ = workers
    late = TaskId("gone", 0)
    stores[1].put(late, StoredStatus(RunState.UNASSIGNED, "late:1", 5))
    leader.clean_up(ClusterSnapshot(configs={"conn": {}}, task_counts={"conn": 1}))
    assert value_of(topic, late) is None
    assert value_of(topic, TASK) is not None


def test_the_keeper_looks_at_what_is_read_on_a_thread_of_its_own(workers, stores):
    topic, worker, other = workers
    keeper = StatusKeeper(worker, ManualClock(), is_ours=lambda _: True)
    stores[0].set_listener(keeper.note)
    keeper.start()
    topic.append(status_key("conn"), encode_status(StoredStatus(RunState.UNASSIGNED, "gone:8083", 5)))
    eventually(lambda: other.last("conn").state is RunState.RUNNING, WITHIN_S, "it is written again")
    keeper.stop(WITHIN_S)


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


def test_what_the_group_holds_back_is_unassigned_though_its_lost_worker_has_said_running(topic, stores):
    stores[0].start()
    status = ClusterStatus(stores[0])
    status.worker_id = "here:8083"
    status.take_generation(6)
    for subject in ("conn", TASK):
        topic.append(status_key(subject), encode_status(StoredStatus(RunState.RUNNING, "lost:8083", 5)))
    stores[0].refresh(WITHIN_S)
    assert status.task(TASK).state is RunState.RUNNING
    status.is_held = lambda subject: subject == TASK
    found = status.find_connector("conn", ConnectorType.SOURCE)
    assert (found.connector.state, found.tasks[0].state) == (RunState.RUNNING, RunState.UNASSIGNED)
    assert found.tasks[0].worker_id == "lost:8083"
    stores[0].stop()


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
