"""A running Java Connect 4.3 and our stores on its topics: each sees what the other has written."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kconnect.java.compat.hash_map import grown_map_order
from kconnect.model import ConnectorOffset, RunState, TaskId, offsets_from_json
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage import commit_source_offsets, list_source_offsets
from kconnect.runtime.storage.offset_store import ConnectorOffsetStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, TopicUse
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kconnect.worker.distributed import offset_topic_clients, status_topic_clients
from kit.java_connect import JavaConnect
from kit.topics import topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

WITHIN_S = 30.0
NAME = "ü-1:x"  # what keys are split at stands in the name too
URL = "/connectors/%C3%BC-1%3Ax"


@pytest.fixture(scope="module")
def java(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("java")
    worker = {"offset.flush.interval.ms": "300", "offset.storage.partitions": "3", "status.storage.partitions": "2"}
    with JavaConnect(folder, broker.bootstrap, mode="distributed", worker=worker) as running:
        yield running


@pytest.fixture
def stores(java, broker):
    """Our stores on the topics of the Java worker."""
    prefix = f"java-{java.port}"
    worker = {
        "bootstrap.servers": broker.bootstrap,
        "status.storage.topic": f"{prefix}-status",
        "offset.storage.topic": f"{prefix}-offset",
    }
    with ExitStack() as closing:

        def log_of(clients):
            admin = closing.enter_context(KafkaAdmin(clients.log.admin, clients.topic))
            spec = LogSpec(topic=clients.topic, consumer=clients.log.consumer, producer=clients.log.producer)
            return CompactedLog(spec, admin)

        statuses = TopicStatusStore(log_of(status_topic_clients(worker, client_id_base="ours-")))
        offsets = TopicOffsetStore(log_of(offset_topic_clients(worker, client_id_base="ours-")))
        for store in (statuses, offsets):
            store.start()
            closing.callback(store.stop)
        yield statuses, offsets


def get(java, path):
    status, body = java.request("GET", path)
    assert status == 200, f"GET {path} answers {status}: {body}"
    return body


def offsets_of(java, count):
    """What Java shows, once it is so many partitions: it lists those it knows before it reads to the topic's end."""
    found = offsets_from_json(get(java, f"{URL}/offsets"))
    return found if len(found) == count and all(item.offset is not None for item in found) else None


def by_text(offsets):
    return sorted(map(repr, offsets))


