"""The rules of statuses: what is read, who may overwrite, against a model of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import Ignored, StatusRead, StoredStatus, TopicRead, TopicUse

TASK = TaskId("conn", 0)
RUNNING, UNASSIGNED, FAILED = RunState.RUNNING, RunState.UNASSIGNED, RunState.FAILED


def status(state, worker="w1", generation=0):
    return StoredStatus(state, worker, generation)


def cache_with(*events):
    cache = StatusCache()
    for event in events:
        cache.apply(event)
    return cache


def test_reading_a_connector_state_makes_it_known():
    cache = cache_with(StatusRead("conn", status(RUNNING)))
    assert cache.status("conn") == status(RUNNING)
    assert cache.connectors() == {"conn"}


def test_reading_a_task_state_makes_it_known():
    cache = cache_with(StatusRead(TASK, status(RUNNING)))
    assert cache.status(TASK) == status(RUNNING)
    assert cache.tasks("conn") == {TASK: status(RUNNING)}
    assert cache.connectors() == set()


@pytest.mark.parametrize("subject", ["conn", TASK])
@pytest.mark.parametrize("generation", [9, 10])
def test_unassigned_of_before_does_not_cover_that_another_worker_runs_it(subject, generation):
    late = status(UNASSIGNED, "w1", generation)
    cache = cache_with(StatusRead(subject, status(RUNNING, "w2", 10)), StatusRead(subject, late))
    assert cache.status(subject) == status(RUNNING, "w2", 10)
    assert cache.last(subject) == late


def test_a_tombstone_makes_older_generations_count_again():
    cache = cache_with(
        StatusRead(TASK, status(RUNNING, "w2", 10)), StatusRead(TASK, None), StatusRead(TASK, status(RUNNING, "w1", 1))
    )
    assert cache.status(TASK) == status(RUNNING, "w1", 1)


def test_who_has_the_work_assigned_is_believed_by_a_reader_without_a_group():
    old, new = status(RUNNING, "w2", 10), status(RUNNING, "w1", 1)
    cache = cache_with(StatusRead(TASK, old), StatusRead(TASK, new))
    assert cache.status(TASK) == old
    cache.set_owners({TASK: "w1"})
    assert (cache.status(TASK), cache.tasks("conn"), cache.statuses()) == (new, {TASK: new}, {TASK: new})
    cache.set_owners({TASK: "w3"})  # which has said nothing yet
    assert cache.status(TASK) == old


def test_a_worker_in_a_group_leaves_alone_what_another_has_written_in_a_newer_generation():
    cache = StatusCache()
    cache.take_generation(4)
    cache.apply(StatusRead(TASK, status(RUNNING, "w2", 5)))
    assert cache.begin_write(TASK, status(RUNNING, "w1", 4), is_safe=False) is None
    cache.take_generation(6)
    assert cache.begin_write(TASK, status(RUNNING, "w1", 6), is_safe=False) is not None


def test_a_worker_whose_group_counts_anew_covers_what_former_workers_wrote():
    cache = cache_with(StatusRead(TASK, status(RUNNING, "w2", 57)), StatusRead("conn", status(RUNNING, "w2", 57)))
    cache.take_generation(1)
    assert cache.begin_write(TASK, status(UNASSIGNED, "w1", 1), is_safe=True) is not None
    cache.apply(StatusRead(TASK, status(RUNNING, "w1", 1)))
    assert cache.status(TASK) == status(RUNNING, "w1", 1)
    assert cache.status("conn") == status(RUNNING, "w2", 57)
    assert not cache.is_beyond("conn", 1)


def test_a_deleted_connector_takes_its_tasks_along():
    cache = cache_with(
        StatusRead("conn", status(RUNNING)),
        StatusRead(TASK, status(RUNNING)),
        StatusRead(TaskId("other", 0), status(RUNNING)),
        StatusRead("conn", None),
    )
    assert cache.connectors() == set()
    assert cache.tasks("conn") == {}
    assert cache.tasks("other") == {TaskId("other", 0): status(RUNNING)}


def test_a_deleted_task_is_gone():
    cache = cache_with(StatusRead(TASK, status(RUNNING)), StatusRead(TASK, None), StatusRead(TaskId("x", 9), None))
    assert cache.tasks("conn") == {}
    assert cache.status(TASK) is None


def test_what_is_ignored_changes_nothing():
    cache = cache_with(Ignored("why"))
    assert (cache.connectors(), cache.tasks("c"), cache.topics("c")) == (set(), {}, {})


def test_topics_are_kept_by_connector_and_forgotten_by_tombstones():
    use, other = TopicUse("foo", "bar", 0, 1), TopicUse("baz", "bar", 1, 2)
    cache = cache_with(TopicRead("bar", "foo", use), TopicRead("bar", "baz", other))
    assert cache.topics("bar") == {"foo": use, "baz": other}
    cache.apply(TopicRead("bar", "foo", None))
    assert cache.topics("bar") == {"baz": other}
    assert cache.topic("bar", "foo") is None
    cache.apply(TopicRead("nobody", "foo", None))
    assert cache.topics("nobody") == {}


def test_all_statuses_and_uses_are_reported_orphans_as_well():
    orphan, use = TaskId("gone", 3), TopicUse("t", "lost", 0, 1)
    cache = cache_with(
        StatusRead(orphan, status(FAILED)), StatusRead("conn", status(RUNNING)), TopicRead("lost", "t", use)
    )
    cache.begin_write("planned", status(RUNNING), is_safe=False)
    assert cache.statuses() == {"conn": status(RUNNING), orphan: status(FAILED)}
    assert cache.uses() == {("lost", "t"): use}


@pytest.mark.parametrize(
    ("read", "new", "is_allowed"),
    [
        (None, status(FAILED, "w1", 0), True),
        (status(RUNNING, "w2", 1), status(UNASSIGNED, "w1", 0), False),
        (status(RUNNING, "w1", 1), status(UNASSIGNED, "w1", 0), True),
        (status(RUNNING, "w2", 1), status(UNASSIGNED, "w1", 1), True),
        (status(RUNNING, "w2", 1), status(UNASSIGNED, "w1", 2), True),
    ],
)
def test_a_safe_write_yields_to_another_worker_of_a_newer_generation(read, new, is_allowed):
    cache = cache_with(*([] if read is None else [StatusRead(TASK, read)]))
    assert (cache.begin_write(TASK, new, is_safe=True) is not None) is is_allowed
    assert cache.begin_write(TASK, new, is_safe=False) is not None


def leave(cache, subject, new, *, is_safe):
    granted = cache.begin_write(subject, new, is_safe=is_safe)
    assert granted is not None
    return granted


@pytest.mark.parametrize("is_safe", [True, False])
def test_a_failed_write_may_be_made_again(is_safe):
    cache = StatusCache()
    assert cache.may_retry(leave(cache, TASK, status(RUNNING), is_safe=is_safe))


@pytest.mark.parametrize("is_safe", [True, False])
def test_deleted_entries_stay_deleted(is_safe):
    cache = cache_with(StatusRead(TASK, status(RUNNING)))
    of_task = leave(cache, TASK, status(RUNNING), is_safe=is_safe)
    of_connector = leave(cache, "conn", status(RUNNING), is_safe=is_safe)
    cache.apply(StatusRead("conn", None))
    assert not cache.may_retry(of_task)
    assert not cache.may_retry(of_connector)
    cache.apply(StatusRead(TASK, status(RUNNING)))  # made again under the name: the old write stays dead
    assert not cache.may_retry(of_task)


def test_a_write_of_another_generation_is_not_made_again():
    cache = StatusCache()
    first = leave(cache, TASK, status(RUNNING, generation=1), is_safe=False)
    leave(cache, "another", status(RUNNING, generation=2), is_safe=False)
    assert not cache.may_retry(first)


def test_a_safe_write_is_not_made_again_after_a_newer_one():
    cache = StatusCache()
    first = leave(cache, TASK, status(UNASSIGNED), is_safe=True)
    leave(cache, TASK, status(RUNNING), is_safe=False)
    assert not cache.may_retry(first)


def test_a_safe_write_is_not_made_again_once_another_worker_has_written():
    cache = StatusCache()
    first = leave(cache, TASK, status(UNASSIGNED, "w1", 1), is_safe=True)
    cache.apply(StatusRead(TASK, status(RUNNING, "w2", 2)))
    assert not cache.may_retry(first)


SUBJECTS = st.sampled_from(["a", "b", TaskId("a", 0), TaskId("a", 1), TaskId("b", 0)])
STATUSES = st.builds(
    StoredStatus,
    st.sampled_from([RUNNING, UNASSIGNED, FAILED]),
    st.sampled_from(["w1", "w2"]),
    st.integers(0, 3),
)
STEPS = st.lists(
    st.tuples(st.just("read"), SUBJECTS, STATUSES | st.none())
    | st.tuples(st.sampled_from(["put", "put_safe"]), SUBJECTS, STATUSES),
    max_size=30,
)


@given(STEPS)
def test_two_workers_statuses_fold_as_an_obvious_model_does(steps):
    cache, model = StatusCache(), {}
    for kind, subject, new in steps:
        records = model.get(subject, [])
        if kind == "read":
            cache.apply(StatusRead(subject, new))
            if new is None:
                for gone in [key for key in model if key == subject or getattr(key, "connector", None) == subject]:
                    del model[gone]
            else:
                model.setdefault(subject, []).append(new)
        else:
            is_stale = any(old.worker_id != new.worker_id and old.generation > new.generation for old in kept(records))
            granted = cache.begin_write(subject, new, is_safe=kind == "put_safe")
            assert (granted is None) == (kind == "put_safe" and is_stale)
        in_force = {key: kept(read)[0] for key, read in sorted(model.items(), key=str)}
        for name in ("a", "b"):
            assert cache.status(name) == in_force.get(name)
            assert cache.tasks(name) == {
                key: found for key, found in in_force.items() if getattr(key, "connector", None) == name
            }


def kept(records):
    """What stays beside the last record, by hand: the newest generation first."""
    left = []
    for new in records:
        if any(
            (old.generation, old.state, new.state) == (new.generation, RUNNING, UNASSIGNED)
            and old.worker_id != new.worker_id
            for old in left
        ):
            continue
        left = [
            old
            for old in left
            if old.generation > new.generation and (old.worker_id != new.worker_id or new.state is UNASSIGNED)
        ]
        left.append(new)
    return left
