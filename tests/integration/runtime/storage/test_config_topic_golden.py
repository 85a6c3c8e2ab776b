"""The config topic against what Java Connect 4.3.0 wrote (tests/golden/topics): read, and written again.

Reading: the records of each step are folded, and the state compared with what REST answered at that step.
Writing: the actions of each step go to a store, and its records are compared with Java's, byte for byte. What a herder
does between the two (which writes an action causes, what a task's config is made of) is in `Herder` below.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from kconnect.java.compat.hash_map import grown_map_order, hash_map_order
from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.config_topic import Malformed, RestartRequested, SessionKeySet, Tombstone, Unknown
from kconnect.runtime.storage.record_log import Entry, MemoryRecordLog, MemoryTopic, MemoryWriter
from kconnect.runtime.storage.snapshot import ClusterSnapshot, ConfigFold
from kit.differences import hold_alike
from kit.golden import load, log_record

SCENARIO = load("topics/scenario-disabled.json")["steps"]
MISC = [case for case in load("topics/distributed-misc.json") if case.get("records")]

WRITTEN_OTHERWISE: dict[str, str] = {}
"""Step or case -> why our records differ from Java's. None does."""

NOT_BY_AN_ACTION = {"eager": "after the unsigned POST of tasks the herder wrote the connector's own task configs again"}
"""Cases where Java's herder wrote more, by itself, than the actions ask for: Java has these records at the end."""


def configs_of(records: Iterable[Mapping[str, Any]]) -> list[LogRecord]:
    return [log_record(record) for record in records if record["topic"].endswith("-configs")]


# --- reading ---


def fold_of(records: Iterable[LogRecord], fold: ConfigFold | None = None) -> ConfigFold:
    fold = fold or ConfigFold()
    for record in records:
        changes = fold.apply(record)
        assert not any(isinstance(change, Malformed | Unknown | Tombstone) for change in changes), record
    return fold


def steps_with_states() -> list[tuple[str, tuple[Any, tuple[ClusterSnapshot, ClusterSnapshot, ClusterSnapshot]]]]:
    """Each step that REST answered, with the states before it, when its connector was written, and after it."""
    fold, found = ConfigFold(), []
    for step in SCENARIO:
        before = fold.snapshot()
        written = before
        for record in configs_of(step["records"]):
            fold_of([record], fold)
            if record.key.startswith(b"connector-"):
                written = fold.snapshot()
        if step["response"] is not None:
            found.append((f"{step['step']}-{step['name']}", (step, (before, written, fold.snapshot()))))
    return found


def test_the_folded_state_is_what_rest_answered():
    assert hold_alike(steps_with_states(), compare_state) == 66


def compare_state(case: tuple[Any, tuple[ClusterSnapshot, ClusterSnapshot, ClusterSnapshot]]) -> None:
    step, states = case
    action, answer = step["action"], step["response"]
    path = urlsplit(action["path"]).path.split("/")
    name = action["body"]["name"] if action["path"] == "/connectors" else unquote(path[2]) if len(path) > 2 else ""
    checked = check_answer(action["method"], path[3:], answer, name, *states)
    assert checked or path[1] != "connectors"


def check_answer(
    method: str,
    what: Sequence[str],
    answer: Mapping[str, Any],
    name: str,
    before: ClusterSnapshot,
    written: ClusterSnapshot,
    after: ClusterSnapshot,
) -> bool:
    body = json.loads(answer["body"]) if answer["body"] else {}
    if "config" in body:  # the answer is made when the connector is written, and before its tasks are
        assert body["config"] == written.config(name)
        assert body["tasks"] == [task.to_json() for task in written.tasks(name)]
        assert answer["status"] == (200 if before.contains(name) else 201)
        return True
    if answer["status"] in (400, 409):
        assert after == before
        return True
    match [method, *what]:
        case ["PUT", "pause"]:
            assert after.target_state(name) is TargetState.PAUSED
        case ["PUT", "resume"]:
            assert after.target_state(name) is TargetState.STARTED
        case ["PUT", "stop"]:
            assert (after.target_state(name), after.tasks(name)) == (TargetState.STOPPED, ())
        case ["PATCH" | "DELETE", "offsets"] if answer["status"] == 200:
            assert (before.target_state(name), before.tasks(name)) == (TargetState.STOPPED, ())
        case ["DELETE"]:
            assert before.contains(name)
            assert (after.contains(name), after.target_state(name), after.task_count(name)) == (False, None, 0)
        case ["POST", *_, "restart"] if "tasks" in body:
            assert [task["id"] for task in body["tasks"]] == [task.task for task in before.tasks(name)]
        case [_, "offsets" | "restart" | "topics" | "tasks", *_]:
            assert after.contains(name)
        case _:
            return False
    return True


