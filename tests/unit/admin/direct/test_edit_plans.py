"""Plans of edits: whatever the cluster held, each state a killed command can leave reads as before or after."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.archive.document import LiveTopics, archive_document, import_plan, read_archive
from kconnect.admin.direct.edit.connector_plans import (
    ConfiguredConnector,
    connector_state,
    delete_plan,
    restore_plan,
    target_state_plan,
)
from kconnect.admin.direct.edit.plan import (
    EditPlan,
    NoLiveOwner,
)
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.errors import ConflictError, NotFoundError
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    encode_commit,
    encode_connector,
    encode_target_state,
    encode_task,
    encode_task_count,
    tombstone_of_connector,
    tombstone_of_target_state,
)
from kconnect.runtime.storage.status_topic import (
    StoredStatus,
    TopicUse,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)
from kit.examples import examples
from kit.topic_views import config_view, offset_view, records_of, status_view

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
    return [config_view(records) for records in topics_after_each_step(before, plan)]


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
@examples(150)
def test_a_pause_resume_or_stop_is_done_at_once(entries, name, state):
    history = records_of(entries)
    view = config_view(history)
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
@examples(150)
def test_a_deletion_reads_as_before_or_after_also_between_any_two_records(entries, name):
    history = records_of(entries)
    view = config_view(history)
    if not view.snapshot.contains(name):
        return
    plan = delete_plan(view, name)
    after = check_each_state_is_before_or_after(history, plan, name)
    assert not after.snapshot.contains(name)
    assert after.latest.get(encode_target_state(name, TargetState.PAUSED)[0]) is None
    check_each_state_is_before_or_after(history, by_single_records(plan), name)


@given(histories, st.integers(0, 40), st.sampled_from(NAMES))
@examples(300)
def test_a_restored_connector_is_as_it_was_and_doing_it_again_does_nothing(entries, cut, name):
    history = records_of(entries)
    now, then = config_view(history), config_view(history[:cut])
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
@examples(150)
def test_a_restore_cut_between_records_mixes_no_tasks_and_can_be_repeated(entries, cut, name):
    """The order alone has to do here; a config comes with what is wanted of it, as nothing may run that was stopped."""
    history = records_of(entries)
    now, then = config_view(history), config_view(history[:cut])
    if not then.snapshot.contains(name):
        return
    wanted = connector_state(then, name)
    whole = [list(found.tasks) for found in (connector_state(now, name), wanted) if found is not None]
    for records in topics_after_each_step(history, by_single_records(restore_plan(now, then, name))):
        view = config_view(records)
        found = connector_state(view, name)
        assert found is None or list(found.tasks) in [*whole, []]
        if found is not None and found.config == wanted.config != now.snapshot.raw_config(name):
            assert found.target_state is wanted.target_state
        assert same(connector_state(after_each_step(records, restore_plan(view, then, name))[-1], name), wanted)


@given(histories, histories, st.booleans())
@examples(200)
def test_an_import_makes_the_cluster_hold_the_export_connector_by_connector(source, target, replace):
    exported = LiveTopics(config_view(records_of(source)), offset_view())
    document = archive_document(exported, None, 0, masks=SecretMasks(reveal=True), skip=lambda _: None)
    archive = read_archive(json.loads(json.dumps(document)))
    history = records_of(target)
    now = config_view(history)
    state = LiveTopics(now, offset_view())
    differing = [
        name
        for name, found in archive.connectors.items()
        if now.snapshot.contains(name) and not import_plan(archive.chosen([name]), state, replace=True).is_empty
    ]
    if differing and not replace:
        with pytest.raises(ConflictError, match="already exists"):
            import_plan(archive, state)
        return
    plan = import_plan(archive, state, replace=replace)
    for records in topics_after_each_step(history, plan):
        view = config_view(records)
        for name, wanted in archive.connectors.items():
            assert reads_as(view, name) == reads_as(now, name) or same(connector_state(view, name), wanted)
        for name in now.snapshot.configs.keys() - archive.connectors.keys():
            assert reads_as(view, name) == reads_as(now, name)
        rest = import_plan(archive, LiveTopics(view, offset_view()), replace=replace)
        done = after_each_step(records, rest)[-1]
        assert all(same(connector_state(done, name), wanted) for name, wanted in archive.connectors.items())
        assert import_plan(archive, LiveTopics(done, offset_view())).is_empty


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
    plan = restore_plan(config_view(history), config_view(history[:4]), "a")
    assert [edit.key for edit in plan.edits] == [b"target-state-a", b"connector-a", b"task-a-0", b"commit-a"]
    assert plan.requirements == (NoLiveOwner("a"),)


@pytest.mark.parametrize(
    ("later", "after", "kept"),
    [
        ([encode_target_state("a", TargetState.STOPPED)], TargetState.STOPPED, "STOPPED"),
        ([encode_target_state("a", TargetState.STARTED)], TargetState.STARTED, "STARTED"),
        ([tombstone_of_connector("a"), tombstone_of_target_state("a")], TargetState.STARTED, "STARTED"),
    ],
    ids=["stopped since", "resumed since", "deleted since"],
)
def test_a_state_that_compaction_may_have_taken_is_not_guessed(later, after, kept):
    begin = [encode_connector("a", {"k": "1"}), encode_target_state("a", TargetState.PAUSED)]
    whole = records_of([*begin, encode_connector("a", {"k": "2"}), *later])
    left = [record for record in whole if record.offset != 1]  # what was PAUSED

    plan = restore_plan(config_view(left), config_view(left[:1]), "a")

    (said,) = plan.notes
    assert said == (
        f"Whether a was PAUSED or STOPPED then is not known, as compaction may have removed it: it will be {kept}."
    )
    restored = after_each_step(left, plan)[-1].snapshot
    assert (restored.raw_config("a"), restored.target_state("a")) == ({"k": "1"}, after)

    plan = restore_plan(config_view(whole), config_view(whole[:1]), "a")

    assert not plan.notes
    assert after_each_step(whole, plan)[-1].snapshot.target_state("a") is TargetState.STARTED


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
    plan = delete_plan(config_view(history), "a", statuses)
    assert [(edit.which, edit.key, edit.new) for edit in plan.edits] == [
        (C, b"connector-a", None),
        (C, b"target-state-a", None),
        (S, b"status-connector-a", None),
        (S, b"status-task-a-0", None),
        (S, b"status-topic-t:connector-a", None),
    ]


def test_a_name_that_rest_can_not_address_is_deleted():
    view = config_view(records_of([encode_connector("a/b c%", {})]))
    assert [edit.key for edit in delete_plan(view, "a/b c%").edits] == [b"connector-a/b c%", b"target-state-a/b c%"]


def test_a_state_of_a_connector_says_what_the_topic_does():
    configs = config_view(records_of([encode_connector("a", {"k": "1"}), encode_task_count("a", 3)]))
    assert connector_state(configs, "a") == ConfiguredConnector({"k": "1"}, TargetState.STARTED, [], 3)
    assert connector_state(configs, "b") is None
