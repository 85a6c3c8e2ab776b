"""The status and offsets topics of Java Connect 4.3: folded with our stores step by step, and written by them."""

from __future__ import annotations

import base64
import json

import pytest

from kconnect.java.compat.hash_map import grown_map_order
from kconnect.model import (
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TaskId,
    TaskState,
    offsets_from_json,
)
from kconnect.runtime.herder.decisions.restart_plan import restart_plan
from kconnect.runtime.storage import commit_source_offsets, connector_partitions, list_source_offsets
from kconnect.runtime.storage.offset_store import ConnectorOffsetStore
from kconnect.runtime.storage.offset_topic import decode_key, decode_value
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StatusRead, StoredStatus, TopicRead, decode_record
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit import golden
from kit.record_logs import ScriptedLog

SCENARIO = golden.load("topics/scenario-disabled.json")["steps"]
STATUS, OFFSETS, OWN_OFFSETS = "orc-status", "orc-offsets", "orc-sep-offsets"
IN_FILE = "/data/connect-x/w/storage-disabled/in.txt"


def raw(recorded):
    """Key and value of a recorded record as bytes."""
    value = recorded["value_b64"]
    return base64.b64decode(recorded["key_b64"]), None if value is None else base64.b64decode(value)


def steps():
    """Each step with the records it caused in the topics of statuses and offsets."""
    for step in SCENARIO:
        yield step, [record for record in step["records"] if record["topic"] in (STATUS, OFFSETS, OWN_OFFSETS)]


def replayed(topic, until=None):
    """A memory topic with what Java wrote to a topic until the end of a step."""
    copy = MemoryTopic(topic)
    for step, records in steps():
        if until is not None and step["step"] > until:
            break
        for record in records:
            if record["topic"] == topic:
                copy.append(*raw(record), record["timestamp"])
    return copy


@pytest.fixture
def folded():
    """Stores on what Java had written until a step: statuses, offsets of the worker, offsets of `sep`'s own topic."""
    opened = []

    def fold(store_type, topic, until=None):
        store = store_type(MemoryRecordLog(replayed(topic, until)))
        opened.append(store)
        store.start()
        return store

    yield fold
    for store in opened:
        store.stop()


@pytest.mark.parametrize("dump", [STATUS, OFFSETS, OWN_OFFSETS])
def test_the_steps_hold_the_records_of_the_dumps(dump):
    recorded = sorted(
        (item["partition"], item["offset"], *raw(item)) for item in golden.load(f"topics/dump-{dump}.json")
    )
    in_steps = sorted(
        (item["partition"], item["offset"], *raw(item))
        for _, items in steps()
        for item in items
        if item["topic"] == dump
    )
    assert recorded == in_steps
    assert recorded


def test_every_status_record_of_java_is_understood_and_written_in_the_same_bytes():
    wrote = ScriptedLog(MemoryTopic(STATUS))
    store = TopicStatusStore(wrote)
    store.start()
    wanted = [raw(record) for record in golden.load("topics/dump-orc-status.json")]
    for key, value in wanted:
        match decode_record(key, value):
            case StatusRead(subject, None):
                store.put(subject, StoredStatus(RunState.DESTROYED, "127.0.0.1:28085", 1))
            case StatusRead(subject, StoredStatus() as status):
                store.put(subject, status)
            case TopicRead(connector, topic, None):
                store.delete_topic(connector, topic)
            case TopicRead(_, _, use):
                store.put_topic(use)
    store.stop()
    assert wrote.sent == wanted


def test_after_each_step_the_statuses_are_those_the_records_tell():
    """The obvious model: the last record of each key, as Java never wrote late here.

    Differs: of a task that its worker stopped Java shows RUNNING until another generation; here it is UNASSIGNED.
    """
    topic = MemoryTopic(STATUS)
    store = TopicStatusStore(MemoryRecordLog(topic))
    store.start()
    last = {}
    for _, records in steps():
        for record in records:
            if record["topic"] != STATUS:
                continue
            key, value = raw(record)
            topic.append(key, value)
            body = None if value is None else json.loads(value)
            old = last.get(key)
            if body is not None and old is not None:
                assert old.get("generation", 0) <= body.get("generation", 0)
            last[key] = body
        shown = {}
        for name in store.connectors():
            shown[f"status-connector-{name}"] = store.status(name)
        for name in {event["key"].split(":connector-")[-1] for event in golden.load("topics/dump-orc-status.json")}:
            for use in store.topics(name).values():
                shown[f"status-topic-{use.topic}:connector-{name}"] = use
        for key in last:
            if key.startswith(b"status-task-"):
                name, number = key.decode().removeprefix("status-task-").rsplit("-", 1)
                status = store.status(TaskId(name, int(number)))
                if status is not None:
                    shown[key.decode()] = status
        wanted = {key.decode(): body for key, body in last.items() if body is not None}
        assert {key: as_body(status) for key, status in shown.items()} == wanted
    store.stop()
    assert shown == {}, "all was deleted in the end"