def test_the_dump_of_the_topic_folds_to_what_its_steps_fold_to():
    whole = fold_of(configs_of(load("topics/dump-orc-configs.json"))).snapshot()
    by_step = fold_of(record for step in SCENARIO for record in configs_of(step["records"])).snapshot()
    assert by_step == whole
    assert (whole.connectors, whole.offset, whole.inconsistent) == ((), 106, frozenset())


@pytest.mark.parametrize("last_step", [6, 15, 25, 37, 46, 50, 62, 67, 71])
def test_the_topic_compacted_after_a_step_has_the_same_connectors(last_step):
    """What Java leaves behind of deleted connectors (commits, tasks) does not come back."""
    records = [record for step in SCENARIO[: last_step + 1] for record in configs_of(step["records"])]
    last = {record.key: record for record in records}
    kept = [record for record in records if last[record.key] is record]
    whole, compacted = fold_of(records).snapshot(), fold_of(kept).snapshot()
    assert compacted.configs == whole.configs
    assert compacted.target_states == whole.target_states
    assert compacted.session_key == whole.session_key
    consistent = [name for name in whole.connectors if name not in compacted.inconsistent]
    assert {name: compacted.tasks(name) for name in consistent} == {name: whole.tasks(name) for name in consistent}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in MISC])
def test_clusters_with_other_settings_fold_to_what_rest_answered(case):
    created = json.loads(case["create"][1])
    records = configs_of(case["records"])
    snapshot = fold_of(records).snapshot()
    assert (snapshot.connectors, snapshot.config("src")) == (("src",), created["config"])
    assert snapshot.tasks("src") == (TaskId("src", 0),)
    assert snapshot.offset == records[-1].offset + 1
    fenced = case["put_fence_unsigned"][0] == 204
    assert snapshot.task_count_record("src") == (1 if fenced else None)
    assert snapshot.is_pending_fencing("src") is (not fenced or case["name"] in NOT_BY_AN_ACTION)
    assert (snapshot.session_key is None) is fenced  # who accepts unsigned requests has no key


# --- writing ---


class Herder:
    """What Java's herder does to the store for an action, for FileStream connectors."""

    def __init__(self, store: TopicConfigStore) -> None:
        self.store = store

    def perform(self, action: Mapping[str, Any]) -> None:
        url = urlsplit(action["path"])
        path = [unquote(part) for part in url.path.split("/")[1:]]
        flags = {key: values[0] == "true" for key, values in parse_qs(url.query).items()}
        body = action["body"]
        match [action["method"], *path]:
            case ["POST", "connectors"]:
                state = body.get("initial_state")
                target = None if state is None else TargetState.STARTED if state == "RUNNING" else TargetState(state)
                self.configure(body["name"], {**body["config"], "name": body["name"]}, target)
            case ["PUT", "connectors", name, "config"]:
                self.configure(name, {**body, "name": name})
            case ["PATCH", "connectors", name, "config"]:
                merged = {**hash_map_order(self.store.snapshot().raw_config(name) or {}), **body}
                self.configure(name, hash_map_order({key: text for key, text in merged.items() if text is not None}))
            case ["PUT", "connectors", name, "pause"]:
                self.store.put_target_state(name, TargetState.PAUSED)
            case ["PUT", "connectors", name, "resume"]:
                self.store.put_target_state(name, TargetState.STARTED)
                self.make_tasks(name)
            case ["PUT", "connectors", name, "stop"]:
                self.store.put_task_configs(name, [])
                self.store.put_target_state(name, TargetState.STOPPED)
            case ["POST", "connectors", name, "restart"] if flags:
                request = RestartRequested(name, flags.get("onlyFailed", False), flags.get("includeTasks", False))
                self.store.put_restart_request(request)
            case ["DELETE", "connectors", name]:
                self.store.remove_connector_config(name)
            case ["PUT", "admin", "loggers", logger] if "scope=cluster" in url.query:
                self.store.put_logger_level(logger, body["level"])

    def configure(self, name: str, config: Mapping[str, str], target: TargetState | None = None) -> None:
        self.store.put_connector_config(name, config, target)
        self.make_tasks(name)

    def make_tasks(self, name: str) -> None:
        """Tasks are made of a started connector, and written when one of them changed."""
        now = self.store.snapshot()
        config = now.raw_config(name) or {}
        if now.target_state(name) is not TargetState.STARTED:
            return
        kind = config["connector.class"]
        task = {**config, "task.class": f"org.apache.kafka.connect.file.{kind}Task"}
        tasks = [task] * (int(config["tasks.max"]) if kind.endswith("Sink") else 1)
        if tasks != [now.raw_task_config(task_id) for task_id in now.tasks(name)]:
            self.store.put_task_configs(name, tasks)


