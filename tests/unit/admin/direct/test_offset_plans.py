"""Plans of offsets: what is written where, in which order, and what is refused. No broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.edit.plan import NoLiveOwner, NoRunningTask, Stopped
from kconnect.admin.direct.offsets.plans import fencing_plan, reset_plans, sink_plans, source_plans
from kconnect.admin.direct.offsets.transfers import OffsetFileNow, import_requirements
from kconnect.admin.direct.read.connector_offsets import GroupNow, SourceNow, offset_topics, resolved_config
from kconnect.errors import BadRequestError, ConflictError, ConnectError, NotFoundError
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType, LogRecord, TargetState, TaskId, TopicPartition
from kconnect.runtime.herder.offsets.log_ranges import LogRanges
from kconnect.runtime.storage import FileOffsetStore, config_topic
from kconnect.runtime.storage.offset_topic import encode_key, encode_value
from kconnect.runtime.storage.snapshot import ConfigFold
from kit.topic_views import offset_view

WORKER = {"bootstrap.servers": "b:1", "group.id": "g", "offset.storage.topic": "offsets"}
PLAIN = ClusterAccess(WORKER)
EXACTLY_ONCE = ClusterAccess(WORKER | {"exactly.once.source.support": "enabled"})


def source_of(*topics):
    """With two topics the first one is the connector's own."""
    names = ("own", None) if len(topics) == 2 else (None,)
    return SourceNow("c", {name: offset_view(records) for name, records in zip(names, topics, strict=True)})


def record(partition, offset):
    return encode_key("c", {"p": partition}), encode_value(offset)


def item(partition, offset):
    return ConnectorOffset({"p": partition}, offset)


def test_an_offset_is_written_as_java_writes_it_under_the_key_that_is_there():
    stored = b'["c",{"z":1,"a":2}]'
    now = source_of([(stored, b'{"o":1}')])
    # As PATCH wrote it in tests/golden/topics/scenario-disabled.json, step 19
    wanted = {"position": 3, "z": None, "s": "x", "t": True, "big": 12345678901, "f": 1.5}
    (plan,) = source_plans(PLAIN, now, [ConnectorOffset({"a": 2, "z": 1}, wanted)])
    (edit,) = plan.edits
    assert (edit.key, edit.old.offset) == (stored, 0)
    assert edit.new == b'{"big":12345678901,"s":"x","t":true,"f":1.5,"z":null,"position":3}'
    assert plan.requirements == (NoLiveOwner("c"), Stopped("c"), NoRunningTask("c"))


def test_a_key_that_java_would_not_find_is_written_as_java_spells_it_and_removed_in_every_spelling():
    now = source_of([(b'["c",{"p": 1}]', b'{"o":1}')])
    (plan,) = source_plans(PLAIN, now, [item(1, {"o": 2})])
    assert [edit.key for edit in plan.edits] == [b'["c",{"p":1}]']
    now = source_of([(b'["c",{"p": 1}]', b'{"o":1}'), record(1, {"o": 2})])
    (plan,) = source_plans(PLAIN, now, [item(1, None)])
    assert {edit.key for edit in plan.edits} == {b'["c",{"p": 1}]', b'["c",{"p":1}]'}


def test_what_is_there_already_is_not_written_again():
    assert source_plans(PLAIN, source_of([record(1, {"o": 1})]), [item(1, {"o": 1})]) == []


def test_reset_writes_a_tombstone_for_each_partition_of_this_connector_only():
    other = (encode_key("d", {"p": 1}), b"{}")
    (plan,) = reset_plans(PLAIN, source_of([record(1, {"o": 1}), other, record(2, {"o": 1})]), "c")
    assert [(edit.key, edit.new) for edit in plan.edits] == [(record(1, {})[0], None), (record(2, {})[0], None)]


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [
        ([item(2, {"o": 1})], "no such partition"),
        ([item(1, {"o": [1]})], "primitive types"),
        ([item({"a": 1}, {"o": 1})], "primitive types"),
        ([item(1, {"o": 1}), item(1, {"o": 2})], "more than one offset"),
    ],
)
def test_offsets_that_can_not_be_are_refused(wanted, reported):
    with pytest.raises(BadRequestError, match=reported):
        source_plans(PLAIN, source_of([record(1, {"o": 0})]), wanted)


def test_force_writes_a_partition_that_is_not_there():
    (plan,) = source_plans(PLAIN, source_of([]), [item(2, {"o": 1})], force=True)
    assert [(edit.key, edit.old) for edit in plan.edits] == [(encode_key("c", {"p": 2}), None)]


