"""Plans of edits: whatever the cluster held, each state a killed command can leave reads as before or after."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kconnect.direct.access import InternalTopic
from kconnect.direct.archive import ClusterState, archive_document, import_plan, read_archive
from kconnect.direct.connectors import ConnectorState, connector_state, delete_plan, restore_plan, target_state_plan
from kconnect.direct.edits import (
    Edit,
    EditPlan,
    NoLiveGroup,
    NoLiveOwner,
    NoRunningTask,
    Stopped,
    neighbour_refusals,
    refusals,
    requirements_for_keys,
)
from kconnect.direct.live_group import LiveGroup, LiveWorker
from kconnect.direct.masks import Masks
from kconnect.direct.neighbours import seen_neighbours
from kconnect.direct.reading import ConfigView, Latest, OffsetView, StatusView
from kconnect.direct.records import delete_plan as delete_keys
from kconnect.direct.records import put_plan
from kconnect.errors import BadRequestError, ConflictError, NotFoundError
from kconnect.herder.assignment.protocol import Work
from kconnect.model import LogRecord, RunState, TargetState, TaskId
from kconnect.storage.config_topic import (
    encode_commit,
    encode_connector,
    encode_target_state,
    encode_task,
    encode_task_count,
    tombstone_of_connector,
    tombstone_of_target_state,
)
from kconnect.storage.offset_topic import encode_key, encode_value
from kconnect.storage.snapshot import ConfigFold
from kconnect.storage.status_cache import StatusCache
from kconnect.storage.status_topic import (
    StoredStatus,
    TopicUse,
    decode_record,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)
from kconnect.storage.topic_offsets import OffsetCache

C, S, O = InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET  # noqa: E741 - short names of three topics
NAMES = ("a", "a-1", "b c%/")

settings_of = st.dictionaries(st.sampled_from(["k", "password", "topics"]), st.text(max_size=3), max_size=3)
targets = st.sampled_from(TargetState)


@st.composite
def writes(draw):
    """What a leader, or an older half-compacted topic, may hold: whole and partial writes, deletions."""
    name = draw(st.sampled_from(NAMES))
    match draw(st.integers(0, 6)):
        case 0:
            return [encode_connector(name, draw(settings_of))]
        case 1:
            tasks = draw(st.lists(settings_of, max_size=3))
            return [*(encode_task(TaskId(name, n), c) for n, c in enumerate(tasks)), encode_commit(name, len(tasks))]
        case 2:
            return [encode_target_state(name, draw(targets))]
        case 3:
            return [tombstone_of_connector(name), tombstone_of_target_state(name)]
        case 4:
            return [encode_commit(name, draw(st.integers(0, 3)))]  # its tasks are lost: inconsistent
        case 5:
            return [encode_task(TaskId(name, draw(st.integers(0, 2))), draw(settings_of))]  # not committed
    return [encode_task_count(name, draw(st.integers(0, 3)))]


histories = st.lists(writes(), max_size=12).map(lambda groups: [entry for group in groups for entry in group])


def records_of(entries, topic="configs", begin=0):
    return [LogRecord(topic, 0, begin + number, key, value) for number, (key, value) in enumerate(entries)]


def view_of(records):
    fold, latest = ConfigFold(), Latest()
    for record in records:
        fold.apply(record)
        latest.apply(record)
    return ConfigView(fold.snapshot(), latest)


def status_view(entries):
    cache, latest = StatusCache(), Latest()
    for record in records_of(entries, "status"):
        cache.apply(decode_record(record.key, record.value))
        latest.apply(record)
    return StatusView(cache, latest)


def offset_view(entries=()):
    cache, latest = OffsetCache(), Latest()
    for record in records_of(entries, "offsets"):
        cache.apply(record.key, record.value, None)
        latest.apply(record)
    return OffsetView(cache, latest)


def reads_as(view, name):
    """All that a worker can tell of a connector: config, what is wanted of it, tasks and whether they are whole."""
    return connector_state(view, name), name in view.snapshot.inconsistent


def topics_after_each_step(before, plan):
    """The records a command that is killed can leave, before the first step and after each."""
    records = list(before)
    yield list(records)
    for step in plan.steps:
        entries = [(edit.key, edit.new) for edit in step if edit.which is C]
        records += records_of(entries, begin=len(records))
        yield list(records)


def after_each_step(before, plan):
    return [view_of(records) for records in topics_after_each_step(before, plan)]


def by_single_records(plan):
    """As a broker makes of it that takes small batches only."""
    return EditPlan(plan.title, tuple((edit,) for edit in plan.edits))


def check_each_state_is_before_or_after(history, plan, name):
    views = after_each_step(history, plan)
    before, after = reads_as(views[0], name), reads_as(views[-1], name)
    for view in views:
        assert reads_as(view, name) in (before, after)
        for other in NAMES:
            if other != name:
                assert reads_as(view, other) == reads_as(views[0], other)
    return views[-1]


@given(histories, st.sampled_from(NAMES), targets)
@settings(max_examples=150, deadline=None)
def test_a_pause_resume_or_stop_is_done_at_once(entries, name, state):
    history = records_of(entries)
    view = view_of(history)
    if not view.snapshot.contains(name):
        with pytest.raises(NotFoundError):
            target_state_plan(view, name, state)
        return
    after = check_each_state_is_before_or_after(history, target_state_plan(view, name, state), name)
    assert after.snapshot.target_state(name) is state
    if state is TargetState.STOPPED:
        assert after.snapshot.tasks(name) == ()
        assert name not in after.snapshot.inconsistent


@given(histories, st.sampled_from(NAMES))
@settings(max_examples=150, deadline=None)
def test_a_deletion_reads_as_before_or_after_also_between_any_two_records(entries, name):
    history = records_of(entries)
    view = view_of(history)
    if not view.snapshot.contains(name):
        return
    plan = delete_plan(view, name)
    after = check_each_state_is_before_or_after(history, plan, name)
    assert not after.snapshot.contains(name)
    assert after.latest.get(encode_target_state(name, TargetState.PAUSED)[0]) is None
    check_each_state_is_before_or_after(history, by_single_records(plan), name)


@given(histories, st.integers(0, 40), st.sampled_from(NAMES))
@settings(max_examples=300, deadline=None)
def test_a_restored_connector_is_as_it_was_and_doing_it_again_does_nothing(entries, cut, name):
    history = records_of(entries)
    now, then = view_of(history), view_of(history[:cut])
    if not then.snapshot.contains(name):
        with pytest.raises(NotFoundError):
            restore_plan(now, then, name)
        return
    plan = restore_plan(now, then, name)
    after = check_each_state_is_before_or_after(history, plan, name)
    wanted, found = connector_state(then, name), connector_state(after, name)
    assert (found.config, found.target_state, list(found.tasks)) == (
        wanted.config,
        wanted.target_state,
        list(wanted.tasks),
    )
    assert name not in after.snapshot.inconsistent
    assert restore_plan(after, then, name).is_empty


@given(histories, st.integers(0, 40), st.sampled_from(NAMES))
@settings(max_examples=150, deadline=None)
def test_a_restore_cut_between_records_mixes_no_tasks_and_can_be_repeated(entries, cut, name):
    """The order alone has to do here; a config comes with what is wanted of it, as nothing may run that was stopped."""
    history = records_of(entries)
    now, then = view_of(history), view_of(history[:cut])
    if not then.snapshot.contains(name):
        return
    wanted = connector_state(then, name)
    whole = [list(found.tasks) for found in (connector_state(now, name), wanted) if found is not None]
    for records in topics_after_each_step(history, by_single_records(restore_plan(now, then, name))):
        view = view_of(records)
        found = connector_state(view, name)
        assert found is None or list(found.tasks) in [*whole, []]
        if found is not None and found.config == wanted.config != now.snapshot.raw_config(name):
            assert found.target_state is wanted.target_state
        assert same(connector_state(after_each_step(records, restore_plan(view, then, name))[-1], name), wanted)


@given(histories, histories, st.booleans())
@settings(max_examples=200, deadline=None)
def test_an_import_makes_the_cluster_hold_the_export_connector_by_connector(source, target, replace):
    exported = ClusterState(view_of(records_of(source)), offset_view())
    document = archive_document(exported, None, 0, masks=Masks(reveal=True), skip=lambda _: None)
    archive = read_archive(json.loads(json.dumps(document)))
    history = records_of(target)
    now = view_of(history)
    state = ClusterState(now, offset_view())
    differing = [
        name
        for name, found in archive.connectors.items()
        if now.snapshot.contains(name) and not import_plan(archive.chosen([name]), state, replace=True).is_empty
    ]
    if differing and not replace:
        with pytest.raises(ConflictError, match="is there already"):
            import_plan(archive, state)
        return
    plan = import_plan(archive, state, replace=replace)
    for records in topics_after_each_step(history, plan):
        view = view_of(records)
        for name, wanted in archive.connectors.items():
            assert reads_as(view, name) == reads_as(now, name) or same(connector_state(view, name), wanted)
        for name in now.snapshot.configs.keys() - archive.connectors.keys():
            assert reads_as(view, name) == reads_as(now, name)
        rest = import_plan(archive, ClusterState(view, offset_view()), replace=replace)
        done = after_each_step(records, rest)[-1]
        assert all(same(connector_state(done, name), wanted) for name, wanted in archive.connectors.items())
        assert import_plan(archive, ClusterState(done, offset_view())).is_empty


def same(found, wanted):
    return (
        found is not None
        and dict(found.config) == dict(wanted.config)
        and found.target_state is wanted.target_state
        and [dict(task) for task in found.tasks] == [dict(task) for task in wanted.tasks]
    )


# --- order and bytes ---


def test_a_deleted_connector_is_restored_with_what_is_wanted_of_it_first_and_the_commit_last():
    history = records_of(
        [
            encode_connector("a", {"k": "1"}),
            encode_task(TaskId("a", 0), {"t": "0"}),
            encode_commit("a", 1),
            encode_target_state("a", TargetState.PAUSED),
            tombstone_of_connector("a"),
            tombstone_of_target_state("a"),
        ]
    )
    plan = restore_plan(view_of(history), view_of(history[:4]), "a")
    assert [edit.key for edit in plan.edits] == [b"target-state-a", b"connector-a", b"task-a-0", b"commit-a"]
    assert plan.is_atomic
    assert plan.requirements == (NoLiveOwner("a"),)


def test_deleting_writes_the_tombstones_of_java_and_then_those_of_its_statuses():
    history = records_of([encode_connector("a", {}), encode_target_state("a", TargetState.PAUSED)])
    status = StoredStatus(RunState.RUNNING, "w:1", 1)
    statuses = status_view(
        [
            (status_key("a"), encode_status(status)),
            (status_key(TaskId("a", 0)), encode_status(status)),
            (status_key("other"), encode_status(status)),
            (topic_key("a", "t"), encode_topic_use(TopicUse("t", "a", 0, 1))),
        ]
    )
    plan = delete_plan(view_of(history), "a", statuses)
    assert [(edit.which, edit.key, edit.new) for edit in plan.edits] == [
        (C, b"connector-a", None),
        (C, b"target-state-a", None),
        (S, b"status-connector-a", None),
        (S, b"status-task-a-0", None),
        (S, b"status-topic-t:connector-a", None),
    ]


def test_a_name_that_rest_can_not_address_is_deleted():
    view = view_of(records_of([encode_connector("a/b c%", {})]))
    assert [edit.key for edit in delete_plan(view, "a/b c%").edits] == [b"connector-a/b c%", b"target-state-a/b c%"]


# --- requirements ---


def group(*workers, state="Stable"):
    return LiveGroup("g", state, "sessioned", workers)


def worker(url, connectors=(), tasks=()):
    return LiveWorker("m", "c", "/1.2.3.4", url, 5, Work(tuple(connectors), tuple(tasks)), True)


def test_a_live_owner_is_named_with_what_it_runs():
    live = group(worker("http://h1:8083/", ["a"], [TaskId("a", 0), TaskId("a", 1)]), worker("http://h2:8083/", ["b"]))
    (found,) = refusals([NoLiveOwner("a")], live)
    assert "http://h1:8083/ runs the connector and tasks 0, 1" in found.sentence
    assert not found.is_final
    assert refusals([NoLiveOwner("c")], live) == []


def test_while_a_rebalance_runs_any_worker_may_own_it():
    (found,) = refusals([NoLiveOwner("c")], group(worker("http://h1:8083/"), state="PreparingRebalance"))
    assert "A rebalance runs" in found.sentence


def running(*subjects, on):
    cache = StatusCache()
    for subject in subjects:
        cache.apply(decode_record(status_key(subject), encode_status(StoredStatus(RunState.RUNNING, on, 1))))
    return cache


OTHER = LiveGroup("other", "Stable", "sessioned", (worker("http://h9:8083/", ["a"], [TaskId("a", 0)]),))
NOBODY = LiveGroup("wrong", "Dead", "", ())


@pytest.mark.parametrize("subject", ["a", TaskId("a", 0)])
def test_a_group_that_runs_what_the_statuses_say_stands_against_a_wrong_group_id(subject):
    neighbours = seen_neighbours([OTHER], running(subject, on="h9:8083"))
    (found,) = neighbour_refusals([NoLiveOwner("x")], NOBODY, neighbours)
    assert "group other runs connectors of these topics: http://h9:8083/ runs" in found.sentence
    assert "--group-id other" in found.hint
    assert not found.is_final
    assert neighbours.warnings("wrong") == ()
    assert neighbour_refusals([Stopped("a")], NOBODY, neighbours) == []
    assert neighbour_refusals([NoLiveOwner("x")], group(worker("http://h1:8083/")), neighbours) == []


@pytest.mark.parametrize(
    "statuses", [None, StatusCache(), running("a", on="h1:8083"), running("gone", TaskId("a", 7), on="h9:8083")]
)
def test_a_group_of_which_it_is_not_proved_is_warned_of(statuses):
    """Not there, of a worker elsewhere, or left at its address by one that was there before."""
    neighbours = seen_neighbours([OTHER, LiveGroup("asleep", "Empty", "", ())], statuses)
    assert neighbour_refusals([NoLiveOwner("x")], NOBODY, neighbours) == []
    (warning,) = neighbours.warnings("wrong")
    assert "Group wrong has no workers" in warning
    assert "on the brokers: other." in warning


def test_while_a_neighbour_rebalances_its_address_is_enough():
    moving = replace(OTHER, state="PreparingRebalance")
    assert seen_neighbours([moving], running("gone", on="h9:8083")).users


def test_without_the_name_of_the_group_nothing_is_sure():
    (found,) = refusals([NoLiveOwner("a"), NoLiveGroup()], None)
    assert "--group-id" in found.hint
    assert not found.is_final


def test_a_connector_that_is_not_stopped_is_refused_even_with_force():
    snapshot = view_of(records_of([encode_connector("a", {}), encode_connector("b", {})]))
    snapshot = view_of(
        records_of(
            [
                encode_connector("a", {}),
                encode_connector("b", {}),
                encode_target_state("b", TargetState.STOPPED),
            ]
        )
    ).snapshot
    found = refusals([Stopped("a"), Stopped("b")], group(), snapshot)
    assert [refusal.is_final for refusal in found] == [True]
    assert "a must be STOPPED" in found[0].sentence


def test_running_counts_only_where_the_worker_lives():
    statuses = status_view(
        [
            (status_key(TaskId("a", 0)), encode_status(StoredStatus(RunState.RUNNING, "gone:8083", 1))),
            (status_key(TaskId("a", 1)), encode_status(StoredStatus(RunState.RUNNING, "h1:8083", 1))),
        ]
    ).statuses
    assert refusals([NoRunningTask("a")], group(), None, statuses) == []
    (found,) = refusals([NoRunningTask("a")], group(worker("http://h1:8083/")), None, statuses)
    assert "a-1 on h1:8083" in found.sentence
    assert "gone" not in found.sentence


@pytest.mark.parametrize(
    ("which", "key", "need"),
    [
        (C, b"connector-a-b", NoLiveOwner("a-b")),
        (C, b"task-a-b-3", NoLiveOwner("a-b")),
        (C, b"commit-a", NoLiveOwner("a")),
        (C, b"tasks-fencing-a", NoLiveOwner("a")),
        (C, b"restart-connector-a", NoLiveOwner("a")),
        (S, b"status-task-a-0", NoLiveOwner("a")),
        (S, b"status-topic-t:connector-a", NoLiveOwner("a")),
        (O, b'["a",{"f":1}]', NoLiveOwner("a")),
    ],
)
def test_a_record_belongs_to_its_connector(which, key, need):
    assert requirements_for_keys([(which, key)]) == (need,)


@pytest.mark.parametrize(("which", "key"), [(C, b"session-key"), (C, b"logger-cluster-x"), (C, b"\xff"), (O, b"x")])
def test_what_is_of_no_connector_needs_the_whole_cluster_at_rest(which, key):
    (need,) = requirements_for_keys([(which, key)])
    assert isinstance(need, NoLiveGroup)


# --- single records ---


@pytest.mark.parametrize(
    ("which", "key", "value", "told"),
    [
        (C, "connector-a", b'{"k":"v"}', "'properties' is missing"),
        (C, "connector-a", b"{", "not JSON"),
        (C, "connector-a", b"NaN", "not JSON"),
        (C, "task-a", b'{"properties":{}}', "number of a task"),
        (C, "target-state-a", b'{"state":"GONE"}', "no state"),
        (C, "nonsense", b"{}", "none of a config topic"),
        (S, "status-task-a", b"{}", "number of a task"),
        (S, "status-connector-a", b'{"state":"RUNNING"}', "generation"),
        (O, '["a",{}]', b"7", "not a JSON object"),
        (O, '["a",{}]', b'{"p":{"q":1}}', "primitive"),
        (O, "a", b"{}", "connector"),
        (C, "connector-a", b"null", "deletes the record"),
    ],
)
def test_a_value_that_is_none_of_its_kind_is_refused_unless_forced(which, key, value, told):
    with pytest.raises(BadRequestError, match=told):
        put_plan(which, Latest(), key, value)
    (edit,) = put_plan(which, Latest(), key, value, is_forced=True).edits
    assert edit.key == key.encode()
    assert edit.new is not None


def test_json_is_written_as_java_spells_it():
    (edit,) = put_plan(C, Latest(), "connector-a", b'{ "properties": {"x": "\xf0\x9f\x98\x80", "y" : "1"} }').edits
    assert edit.new == b'{"properties":{"x":"\\uD83D\\uDE00","y":"1"}}'


def latest_of(*entries):
    latest = Latest()
    for record in records_of(entries):
        latest.apply(record)
    return latest


def test_a_masked_secret_stands_for_the_one_that_is_there():
    latest = latest_of(encode_connector("a", {"password": "hush", "k": "1"}))
    masked = json.dumps({"properties": {"password": "[hidden]", "k": "2"}}).encode()
    from kconnect.logs import HIDDEN

    masked = masked.replace(b"[hidden]", HIDDEN.encode())
    (edit,) = put_plan(C, latest, "connector-a", masked).edits
    assert json.loads(edit.new)["properties"] == {"password": "hush", "k": "2"}
    with pytest.raises(BadRequestError, match="stands for a secret that is not there"):
        put_plan(C, Latest(), "connector-a", masked)


def test_a_source_partition_keeps_the_spelling_it_has_in_the_topic():
    stored = b'["a",{"y":2,"x":1}]'
    latest = latest_of((stored, b'{"p":1}'))
    assert put_plan(O, latest, '["a", {"x": 1, "y": 2}]', b'{"p":2}').edits[0].key == stored
    assert delete_keys(O, latest, ['["a", {"x":1,"y":2}]']).edits[0].key == stored
    assert put_plan(O, Latest(), '["a", {"x": 1}]', b'{"p":2}').edits[0].key == b'["a",{"x":1}]'


def test_deleting_what_is_not_there_names_what_is_near():
    latest = latest_of(encode_connector("orders", {}))
    with pytest.raises(NotFoundError) as error:
        delete_keys(C, latest, ["connector-order"])
    assert "connector-orders" in error.value.hint
    assert delete_keys(C, latest, ["connector-order"], is_forced=True).edits[0].old is None


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from(InternalTopic))
@settings(max_examples=200, deadline=None)
def test_any_bytes_can_be_forced_in_and_deleted(key, value, which):
    import base64

    text = "base64:" + base64.b64encode(key).decode()
    plan = put_plan(which, Latest(), text, value or b"x", is_forced=True)
    assert plan.edits[0].new is not None
    record = LogRecord("t", 0, 0, plan.edits[0].key, value)
    latest = Latest()
    latest.apply(record)
    assert delete_keys(which, latest, [text]).edits == (Edit(which, plan.edits[0].key, None, record),)


# --- archive ---


def test_offsets_come_before_the_connector_that_would_start_from_them():
    archive = read_archive(
        {
            "format": "kconnect-topics",
            "version": 1,
            "connectors": [{"name": "a", "config": {"k": "1"}, "tasks": [{"t": "0"}], "task_count_record": 2}],
            "offsets": {"a": {"offsets": [{"partition": {"f": 1}, "offset": {"p": 7}}]}},
        }
    )
    plan = import_plan(archive, ClusterState(view_of([]), offset_view()))
    assert [edit.key for edit in plan.edits] == [
        b'["a",{"f":1}]',
        b"target-state-a",
        b"connector-a",
        b"tasks-fencing-a",
        b"task-a-0",
        b"commit-a",
    ]
    assert len(plan.steps) == 2
    (need,) = plan.requirements
    assert isinstance(need, NoLiveGroup)


def test_offsets_of_a_connector_that_is_there_are_not_overwritten_unless_asked():
    configs = view_of(records_of([encode_connector("a", {"k": "1"})]))
    offsets = offset_view(
        [(encode_key("a", {"f": 1}), encode_value({"p": 9})), (encode_key("a", {"f": 2}), encode_value({"p": 9}))]
    )
    archive = read_archive(
        {
            "format": "kconnect-topics",
            "version": 1,
            "connectors": [{"name": "a", "config": {"k": "1"}}],
            "offsets": {"a": {"offsets": [{"partition": {"f": 1}, "offset": {"p": 7}}]}},
        }
    )
    with pytest.raises(ConflictError, match="another offsets"):
        import_plan(archive, ClusterState(configs, offsets))
    plan = import_plan(archive, ClusterState(configs, offsets), replace=True)
    assert {edit.key: edit.new for edit in plan.edits} == {b'["a",{"f":1}]': b'{"p":7}', b'["a",{"f":2}]': None}


@pytest.mark.parametrize("has_offsets", [True, False])
def test_a_file_that_says_nothing_of_offsets_leaves_those_that_are_there(has_offsets):
    file = {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [{"name": "a", "config": {"k": "2"}}],
    } | ({"offsets": {}} if has_offsets else {})
    configs = view_of(records_of([encode_connector("a", {"k": "1"})]))
    state = ClusterState(configs, offset_view([(b'["a",{"f":1}]', b'{"p":1}')]))
    plan = import_plan(read_archive(file).chosen(["a"]), state, replace=True)
    forgotten = [edit.key for edit in plan.edits if edit.which is InternalTopic.OFFSET and edit.new is None]
    assert forgotten == ([b'["a",{"f":1}]'] if has_offsets else [])
    assert any(edit.key == b"connector-a" for edit in plan.edits)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "other"}, "no export"),
        ({"version": 2}, "version 2"),
        ({"version": True}, "version True"),
        ({"more": 1}, 'unknown field "more"'),
        ({"connectors": {}}, "must be a list"),
        ({"connectors": [1]}, r"connectors\[0\] must be an object"),
        ({"connectors": [{"name": ""}]}, "name must be a text"),
        ({"connectors": [{"name": "a"}]}, "config must be an object"),
        ({"connectors": [{"name": "a", "config": {"k": 1}}]}, "k must be a text"),
        ({"connectors": [{"name": "a", "config": {}}] * 2}, "stands there twice"),
        ({"connectors": [{"name": "a", "config": {}, "target_state": "UP"}]}, "target_state 'UP'"),
        ({"connectors": [{"name": "a", "config": {}, "tasks": 1}]}, "tasks must be a list"),
        ({"connectors": [{"name": "a", "config": {}, "task_count_record": -1}]}, "task_count_record"),
        ({"offsets": [1]}, "JSON object"),
        ({"offsets": {"a": {"offsets": [{"partition": {}, "offset": 7}]}}}, "must be objects"),
        ({"groups": {"a": {}}}, "group must be a text"),
        ({"groups": {"a": {"group": "g", "offsets": [{"partition": {}, "offset": None}]}}}, "kafka_topic"),
    ],
)
def test_a_file_that_is_no_export_of_this_version_is_refused_with_the_place(change, told):
    good = {"format": "kconnect-topics", "version": 1, "connectors": []}
    assert read_archive(good).connectors == {}
    with pytest.raises(BadRequestError, match=told):
        read_archive({**good, **change})


def test_secrets_are_masked_unless_asked_for_and_come_back_from_what_is_there():
    configs = view_of(records_of([encode_connector("a", {"password": "hush", "k": "1"})]))
    state = ClusterState(configs, offset_view())
    document = archive_document(state, None, 0, skip=lambda _: None)
    assert "hush" not in json.dumps(document)
    assert import_plan(read_archive(document), state).is_empty
    with pytest.raises(BadRequestError, match="password is"):
        import_plan(read_archive(document), ClusterState(view_of([]), offset_view()))
    assert "hush" in json.dumps(archive_document(state, None, 0, masks=Masks(reveal=True), skip=lambda _: None))


def test_the_session_key_is_never_exported():
    from kconnect.storage.config_topic import encode_session_key
    from kconnect.storage.session_key import SessionKey

    configs = view_of(records_of([encode_session_key(SessionKey(b"very secret", "HmacSHA256", 1))]))
    document = json.dumps(
        archive_document(ClusterState(configs, offset_view()), None, 0, masks=Masks(reveal=True), skip=print)
    )
    assert "HmacSHA256" not in document
    assert "dmVyeSBzZWNyZXQ" not in document


def test_a_state_of_a_connector_says_what_the_topic_does():
    configs = view_of(records_of([encode_connector("a", {"k": "1"}), encode_task_count("a", 3)]))
    assert connector_state(configs, "a") == ConnectorState({"k": "1"}, TargetState.STARTED, [], 3)
    assert connector_state(configs, "b") is None
