"""Plans of edits are written to real topics: as a whole, where the key's records are, and only onto what was shown."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.apply import apply_in_order, apply_plan, check_plan
from kconnect.admin.direct.edit.connector_plans import delete_plan, restore_plan, target_state_plan
from kconnect.admin.direct.edit.plan import Edit, EditPlan, GroupEdit, NoLiveOwner, Stopped
from kconnect.admin.direct.read.reader import Bounds, ClusterReader
from kconnect.errors import ConflictError, ConnectError, FencedError, TimedOutError, UnreachableError
from kconnect.model import TargetState, TopicPartition
from kconnect.runtime.kafka.atomic_writers import BatchEntry, BatchWriter, KafkaExclusiveWriter
from kconnect.runtime.storage.config_clients import leader_transactional_id
from kconnect.runtime.storage.config_topic import encode_connector, encode_target_state
from kit.group_offsets import group_offsets
from kit.topics import create_topic
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "3", "file": "/data/in", "topic": "t"}
TASKS = [{"file": f"/data/{number}"} for number in range(3)]
CONFIG, STATUS, OFFSET = InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.add_connector("src", FILE_SOURCE, TASKS, topics=["t"])
        running.commit_offsets("src", [({"filename": f"/data/{n}"}, {"position": n}) for n in range(8)])
        yield running


@pytest.fixture
def reader(cluster):
    with ClusterReader(cluster.access) as opened:
        yield opened


def edit(reader, which, key, new):
    view = {CONFIG: reader.configs, STATUS: reader.statuses, OFFSET: reader.offsets}[which]()
    return Edit(which, key, new, view.latest.get(key))


def write_batch(topic, producer, entries, timeout_s=20.0):
    with BatchWriter(topic, producer, timeout_s, timeout_setting="--timeout") as writer:
        return writer.write(entries)


def batches_of(broker, topic):
    """Offset, count of records and whether transactional, of each batch in the broker's own file of a topic."""
    (file,) = broker.folder.path.rglob(f"{topic}-0/00000000000000000000.log")
    data, at, found = file.read_bytes(), 0, []
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (count,) = struct.unpack_from(">i", data, at + 57)
        if not attributes & 0x20:  # no control batch
            found.append((base, count, bool(attributes & 0x10)))
        at += 12 + length
    return found


def test_offsets_written_are_reported_and_read_back(cluster, reader):
    key, value = encode_target_state("src", TargetState.PAUSED)
    plan = EditPlan("Pause src", ((edit(reader, CONFIG, key, value),),), (NoLiveOwner("src"),))
    applied = apply_plan(cluster.access, reader, plan)
    record = reader.configs().latest.get(key)
    assert record.value == value
    assert record.offset == applied.written[0].position.offset
    assert reader.configs().snapshot.target_state("src") is TargetState.PAUSED


def test_a_step_is_one_batch_in_the_brokers_file(cluster, reader, broker):
    cluster.add_connector("whole", FILE_SOURCE, TASKS)
    then = reader.configs()
    apply_plan(cluster.access, reader, delete_plan(then, "whole"))
    assert not reader.configs().snapshot.contains("whole")
    plan = restore_plan(reader.configs(), then, "whole")
    assert len(plan.edits) == 6
    applied = apply_plan(cluster.access, reader, plan)
    first = applied.written[0].position.offset
    assert [written.position.offset for written in applied.written] == list(range(first, first + 6))
    assert (first, 6, False) in batches_of(broker, cluster.access.topic(CONFIG))
    assert reader.configs().snapshot.task_configs["whole"] == then.snapshot.task_configs["whole"]


def test_each_of_many_batches_is_whole(cluster, broker):
    """Again and again, since a client that sent early would do so now and then only."""
    topic = f"{cluster.access.group_id}-batches"
    create_topic(broker.bootstrap, topic)
    producer = cluster.access.clients(CONFIG).producer
    with BatchWriter(topic, producer, 20, timeout_setting="--timeout") as writer:
        for number in range(15):
            entries = [BatchEntry(f"{number}-{n}".encode(), b"x" * 500) for n in range(200)]
            positions = writer.write(entries) if number % 3 else write_batch(topic, producer, entries)
            assert [at.offset for at in positions] == list(range(number * 200, number * 200 + 200))
    assert [count for _, count, _ in batches_of(broker, topic)] == [200] * 15