def test_java_and_our_stores_see_each_others_statuses_topics_and_offsets(java, stores, request, tmp_path):
    statuses, offsets = stores
    topic, file = topic_for(request), tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
    eventually(
        lambda: java.request("POST", "/connectors", {"name": NAME, "config": config})[0] in (201, 409),
        WITHIN_S,
        "the connector is made",
    )

    # What Java writes
    task = TaskId(NAME, 0)
    eventually(lambda: getattr(statuses.status(task), "state", None) is RunState.RUNNING, WITHIN_S)
    eventually(lambda: list_source_offsets(offsets, NAME), WITHIN_S, "the offsets are committed")

    def is_shown_alike() -> bool:  # both read what was written, one after the other
        shown = get(java, f"{URL}/status")
        assert shown["connector"] == body_of(statuses.status(NAME))
        assert shown["tasks"] == [{"id": 0, **body_of(statuses.status(task))}]
        return True

    eventually(is_shown_alike, WITHIN_S, "Java and our store show the same statuses")
    eventually(lambda: list(statuses.topics(NAME)) == [topic] == get(java, f"{URL}/topics")[NAME]["topics"], WITHIN_S)
    java.order("PUT", f"{URL}/stop", expect=204)
    eventually(lambda: statuses.status(NAME).state is RunState.STOPPED and not statuses.tasks(NAME), WITHIN_S)
    eventually(lambda: get(java, f"{URL}/status")["tasks"] == [], WITHIN_S)
    found = [ConnectorOffset({"filename": str(file)}, {"position": 8})]
    eventually(lambda: list_source_offsets(offsets, NAME) == found, WITHIN_S, "the last offset is committed")
    eventually(lambda: offsets_from_json(get(java, f"{URL}/offsets")) == found, WITHIN_S, "Java shows it")

    # What we write
    other = ConnectorOffset(
        grown_map_order({"b": 1, "a": "→😀"}), grown_map_order({"f": 1.5, "n": None, "big": 1 << 40})
    )
    commit_source_offsets(offsets, NAME, [ConnectorOffset({"filename": str(file)}, {"position": 4}), other])
    seen = eventually(lambda: offsets_of(java, 2), WITHIN_S, "Java has read both")
    assert {item.offset.get("position", item.offset.get("big")) for item in seen} == {4, 1 << 40}
    assert by_text(seen) == by_text(list_source_offsets(offsets, NAME))
    commit_source_offsets(offsets, NAME, [ConnectorOffset({"filename": str(file)}, None)])
    eventually(lambda: offsets_of(java, 1) == [other], WITHIN_S, "Java has read the tombstone")
    failed = StoredStatus(RunState.FAILED, "ours:1", 99, "boom\n\tat here", "1")
    statuses.put(NAME, failed)
    statuses.put(task, StoredStatus(RunState.RUNNING, "ours:1", 99))
    statuses.put_topic(TopicUse("another", NAME, 0, 1))
    statuses.flush(WITHIN_S)
    wanted = (body_of(failed), [{"id": 0, "state": "RUNNING", "worker_id": "ours:1", "version": None}])

    def shown_by_java():
        body = get(java, f"{URL}/status")
        return body["connector"], body["tasks"]

    eventually(lambda: shown_by_java() == wanted, WITHIN_S, "Java shows our statuses")
    eventually(lambda: set(get(java, f"{URL}/topics")[NAME]["topics"]) == {topic, "another"}, WITHIN_S)
    statuses.delete_topic(NAME, "another")
    statuses.put(task, StoredStatus(RunState.DESTROYED, "ours:1", 99))
    eventually(lambda: (shown_by_java()[1], get(java, f"{URL}/topics")[NAME]["topics"]) == ([], [topic]), WITHIN_S)

    # And Java goes on from there
    java.order("DELETE", f"{URL}/offsets", expect=200)
    eventually(lambda: list_source_offsets(offsets, NAME) == [], WITHIN_S, "our store has read the tombstones")
    java.order("DELETE", URL, expect=204)
    eventually(lambda: NAME not in statuses.connectors() and statuses.topics(NAME) == {}, WITHIN_S, "all is deleted")


def body_of(status):
    body = {"state": str(status.state), "worker_id": status.worker_id, "version": status.version}
    return body if status.trace is None else {**body, "trace": status.trace}


def test_beside_a_topic_of_its_own_java_does_not_read_the_workers_offsets_and_we_do(java, stores, tmp_path):
    """Differs: what Java describes, we do. Its lookup in the own topic gives null, which covers the worker's offset."""
    _, offsets = stores
    partition, offset = {"filename": str(tmp_path / "none")}, {"position": 4}
    commit_source_offsets(offsets, "sep", [ConnectorOffset(partition, offset)])
    body = {
        "name": "sep",
        "initial_state": "STOPPED",
        "config": {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": partition["filename"],
            "topic": "none",
            "offsets.storage.topic": f"java-{java.port}-own",
        },
    }
    eventually(lambda: java.request("POST", "/connectors", body)[0] == 201, WITHIN_S, "the connector is made")
    in_java = "/connectors/sep/offsets"
    eventually(
        lambda: offsets_from_json(get(java, in_java)) == [ConnectorOffset(partition, None)], WITHIN_S, "Java knows it"
    )
    ours = ConnectorOffsetStore("sep", TopicOffsetStore(MemoryRecordLog(MemoryTopic("own"))), offsets)
    ours.start()
    assert list_source_offsets(ours, "sep") == [ConnectorOffset(partition, offset)]
    ours.stop()
    java.order("DELETE", "/connectors/sep", expect=204)