def test_with_exactly_once_only_the_topic_that_counts_is_written_in_the_first_tasks_transactions():
    now = source_of([record(1, {"o": 1}), record(2, {"o": 1})], [record(1, {"o": 1}), record(2, {"o": 1})])
    plans = source_plans(EXACTLY_ONCE, now, [item(1, None), item(2, {"o": 2})])
    reported = [(plan.transactional_id, [(edit.topic, edit.new) for edit in plan.edits]) for plan in plans]
    assert reported == [
        (None, [(None, None)]),
        ("g-c-0", [("own", None), ("own", b'{"o":2}')]),
        (None, [(None, b'{"o":2}')]),
    ]


_STORED = st.dictionaries(st.integers(0, 4), st.integers(0, 2))
_WANTED = st.dictionaries(st.integers(0, 4), st.none() | st.integers(0, 2), min_size=1)


@given(own=st.none() | _STORED, worker=_STORED, wanted=_WANTED, is_exactly_once=st.booleans())
def test_a_kill_between_steps_leaves_each_partition_as_before_or_as_after(own, worker, wanted, is_exactly_once):
    logs = {None: [record(number, {"o": offset}) for number, offset in worker.items()]}
    if own is not None:
        logs = {"own": [record(number, {"o": offset}) for number, offset in own.items()], **logs}

    def listed():
        now = SourceNow("c", {topic: offset_view(records) for topic, records in logs.items()})
        return now, {found.partition["p"]: found.offset["o"] for found in now.listed()}

    now, before = listed()
    access = EXACTLY_ONCE if is_exactly_once else PLAIN
    plans = source_plans(access, now, [item(p, None if o is None else {"o": o}) for p, o in wanted.items()], force=True)
    after = {p: o for p, o in (before | wanted).items() if o is not None}
    for plan in plans:
        for step in plan.steps:
            for edit in step:
                logs[edit.topic].append((edit.key, edit.new))
            seen = listed()[1]
            for partition in before.keys() | after.keys() | seen.keys():
                assert seen.get(partition) in (before.get(partition), after.get(partition))
    assert listed()[1] == after


def test_a_topic_of_its_own_counts_where_it_is_another_one_and_of_this_cluster():
    assert offset_topics(PLAIN, "c", {}) == (None,)
    assert offset_topics(PLAIN, "c", {"offsets.storage.topic": "own"}) == ("own", None)
    assert offset_topics(PLAIN, "c", {"offsets.storage.topic": "offsets"}) == (None,)
    elsewhere = {"producer.override.bootstrap.servers": "other:1"}
    assert offset_topics(PLAIN, "c", elsewhere) == (None,), "the worker commits for it"
    with pytest.raises(ConnectError, match="another cluster, other:1"):
        offset_topics(EXACTLY_ONCE, "c", elsewhere)


def test_references_in_settings_that_say_where_offsets_are_are_resolved(monkeypatch):
    monkeypatch.setenv("GROUP", "mine")
    access = ClusterAccess(
        WORKER
        | {
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        }
    )
    config = {"name": "c", "consumer.override.group.id": "${env:GROUP}", "password": "${env:NOT_THERE}"}
    found = resolved_config(access, ConnectorInfo("c", config, (), ConnectorType.SINK))
    assert found == {"name": "c", "consumer.override.group.id": "mine"}


LOG = LogRanges({"t": 2}, {TopicPartition("t", 0): (3, 20), TopicPartition("t", 1): (0, 7)})
GROUP = GroupNow("connect-c", {TopicPartition("t", 0): 5}, log=LOG)


def sink_item(topic, partition, offset):
    return ConnectorOffset(
        {"kafka_topic": topic, "kafka_partition": partition}, None if offset is None else {"kafka_offset": offset}
    )


def test_sink_offsets_are_set_and_removed_in_the_group():
    (plan,) = sink_plans(GROUP, "c", [sink_item("t", 0, None), sink_item("t", "1", "7")])
    assert plan.groups[0].new == {TopicPartition("t", 0): None, TopicPartition("t", 1): 7}
    assert plan.groups[0].old == {TopicPartition("t", 0): 5}
    assert not plan.groups[0].is_deleted
    assert sink_plans(GROUP, "c", [sink_item("t", 0, 5)]) == []


def test_a_reset_deletes_the_group():
    (plan,) = reset_plans(PLAIN, GROUP, "c")
    assert plan.groups[0].is_deleted
    assert reset_plans(PLAIN, GroupNow("connect-c", {}), "c") == []