def test_keys_go_where_their_records_are_and_tombstones_take_them_away(cluster, reader):
    """Partitions are those that the store's producer chose: Java's murmur2."""
    before = {record.key: record for record in reader.offsets().latest.all()}
    assert len({record.partition for record in before.values()}) > 1
    changed = [edit(reader, OFFSET, key, b'{"position":99}') for key in before]
    fresh = [replace(found, old=None) for found in changed]
    by_hash = write_batch(
        cluster.access.topic(OFFSET),
        cluster.access.clients(OFFSET).producer,
        [BatchEntry(found.key, found.new) for found in fresh],
    )
    assert [at.partition for at in by_hash] == [record.partition for record in before.values()]
    tombstones = tuple(edit(reader, OFFSET, key, None) for key in before)
    applied = apply_plan(cluster.access, reader, EditPlan("Reset", (tombstones,)))
    assert [found.position.partition for found in applied.written] == [found.old.partition for found in tombstones]
    assert all(value is None for value in reader.offsets().entries.values())


def test_a_record_that_another_partition_holds_is_replaced_there(cluster, reader):
    """Written by a producer with another partitioner: compaction would keep both."""
    key = b'["src",{"filename":"/elsewhere"}]'
    home = write_batch(
        cluster.access.topic(OFFSET),
        cluster.access.clients(OFFSET).producer,
        [BatchEntry(key, None)],
    )[0].partition
    cluster.put_raw(OFFSET, key, b'{"position":1}', (home + 1) % 5)
    applied = apply_plan(cluster.access, reader, EditPlan("Reset", ((edit(reader, OFFSET, key, None),),)))
    assert applied.written[0].position.partition == (home + 1) % 5


def test_what_was_changed_meanwhile_is_not_written(cluster, reader):
    plan = target_state_plan(reader.configs(), "src", TargetState.STARTED)
    cluster.configs.put_target_state("src", TargetState.PAUSED)
    end = reader.configs().snapshot.offset
    with pytest.raises(ConflictError, match="target-state-src was changed in the meantime, nothing was written"):
        apply_plan(cluster.access, reader, plan)
    assert reader.configs().snapshot.offset == end


def test_what_somebody_writes_between_the_last_look_and_the_writing_is_reported(cluster, reader, monkeypatch):
    key, value = encode_target_state("src", TargetState.STARTED)
    plan = EditPlan("Resume src", ((edit(reader, CONFIG, key, value),),))
    theirs = []
    look = reader.records

    def look_and_be_late(*args, **kwargs):
        yield from look(*args, **kwargs)
        if not theirs:
            cluster.configs.put_target_state("src", TargetState.PAUSED)
            theirs.extend(record.offset for record in look(CONFIG) if record.key == key)

    monkeypatch.setattr(reader, "records", look_and_be_late)
    applied = apply_plan(cluster.access, reader, plan)
    assert applied.meanwhile == (
        f"target-state-src was written by someone else in the meantime, at offset {theirs[-1]} of partition 0; "
        "what was written here is in force",
    )
    assert applied.written[0].position.offset == theirs[-1] + 1
    assert (
        apply_plan(cluster.access, reader, target_state_plan(reader.configs(), "src", TargetState.PAUSED)).meanwhile
        == ()
    )


def test_what_is_written_while_the_plugin_is_asked_is_not_overwritten(cluster, reader):
    plan = target_state_plan(reader.configs(), "src", TargetState.STARTED)

    def write_in_between() -> None:
        cluster.configs.put_target_state("src", TargetState.PAUSED)

    with pytest.raises(ConflictError, match="target-state-src was changed in the meantime, nothing was written"):
        apply_plan(cluster.access, reader, plan, before=write_in_between)
    assert reader.configs().snapshot.target_state("src") is TargetState.PAUSED


