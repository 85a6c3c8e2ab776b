"""What every StatusStore keeps to, on a log in memory and on a real topic."""

from __future__ import annotations

import pytest

from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, TopicUse
from kit.record_logs import kafka_logs
from kit.topics import topic_for
from kit.waiting import eventually

TASK = TaskId("conn", 0)
RUNNING, UNASSIGNED, FAILED, DESTROYED = RunState.RUNNING, RunState.UNASSIGNED, RunState.FAILED, RunState.DESTROYED
WITHIN_S = 10


def status(state, worker="w1:8083", generation=0, trace=None):
    return StoredStatus(state, worker, generation, trace, "4.3.0")


@pytest.fixture(scope="module", params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def bootstrap(request):
    """Where the broker is, None for topics in memory."""
    return request.getfixturevalue("broker").bootstrap if request.param == "kafka" else None


@pytest.fixture
def make_log(bootstrap, request):
    if bootstrap is not None:
        with kafka_logs(bootstrap, topic_for(request), partitions=3) as make:
            yield make
    else:
        topic = MemoryTopic("statuses", partitions=3)
        yield lambda: MemoryRecordLog(topic)


@pytest.fixture
def new_store(make_log):
    stores = []

    def make():
        store = TopicStatusStore(make_log())
        stores.append(store)
        store.start()
        return store

    yield make
    for store in stores:
        store.stop()


@pytest.fixture
def store(new_store):
    return new_store()


def seen(read, wanted):
    return eventually(lambda: (read(),) if read() == wanted else None, WITHIN_S, f"{wanted} is read back")[0]


def test_a_connector_status_that_was_put_is_got(store):
    store.put("conn", status(RUNNING))
    seen(lambda: store.status("conn"), status(RUNNING))
    assert store.connectors() == {"conn"}


def test_a_task_status_that_was_put_is_got(store):
    store.put(TASK, status(FAILED, trace="boom\n\tat x"))
    seen(lambda: store.status(TASK), status(FAILED, trace="boom\n\tat x"))
    assert store.tasks("conn") == {TASK: status(FAILED, trace="boom\n\tat x")}


def test_what_was_never_put_is_not_there(store):
    assert store.status("conn") is None
    assert store.status(TASK) is None
    assert (store.tasks("conn"), store.topics("conn"), store.connectors()) == ({}, {}, set())


def test_a_destroyed_connector_is_gone_with_its_tasks(store):
    store.put(TASK, status(RUNNING))
    store.put("conn", status(RUNNING))
    seen(lambda: (store.status("conn"), store.status(TASK)), (status(RUNNING), status(RUNNING)))
    store.put("conn", status(DESTROYED))
    seen(store.connectors, set())
    assert store.tasks("conn") == {}


def test_a_destroyed_task_is_gone(store):
    store.put(TASK, status(RUNNING))
    seen(lambda: store.status(TASK), status(RUNNING))
    store.put(TASK, status(DESTROYED))
    seen(lambda: store.tasks("conn"), {})


def test_tasks_are_reported_by_number(store):
    for number in (10, 2, 1):
        store.put(TaskId("conn", number), status(RUNNING))
    seen(lambda: [task.task for task in store.tasks("conn")], [1, 2, 10])


def test_topics_are_kept_and_forgotten(store):
    uses = {name: TopicUse(name, "conn", 0, 5) for name in ("a", "b")}
    for use in uses.values():
        store.put_topic(use)
    seen(lambda: dict(sorted(store.topics("conn").items())), uses)
    store.delete_topic("conn", "a")
    seen(lambda: store.topics("conn"), {"b": uses["b"]})


def test_two_workers_see_each_others_statuses(new_store):
    first, second = new_store(), new_store()
    first.put("conn", status(RUNNING, "w1"))
    seen(lambda: second.status("conn"), status(RUNNING, "w1"))
    second.put("conn", status(RUNNING, "w2", 1))
    seen(lambda: first.status("conn"), status(RUNNING, "w2", 1))


def test_a_stale_worker_does_not_overwrite_safely_but_may_by_force(new_store):
    first, second = new_store(), new_store()
    second.put("conn", status(RUNNING, "w2", 5))
    seen(lambda: first.status("conn"), status(RUNNING, "w2", 5))
    first.put_safe("conn", status(UNASSIGNED, "w1", 4))
    first.flush(WITHIN_S)
    first.put(TASK, status(RUNNING, "w1", 4))
    seen(lambda: second.status(TASK), status(RUNNING, "w1", 4))
    assert first.status("conn") == second.status("conn") == status(RUNNING, "w2", 5)
    first.put("conn", status(FAILED, "w1", 4))
    seen(lambda: second.last("conn"), status(FAILED, "w1", 4))
    assert second.status("conn") == status(RUNNING, "w2", 5)  # the newer generation stays in force


def test_a_store_that_starts_later_knows_all(new_store):
    first = new_store()
    first.put("conn", status(RUNNING))
    first.put(TASK, status(FAILED))
    first.put(TASK, status(RUNNING))
    first.put_topic(TopicUse("t", "conn", 0, 1))
    first.flush(WITHIN_S)
    late = new_store()
    assert (late.status("conn"), late.status(TASK)) == (status(RUNNING), status(RUNNING))
    assert late.topics("conn") == {"t": TopicUse("t", "conn", 0, 1)}


def test_stopping_twice_is_fine_and_a_put_after_it_is_reported(store, caplog):
    store.stop()
    store.stop()
    store.put("conn", status(RUNNING))
    assert "the store has stopped" in caplog.text