@pytest.mark.parametrize(
    ("wanted", "kind", "reported"),
    [
        ([sink_item("t", 2, 1)], NotFoundError, "no partition 2"),
        ([sink_item("t", -1, 1)], NotFoundError, "no partition -1"),
        ([sink_item("u", 0, 1)], NotFoundError, "topic u does not exist"),
        ([sink_item("u", 0, None)], NotFoundError, "no offset"),
        ([sink_item("t", 0, -1)], BadRequestError, "below 0"),
        ([sink_item("t", "x", 1)], BadRequestError, "integers"),
        ([sink_item("t", 0, 1), sink_item("t", "0", 2)], BadRequestError, "more than one offset"),
        ([item(1, {"o": 1})], BadRequestError, "kafka_topic"),
    ],
)
def test_sink_offsets_that_can_not_be_are_refused(wanted, kind, reported):
    with pytest.raises(kind, match=reported):
        sink_plans(GROUP, "c", wanted)


def test_sink_offsets_at_which_nothing_can_be_read_are_refused_unless_forced():
    wanted = [sink_item("t", 0, 2), sink_item("t", 1, 8)]
    with pytest.raises(BadRequestError) as refused:
        sink_plans(GROUP, "c", wanted)
    assert str(refused.value) == (
        "Connector c: offset 2 of t-0 is before its first record, 3; offset 8 of t-1 is beyond its end, 7"
    )
    assert "--force" in (refused.value.hint or "")
    (plan,) = sink_plans(GROUP, "c", wanted, force=True)
    assert plan.groups[0].new == {TopicPartition("t", 0): 2, TopicPartition("t", 1): 8}
    assert sink_plans(GROUP, "c", [sink_item("t", 0, 3), sink_item("t", 1, 7)]), "the first record, and the end"


def test_a_group_with_members_is_refused():
    with pytest.raises(ConflictError, match="2 members"):
        sink_plans(GroupNow("connect-c", {}, members=2, log=LOG), "c", [sink_item("t", 0, 5)])


def test_zombies_are_fenced_once_for_each_set_of_tasks():
    fold, offset = ConfigFold(), 0

    def write(*entries):
        nonlocal offset
        for key, value in entries:
            fold.apply(LogRecord("configs", 0, offset, key, value))
            offset += 1

    write(config_topic.encode_connector("c", {"a": "1"}), config_topic.encode_task(TaskId("c", 0), {"a": "1"}))
    write(config_topic.encode_commit("c", 1), config_topic.encode_task_count("c", 1))
    assert fencing_plan("c", fold.snapshot(), lambda key: None) is None
    write(config_topic.encode_commit("c", 0))
    plan, zombies = fencing_plan("c", fold.snapshot(), lambda key: None)
    assert zombies == 1
    assert [(edit.key, edit.new) for edit in plan.edits] == [(b"tasks-fencing-c", b'{"task-count":0}')]
    write(config_topic.encode_task_count("c", 0))
    assert fencing_plan("c", fold.snapshot(), lambda key: None) is None


@pytest.mark.parametrize(
    ("target", "is_live", "needs"),
    [
        (None, True, (NoRunningTask("c"),)),
        (TargetState.STARTED, False, (NoRunningTask("c"),)),
        (TargetState.STARTED, True, (NoLiveOwner("c"), NoRunningTask("c"))),
        (TargetState.STOPPED, True, (Stopped("c"), NoRunningTask("c"))),
    ],
)
def test_offsets_are_imported_where_no_task_can_run(target, is_live, needs):
    fold = ConfigFold()
    if target is not None:
        for offset, entry in enumerate(
            (config_topic.encode_connector("c", {"a": "1"}), config_topic.encode_target_state("c", target))
        ):
            fold.apply(LogRecord("configs", 0, offset, *entry))
    assert import_requirements("c", fold.snapshot(), is_live=is_live) == needs


def test_an_offsets_file_that_a_worker_has_written_since_it_was_read_is_left_as_it_is(tmp_path):
    path = tmp_path / "connect.offsets"
    key, b_key = encode_key("c", {"p": 1}), encode_key("b", {"p": 1})
    worker = FileOffsetStore(path)
    worker.start()
    worker.set({b_key: encode_value({"at": 1})})
    now = OffsetFileNow(path)
    changes = now.changes({"c": [item(1, {"at": 5})]}, replaced=False)
    worker.set({b_key: encode_value({"at": 777})})
    with pytest.raises(ConflictError, match="changed in the meantime, nothing was written"):
        now.write(changes)
    again = OffsetFileNow(path)
    assert (again.value(b_key), again.value(key)) == (encode_value({"at": 777}), None)
    again.write(changes)
    assert OffsetFileNow(path).value(key) == encode_value({"at": 5})