def test_without_the_group_only_force_writes(cluster, reader):
    access = ClusterAccess({key: value for key, value in cluster.worker.items() if key != "group.id"}, 20)
    plan = target_state_plan(reader.configs(), "src", TargetState.PAUSED)
    with pytest.raises(ConflictError, match="workers' group is not known") as error:
        apply_plan(access, reader, plan)
    assert "--group-id" in error.value.hint
    applied = apply_plan(access, reader, plan, force=True)
    assert "workers' group is not known" in applied.overridden[0]


def test_a_connector_that_must_be_stopped_is_refused_even_with_force(cluster, reader):
    cluster.configs.put_target_state("src", TargetState.PAUSED)
    plan = EditPlan("Alter src", ((edit(reader, OFFSET, b'["src",{"f":1}]', b"{}"),),), (Stopped("src"),))
    with pytest.raises(ConflictError, match="src must be STOPPED for this, but is PAUSED"):
        check_plan(cluster.access, reader, plan, force=True)
    apply_plan(cluster.access, reader, target_state_plan(reader.configs(), "src", TargetState.STOPPED))
    apply_plan(cluster.access, reader, plan)


def test_what_runs_before_the_writing_runs_after_the_checks(cluster, reader):
    done = []
    plan = target_state_plan(reader.configs(), "src", TargetState.STOPPED)
    cluster.configs.put_target_state("src", TargetState.STOPPED)
    with pytest.raises(ConflictError, match="changed in the meantime"):
        apply_plan(cluster.access, reader, plan, before=lambda: done.append("too early"))
    plan = target_state_plan(reader.configs(), "src", TargetState.STOPPED)
    end = reader.configs().snapshot.offset
    apply_plan(cluster.access, reader, plan, before=lambda: done.append(reader.configs().snapshot.offset))
    assert done == [end]


def test_with_exactly_once_configs_are_one_transaction_that_fences_the_leader(cluster, reader, broker):
    access = ClusterAccess({**cluster.worker, "exactly.once.source.support": "enabled"}, 20)
    topic = access.topic(CONFIG)
    leader = KafkaExclusiveWriter(topic, access.clients(CONFIG).producer, leader_transactional_id(cluster.worker))
    leader.claim(20)
    leader.write([encode_connector("tx", {"k": "1"})], 20)
    with ClusterReader(access) as own:
        # The mark that ends a transaction comes a moment after the commit has returned
        eventually(lambda: own.configs().snapshot.contains("tx"), 20, "what the leader wrote can be read")
        applied = apply_plan(access, own, delete_plan(own.configs(), "tx"))
        first = applied.written[0].position.offset
        assert own.configs().latest.get(b"connector-tx") is None
    assert [found.position.offset for found in applied.written] == [first, first + 1]
    assert sum(count for base, count, is_tx in batches_of(broker, topic) if base in (first, first + 1) and is_tx) == 2
    with pytest.raises(FencedError):
        leader.write([encode_connector("tx", {"k": "2"})], 20)
    leader.stop()


def test_with_exactly_once_a_target_state_is_written_beside_the_leader(cluster):
    """As Java does, where any worker writes it."""
    access = ClusterAccess({**cluster.worker, "exactly.once.source.support": "enabled"}, 20)
    leader = KafkaExclusiveWriter(
        access.topic(CONFIG), access.clients(CONFIG).producer, leader_transactional_id(cluster.worker)
    )
    leader.claim(20)
    with ClusterReader(access) as own:
        apply_plan(access, own, target_state_plan(own.configs(), "src", TargetState.PAUSED))
        leader.write([encode_connector("tx", {"k": "3"})], 20)
        eventually(lambda: own.configs().snapshot.raw_config("tx") == {"k": "3"}, 20, "what the leader wrote is read")
        assert own.configs().snapshot.target_state("src") is TargetState.PAUSED
    leader.stop()