def as_body(status):
    if isinstance(status, StoredStatus):
        return {
            "state": str(status.state),
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    return {
        "topic": {
            "name": status.topic,
            "connector": status.connector,
            "task": status.task,
            "discoverTimestamp": status.discovered_ms,
        }
    }


RESTARTS = [step["step"] for step in SCENARIO if "restart?" in str(step["action"])]


def test_the_scenario_has_restarts_with_a_status_in_their_answer():
    assert len(RESTARTS) == 4


@pytest.mark.parametrize("number", RESTARTS)
def test_the_status_in_the_answer_of_rest_is_what_the_topic_said_before(folded, number):
    step = SCENARIO[number]
    answer = json.loads(step["response"]["body"])
    name, query = answer["name"], step["action"]["path"].partition("?")[2]
    store = folded(TopicStatusStore, STATUS, until=number - 1)
    of_connector = store.status(name)
    status = ConnectorStatus(
        name,
        ConnectorState(of_connector.state, of_connector.worker_id, of_connector.trace, of_connector.version),
        tuple(
            TaskState(task.task, found.state, found.worker_id, found.trace, found.version)
            for task, found in store.tasks(name).items()
        ),
        ConnectorType(answer["type"]),
    )
    plan = restart_plan(status, include_tasks="includeTasks=true" in query, only_failed="onlyFailed=true" in query)
    assert plan.status.to_json() == answer


def test_every_offsets_record_of_java_is_understood_and_written_in_the_same_bytes():
    for dump in (OFFSETS, OWN_OFFSETS):
        wrote = ScriptedLog(MemoryTopic(dump))
        store = TopicOffsetStore(wrote)
        store.start()
        wanted = [raw(record) for record in golden.load(f"topics/dump-{dump}.json")]
        for key, value in wanted:
            connector, partition = decode_key(key)
            commit_source_offsets(store, connector, [ConnectorOffset(partition, decode_value(value))])
        store.stop()
        assert wrote.sent == wanted


@pytest.mark.parametrize("number", [16, 20])
def test_the_offsets_in_the_answer_of_rest_are_what_the_topic_said(folded, number):
    answer = offsets_from_json(json.loads(SCENARIO[number]["response"]["body"]))
    store = folded(TopicOffsetStore, OFFSETS, until=number)
    found = list_source_offsets(store, "src")
    assert sorted(map(repr, found)) == sorted(map(repr, answer))


def test_after_each_step_the_offsets_are_the_last_of_each_key(folded):
    topics = {name: MemoryTopic(name) for name in (OFFSETS, OWN_OFFSETS)}
    stores = {name: TopicOffsetStore(MemoryRecordLog(topic)) for name, topic in topics.items()}
    last = {name: {} for name in topics}
    for store in stores.values():
        store.start()
    for _, records in steps():
        for record in records:
            if record["topic"] in topics:
                key, value = raw(record)
                topics[record["topic"]].append(key, value, record["timestamp"])
                last[record["topic"]][key] = value
        for name, store in stores.items():
            assert store.entries() == {key: value for key, value in last[name].items() if value is not None}
    for store in stores.values():
        store.stop()


def test_offsets_altered_by_rest_are_written_in_the_order_of_javas_hash_map():
    """PATCH in the order of the request becomes, in Java, HashMap order: `grown_map_order` gives it."""
    step = SCENARIO[19]
    wrote = ScriptedLog(MemoryTopic(OFFSETS))
    store = TopicOffsetStore(wrote)
    store.start()
    for item in offsets_from_json(step["action"]["body"]):
        altered = ConnectorOffset(grown_map_order(item.partition), grown_map_order(item.offset))
        commit_source_offsets(store, "src", [altered])
    store.stop()
    # The order of the two partitions is that of a HashMap of maps in Java; they lie in two partitions of the topic.
    assert sorted(wrote.sent) == sorted(raw(record) for record in step["records"])


def test_a_connectors_own_topic_and_the_workers_are_written_in_javas_order():
    """Steps 52 to 55: written to its own topic first; the tombstone to the worker's first."""
    order = []

    class Reported(MemoryRecordLog):
        def send(self, key, value):
            order.append((self.topic, key, value))
            return super().send(key, value)

    own = TopicOffsetStore(Reported(MemoryTopic(OWN_OFFSETS)))
    worker = TopicOffsetStore(Reported(MemoryTopic(OFFSETS)))
    worker.start()
    store = ConnectorOffsetStore("sep", own, worker)
    store.start()
    wanted = []
    for number, offset in ((52, {"position": 49}), (54, {"position": 7}), (55, None)):
        commit_source_offsets(store, "sep", [ConnectorOffset({"filename": IN_FILE}, offset)])
        recorded = [item for item in SCENARIO[number]["records"] if item["topic"] in (OFFSETS, OWN_OFFSETS)]
        wanted += [(item["topic"], *raw(item)) for item in sorted(recorded, key=lambda item: item["timestamp"])]
    assert connector_partitions(store, "sep") == []
    store.stop()
    worker.stop()
    assert order == wanted


def test_a_reset_leaves_the_offsets_of_other_connectors(folded):
    store = folded(TopicOffsetStore, OFFSETS, until=60)
    before = {decode_key(key)[0] for key in store.entries()}
    assert before == {"src", "smt", "quick", "init-running"}
    commit_source_offsets(store, "src", [ConnectorOffset({"filename": IN_FILE}, None)])
    assert {decode_key(key)[0] for key in store.entries()} == before - {"src"}
