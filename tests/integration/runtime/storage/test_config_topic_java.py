"""Our config store and a real Java worker on one config topic, with exactly once enabled.

Each sees what the other wrote, and takes the right to write from the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kconnect.errors import FencedError
from kconnect.java.compat.hash_map import grown_map_order
from kconnect.model import TargetState
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, KafkaExclusiveWriter, LogSpec
from kconnect.runtime.storage.config_clients import config_topic_clients, leader_transactional_id
from kconnect.runtime.storage.config_store import TopicConfigStore
from kit.java_connect import JavaConnect
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]
WITHIN_S = 30.0
TASK_CLASS = {"task.class": "org.apache.kafka.connect.file.FileStreamSinkTask"}


@dataclass
class Both:
    """A Java worker and our store, tailing, on its config topic; `folder` is for the files of connectors."""

    java: JavaConnect
    store: TopicConfigStore
    folder: str

    def config(self, name: str, tasks: int = 1) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSink",
            "tasks.max": str(tasks),
            "topics": f"nothing-{name}",
            "file": f"{self.folder}/{name}→😀.txt",
            "name": name,
        }

    def state_in_java(self, name: str) -> str:
        status, body = self.java.request("GET", f"/connectors/{name}/status")
        assert status == 200, body
        return str(body["connector"]["state"])


@pytest.fixture(scope="module")
def both(broker, tmp_path_factory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("java")
    java = JavaConnect(folder, broker.bootstrap, mode="distributed", worker={"exactly.once.source.support": "enabled"})
    group, topic = f"java-{java.port}", f"java-{java.port}-config"
    worker = {"bootstrap.servers": broker.bootstrap, "group.id": group, "exactly.once.source.support": "enabled"}
    clients = config_topic_clients(worker, client_id_base="ours-")
    create_topic(broker.bootstrap, topic, config={"cleanup.policy": "compact"})
    spec = LogSpec(
        topic=topic,
        consumer=clients.log.consumer,
        producer=clients.log.producer,
        isolation_level=clients.isolation_level,
    )
    assert clients.leader is not None
    with KafkaAdmin(clients.log.admin, "test") as admin:
        writer = KafkaExclusiveWriter(topic, clients.leader, leader_transactional_id(worker))
        store = TopicConfigStore(CompactedLog(spec, admin), writer)
        store.start()
        store.claim_write_privileges()
        found = Both(java, store, str(folder))
        write_before_java(found)
        with java:
            yield found
        store.stop()


def write_before_java(both: Both) -> None:
    store = both.store
    for name, state in (("runs", None), ("paused", TargetState.PAUSED), ("stopped", TargetState.STOPPED)):
        store.put_connector_config(name, both.config(name, tasks=2), state)
        if state is not TargetState.STOPPED:
            store.put_task_configs(name, [{**both.config(name, tasks=2), **TASK_CLASS}] * 2)
    store.put_connector_config("gone", both.config("gone"))
    store.put_task_configs("gone", [both.config("gone")])
    store.remove_connector_config("gone")


def test_java_runs_what_our_store_wrote_before_it_started(both):
    both.java.await_running("runs")
    assert sorted(name for name in both.java.request("GET", "/connectors")[1] if name in BEFORE) == BEFORE
    for name in BEFORE:
        assert both.java.request("GET", f"/connectors/{name}/config") == (200, both.config(name, tasks=2))
    tasks = [{"connector": "runs", "task": 0}, {"connector": "runs", "task": 1}]
    assert both.java.request("GET", "/connectors/runs")[1]["tasks"] == tasks
    assert both.java.request("GET", "/connectors/stopped")[1]["tasks"] == []
    for name, state in (("paused", "PAUSED"), ("stopped", "STOPPED")):
        eventually(lambda name=name, state=state: both.state_in_java(name) == state, WITHIN_S, f"{name} is {state}")
    assert both.java.request("GET", "/connectors/gone")[0] == 404


BEFORE = ["paused", "runs", "stopped"]


def test_our_store_sees_what_rest_makes_java_write(both):
    java, store = both.java, both.store
    body = {"name": "made", "config": both.config("made", tasks=3), "initial_state": "RUNNING"}
    java.order("POST", "/connectors", body, expect=201)
    java.await_running("made")
    store.refresh(WITHIN_S)
    now = store.snapshot()
    assert (now.config("made"), now.target_state("made")) == (both.config("made", tasks=3), TargetState.STARTED)
    shown = [task["config"] for task in java.request("GET", "/connectors/made/tasks")[1]]
    assert [now.task_config(task) for task in now.tasks("made")] == shown
    assert [list(grown_map_order(now.task_config(task) or {})) for task in now.tasks("made")] == [
        list(config) for config in shown
    ]
    java.order("PUT", "/connectors/made/stop", expect=204)
    store.refresh(WITHIN_S)
    assert (store.snapshot().target_state("made"), store.snapshot().tasks("made")) == (TargetState.STOPPED, ())
    java.order("DELETE", "/connectors/made", expect=204)
    store.refresh(WITHIN_S)
    assert (store.contains("made"), store.snapshot().target_state("made")) == (False, None)
    assert store.snapshot().session_key is not None
    assert store.snapshot().inconsistent == frozenset()


def test_java_and_our_store_take_the_right_to_write_from_each_other(both):
    java, store = both.java, both.store
    java.order("PUT", "/connectors/by-java/config", both.config("by-java"), expect=201)
    with pytest.raises(FencedError):  # its leader claimed the right when it started
        store.put_connector_config("by-us", both.config("by-us"))
    store.claim_write_privileges()
    store.put_connector_config("by-us", both.config("by-us"))
    assert store.contains("by-java")
    eventually(lambda: "by-us" in java.request("GET", "/connectors")[1], WITHIN_S, "Java sees our connector")

    def java_writes_again() -> bool:  # it is fenced, joins its group anew, and claims
        return java.request("PUT", "/connectors/again/config", both.config("again"))[0] in (200, 201)

    eventually(java_writes_again, WITHIN_S, "Java claims the right to write again")
    with pytest.raises(FencedError):
        store.remove_connector_config("by-us")
    store.refresh(WITHIN_S)
    assert (store.contains("again"), store.contains("by-us")) == (True, True)