def test_offsets_of_a_group_are_set_removed_and_the_group_deleted(cluster, reader, broker):
    topic, group = f"{cluster.access.group_id}-sunk", f"connect-{cluster.access.group_id}"
    create_topic(broker.bootstrap, topic, partitions=2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    apply_plan(cluster.access, reader, EditPlan("Set", (), groups=(GroupEdit(group, {one: 0, two: 0}),)))
    assert group_offsets(broker.bootstrap, group) == {one: 0, two: 0}
    applied = apply_plan(cluster.access, reader, EditPlan("Set", (), groups=(GroupEdit(group, {one: None}),)))
    assert applied.groups == (group,)
    assert group_offsets(broker.bootstrap, group) == {two: 0}
    apply_plan(cluster.access, reader, EditPlan("Reset", (), groups=(GroupEdit(group, {}, is_deleted=True),)))
    assert group_offsets(broker.bootstrap, group) == {}


def test_a_group_that_was_changed_since_it_was_shown_is_left_and_what_was_done_before_is_named(cluster, reader, broker):
    topic, group = f"{cluster.access.group_id}-watched", f"connect-{cluster.access.group_id}-watched"
    create_topic(broker.bootstrap, topic, partitions=2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    shown = {one: 0}
    first = EditPlan("Set", (), groups=(GroupEdit(group, {one: 0}, {}),))
    apply_plan(cluster.access, reader, first)
    with pytest.raises(ConflictError, match=f"Set: .* nothing was written to it: {topic}-0 had none, and has offset 0"):
        apply_plan(cluster.access, reader, first)
    # What is not written may differ, unless the whole group goes
    second = EditPlan("Add", (), groups=(GroupEdit(group, {two: 0}, shown),))
    third = EditPlan("Reset", (), groups=(GroupEdit(group, {one: None}, shown, is_deleted=True),))
    with pytest.raises(ConflictError, match=f'{topic}-1 had none, and has offset 0. Done before: "Add"'):
        apply_in_order(cluster.access, reader, [second, third])
    assert group_offsets(broker.bootstrap, group) == {one: 0, two: 0}


def test_a_refused_batch_names_the_topic_and_leaves_nothing(cluster, reader):
    huge = json.dumps({"properties": {"k": "x" * 2_000_000}}).encode()
    end = reader.configs().snapshot.offset
    plan = EditPlan("Put", ((edit(reader, CONFIG, b"connector-huge", huge),),), (NoLiveOwner("huge"),))
    with pytest.raises(ConnectError, match=cluster.access.topic(CONFIG)):
        apply_plan(cluster.access, reader, plan)
    assert reader.configs().snapshot.offset == end


def test_an_earlier_state_comes_back_from_the_history(cluster, reader):
    cluster.add_connector("again", {**FILE_SOURCE, "topic": "first"}, TASKS)
    at = reader.configs().snapshot.offset - 1
    cluster.configs.put_connector_config("again", {**FILE_SOURCE, "topic": "second"})
    then = reader.configs(Bounds(at={0: at}))
    apply_plan(cluster.access, reader, restore_plan(reader.configs(), then, "again"))
    assert reader.configs().snapshot.raw_config("again")["topic"] == "first"
    assert len(reader.configs().snapshot.tasks("again")) == 3


def test_brokers_that_do_not_answer_end_the_writing_at_its_deadline(cluster, reader):
    plan = target_state_plan(reader.configs(), "src", TargetState.PAUSED)
    access = ClusterAccess({**cluster.worker, "bootstrap.servers": "127.0.0.1:1"}, 1.0)
    with ClusterReader(access) as lost, pytest.raises((TimedOutError, UnreachableError)):
        apply_plan(access, lost, plan)
    topic, producer = access.topic(CONFIG), access.clients(CONFIG).producer
    with pytest.raises((TimedOutError, UnreachableError), match=topic):
        write_batch(topic, producer, [BatchEntry(b"k", b"v")], 1.0)