def entries(records: Iterable[LogRecord]) -> list[Entry]:
    return [(record.key or b"", record.value) for record in records]


def put_session_keys(store: TopicConfigStore, records: Iterable[LogRecord]) -> None:
    """The key and its time are random: those that Java had."""
    for record in records:
        match config_topic.decode(record):
            case SessionKeySet(session_key):
                store.put_session_key(session_key)


def test_the_actions_of_the_scenario_write_javas_records_byte_for_byte():
    topic = MemoryTopic("orc-configs")
    store = TopicConfigStore(MemoryRecordLog(topic))
    store.start()
    herder, differing = Herder(store), {}
    for step in SCENARIO:
        recorded, before = configs_of(step["records"]), len(topic.records)
        put_session_keys(store, recorded)
        if isinstance(step["action"], dict) and step["response"] and step["response"]["status"] < 400:
            herder.perform(step["action"])
        ours = entries(topic.records[before:])
        if ours != entries(recorded):
            differing[str(step["step"])] = (ours, entries(recorded))
    assert differing.keys() == WRITTEN_OTHERWISE.keys(), differing
    assert entries(topic.records) == entries(configs_of(load("topics/dump-orc-configs.json")))
    assert [record.offset for record in topic.records] == list(range(106))


class TransactionsWriter(MemoryWriter):
    """Leaves the offset of the marker out that ends each transaction, as Kafka does; notes the offsets."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(topic)
        self.offsets: list[int] = []

    def write(self, group: Sequence[Entry], timeout_s: float) -> None:
        super().write(group, timeout_s)
        first = self.offsets[-1] + 2 if self.offsets else 0
        self.offsets += range(first, first + len(group))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in MISC])
def test_clusters_with_other_settings_get_javas_records_byte_for_byte(case):
    topic = MemoryTopic(case["properties"]["config.storage.topic"])
    is_exactly_once = "exactly.once.source.support" in case["properties"]
    writer = TransactionsWriter(topic) if is_exactly_once else None
    store = TopicConfigStore(MemoryRecordLog(topic), writer)
    store.start()
    store.claim_write_privileges()
    recorded = configs_of(case["records"])
    is_key = [record.key == b"session-key" for record in recorded]
    put_session_keys(store, recorded[: is_key.index(False)])
    created = json.loads(case["create"][1])
    herder = Herder(store)
    herder.configure("src", created["config"])
    if case["post_tasks_unsigned"][0] == 204:
        store.put_task_configs("src", [{"a": "b"}])
    if case["put_fence_unsigned"][0] == 204:
        store.put_task_count_record("src", 1)
    if case["name"] in NOT_BY_AN_ACTION:
        herder.make_tasks("src")
    put_session_keys(store, recorded[is_key.index(False) :])
    assert entries(topic.records) == entries(recorded)
    if writer is not None:
        assert writer.offsets == [record.offset for record in recorded]  # each write its own transaction


# --- the order of Java's HashMap ---


def test_what_java_took_from_hash_maps_stands_as_ours_would():
    """Configs that REST showed were parsed into a map; those of tasks were copied after that."""
    shown, tasks = [], []
    for entry in load("rest/transcript.json")["entries"]:
        path = urlsplit(entry.get("path", "")).path.split("/")
        if entry.get("method") != "GET" or entry.get("status") != 200 or path[1] != "connectors" or len(path) < 3:
            continue
        match path[3:], json.loads(entry["response_body"]):
            case ["config"], dict(config):
                shown.append(config)
            case [], {"config": config}:
                shown.append(config)
            case ["tasks"], list(found):
                tasks += [task["config"] for task in found]
    assert min(len(shown), len(tasks)) >= 3
    for config in shown:
        assert list(grown_map_order(config)) == list(config)
    for config in tasks:
        assert list(hash_map_order(config)) == list(config)
