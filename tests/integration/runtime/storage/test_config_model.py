"""The fold against an obvious model: questions asked of the whole history of records, with plain lists and dicts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import Entry, MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.snapshot import ClusterSnapshot, ConfigFold
from kit.examples import examples

NAMES = ("a", "a-0", "b")  # names that could be taken for each other's tasks

# --- the model: History is what was written about one connector, as (kind, content) ---

History = Sequence[tuple[str, Any]]


def last(history: History, *kinds: str) -> int:
    """Where the last record of these kinds stands; -1 if nowhere."""
    return max((at for at, (kind, _) in enumerate(history) if kind in kinds), default=-1)


def config_of(history: History) -> dict[str, str] | None:
    at = last(history, "config")
    return None if at < 0 else history[at][1]


def state_of(history: History) -> TargetState | None:
    at = last(history, "state")
    if at >= 0 and history[at][1] is not None:
        return history[at][1]
    was_there = config_of(history[: max(at, 0)]) is not None
    came_since = any(kind == "config" and content is not None for kind, content in history[at + 1 :])
    return TargetState.STARTED if was_there or came_since else None


def forgets(history: History, at: int) -> bool:
    """Whether this record makes all be forgotten of tasks: a deletion, or the commit of a connector not there."""
    kind, content = history[at]
    return (kind == "config" and content is None) or (kind == "commit" and config_of(history[:at]) is None)


def commits(history: History) -> list[int]:
    return [at for at, (kind, _) in enumerate(history) if kind == "commit" and not forgets(history, at)]


def set_of(history: History, commit: int) -> dict[int, dict[str, str]]:
    """The tasks that wait for this commit: those since the one before, or since all was forgotten."""
    begin = max((at for at in range(commit) if history[at][0] == "commit" or forgets(history, at)), default=-1)
    return {content[0]: content[1] for kind, content in history[begin + 1 : commit] if kind == "task"}


def is_whole(history: History, commit: int) -> bool:
    return set(range(history[commit][1])) <= set(set_of(history, commit))


def tasks_of(history: History) -> list[dict[str, str]] | None:
    """The configs of the tasks that may run; None when they are inconsistent."""
    since = max((at for at in range(len(history)) if forgets(history, at)), default=-1)
    all_commits = commits(history)
    if all_commits and not is_whole(history, all_commits[-1]):
        return None
    if not all_commits or all_commits[-1] < since:
        return []
    waiting = set_of(history, all_commits[-1])
    return [waiting[number] for number in range(history[all_commits[-1]][1])]


def generation_of(history: History) -> int | None:
    count = 0
    for commit in commits(history):
        since = max((at for at in range(commit) if forgets(history, at)), default=-1)
        had_tasks = any(kind == "task" for kind, _ in history[since + 1 : commit])
        count += had_tasks and is_whole(history, commit)
    return count - 1 if count else None


def check(snapshot: ClusterSnapshot, name: str, history: History) -> None:
    config, tasks = config_of(history), tasks_of(history)
    assert snapshot.contains(name) is (config is not None)
    assert snapshot.config(name) == config
    assert snapshot.target_state(name) is state_of(history)
    assert (name in snapshot.inconsistent) is (tasks is None)
    assert [snapshot.task_config(task) for task in snapshot.tasks(name)] == (tasks or [])
    fencing = last(history, "fencing")
    assert snapshot.task_count_record(name) == (None if fencing < 0 else history[fencing][1])
    assert snapshot.is_pending_fencing(name) is (max(commits(history), default=-1) > fencing)
    assert snapshot.task_config_generation(name) == generation_of(history)


def history_of(records: Sequence[LogRecord], name: str) -> list[tuple[str, Any]]:
    """Records back to what the test wrote: it knows its own keys by heart."""
    return [WRITTEN[record.key, record.value][1] for record in records if WRITTEN[record.key, record.value][0] == name]


WRITTEN: dict[tuple[bytes | None, bytes | None], tuple[str, tuple[str, Any]]] = {}


def entry(name: str, kind: str, content: Any) -> Entry:
    match kind, content:
        case "config", None:
            found: Entry = config_topic.tombstone_of_connector(name)
        case "config", _:
            found = config_topic.encode_connector(name, content)
        case "state", None:
            found = config_topic.tombstone_of_target_state(name)
        case "state", _:
            found = config_topic.encode_target_state(name, content)
        case "task", (number, config):
            found = config_topic.encode_task(TaskId(name, number), config)
        case "commit", _:
            found = config_topic.encode_commit(name, content)
        case _:
            found = config_topic.encode_task_count(name, content)
    WRITTEN[found] = (name, (kind, content))
    return found


CONFIGS = st.integers(0, 9).map(lambda number: {"x": str(number)})
RECORDS = st.one_of(
    st.tuples(st.just("config"), CONFIGS | st.none()),
    st.tuples(st.just("state"), st.sampled_from(TargetState) | st.none()),
    st.tuples(st.just("task"), st.tuples(st.integers(0, 2), CONFIGS)),
    st.tuples(st.just("commit"), st.integers(0, 3)),
    st.tuples(st.just("fencing"), st.integers(0, 3)),
)


@examples(300)
@given(st.lists(st.tuples(st.sampled_from(NAMES), RECORDS) | st.just(None), max_size=40))
def test_any_records_in_any_order_and_compacted_at_any_time_fold_to_what_the_model_says(written):
    topic = MemoryTopic("configs")
    live, seen = ConfigFold(), []
    for step in written:
        if step is None:
            topic.compact()
            continue
        name, (kind, content) = step
        seen.append(topic.append(*entry(name, kind, content)))
        live.apply(seen[-1])
    late = ConfigFold()
    for record in topic.records:
        late.apply(record)
    for name in NAMES:
        check(live.snapshot(), name, history_of(seen, name))
        check(late.snapshot(), name, history_of(topic.records, name))
    assert late.snapshot().offset == live.snapshot().offset
    assert late.snapshot().configs == live.snapshot().configs


ACTIONS = st.one_of(
    st.tuples(st.just("put"), CONFIGS),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("tasks"), st.lists(CONFIGS, max_size=3)),
    st.tuples(st.just("dies"), st.tuples(st.lists(CONFIGS, min_size=1, max_size=3), st.integers(0, 3))),
    st.tuples(st.just("state"), st.sampled_from(TargetState)),
)


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(NAMES), ACTIONS) | st.just(None), max_size=25))
def test_who_comes_after_compaction_sees_the_same_tasks_or_knows_that_some_are_lost(actions):
    """Leaders write, and die between the tasks of a set; whoever reads later never takes half a set for a whole one."""
    topic = MemoryTopic("configs")
    store = TopicConfigStore(MemoryRecordLog(topic))
    store.start()
    for action in actions:
        match action:
            case None:
                topic.compact()
            case name, ("put", config):
                store.put_connector_config(name, config)
            case name, ("delete", _):
                store.remove_connector_config(name)
            case name, ("tasks", configs):
                store.put_task_configs(name, configs)
            case name, ("state", state):
                store.put_target_state(name, state)
            case name, ("dies", (configs, written)):
                for number, config in enumerate(configs[:written]):
                    topic.append(*config_topic.encode_task(TaskId(name, number), config))
    other = TopicConfigStore(MemoryRecordLog(topic))
    other.start()
    ours, theirs = store.snapshot(), other.snapshot()
    assert (theirs.configs, theirs.offset) == (ours.configs, ours.offset)
    assert ours.inconsistent == frozenset()
    keys = [record.key for record in topic.records]
    for name in ours.connectors:
        assert theirs.target_state(name) is ours.target_state(name)
        if is_after_its_tasks(keys, name):
            assert theirs.tasks(name) == ()  # as in Java they are taken for those of a deleted connector
            assert name in theirs.overtaken or not ours.tasks(name)
        elif name not in theirs.inconsistent:
            assert [theirs.task_config(task) for task in theirs.tasks(name)] == [
                ours.task_config(task) for task in ours.tasks(name)
            ]


def is_after_its_tasks(keys: Sequence[bytes | None], name: str) -> bool:
    """Whether the connector's config, of which only the last is left, was written after its tasks were committed."""
    connector, commit = f"connector-{name}".encode(), f"commit-{name}".encode()
    return commit in keys and connector not in keys[: last_of(keys, commit)]


def last_of(keys: Sequence[bytes | None], key: bytes) -> int:
    return len(keys) - 1 - keys[::-1].index(key)


def test_a_connector_changed_after_its_commit_has_no_tasks_for_who_starts_after_compaction():
    """Java's rule since KAFKA-16838, so that tasks of a deleted connector do not come back; see also KAFKA-17719."""
    topic = MemoryTopic("configs")
    store = TopicConfigStore(MemoryRecordLog(topic))
    store.start()
    store.put_connector_config("a", {"x": "1"})
    store.put_task_configs("a", [{"x": "1"}])
    store.put_connector_config("a", {"x": "2"})
    topic.compact()
    late = TopicConfigStore(MemoryRecordLog(topic))
    late.start()
    assert (late.snapshot().config("a"), late.snapshot().tasks("a"), late.snapshot().inconsistent) == (
        {"x": "2"},
        (),
        frozenset(),
    )
    assert (late.snapshot().overtaken, store.snapshot().overtaken) == ({"a"}, frozenset())
    late.put_task_configs("a", [{"x": "2"}])
    assert late.snapshot().overtaken == frozenset()
    assert late.snapshot().tasks("a") == store.snapshot().tasks("a") == (TaskId("a", 0),)


@given(st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30) | st.none()), max_size=10))
def test_no_bytes_make_the_fold_raise_or_a_connector_appear(entries):
    fold = ConfigFold()
    for offset, (key, value) in enumerate(entries):
        fold.apply(LogRecord("configs", 0, offset, key, value))
    assert fold.snapshot().connectors == ()


def histories(connectors: int, rounds: int) -> list[LogRecord]:
    records: list[LogRecord] = []
    for turn in range(rounds):
        for connector in range(connectors):
            name = f"connector-{connector}"
            config = {"name": name, "turn": str(turn)}
            written: list[Entry] = [config_topic.encode_connector(name, config)]
            written += [config_topic.encode_task(TaskId(name, number), config) for number in range(4)]
            written += [config_topic.encode_commit(name, 4), config_topic.encode_target_state(name, TargetState.PAUSED)]
            records += [LogRecord("configs", 0, len(records) + at, *pair) for at, pair in enumerate(written)]
    return records


class Calls:
    """Counts calls of Python functions, which no busy machine changes."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, _frame: object, event: str, _arg: object) -> None:
        self.count += event == "call"


@pytest.mark.parametrize(("connectors", "rounds"), [(10, 200), (1000, 2)])
def test_a_record_costs_the_same_however_many_there_were_before(connectors, rounds):
    records = histories(connectors, rounds)
    fold, costs = ConfigFold(), []
    for part in (records[: len(records) // 2], records[len(records) // 2 :]):
        with Calls() as calls:
            for record in part:
                fold.apply(record)
        costs.append(calls.count / len(part))
    assert costs[1] <= costs[0] * 1.1
    assert len(fold.snapshot().connectors) == connectors


def test_memory_follows_the_keys_and_not_the_history():
    fold, sizes = ConfigFold(), []
    records = histories(20, 40)
    for begin in range(0, len(records), len(records) // 4):
        for record in records[begin : begin + len(records) // 4]:
            fold.apply(record)
        sizes.append(objects_of(fold))
    assert sizes[0] == sizes[1] == sizes[2] == sizes[3]


def objects_of(root: object) -> int:
    """How many objects hang on one."""
    seen, left = set(), [root]
    while left:
        found = left.pop()
        if id(found) in seen or isinstance(found, type) or type(found).__module__ == "types":
            continue
        seen.add(id(found))
        left += [ref for ref in gc.get_referents(found) if not isinstance(ref, str | int | type(sys))]
    return len(seen)


def test_a_snapshot_is_made_anew_only_after_a_record():
    fold = ConfigFold()
    records = histories(3, 1)
    for record in records:
        fold.apply(record)
    assert fold.snapshot() is fold.snapshot()
    before = fold.snapshot()
    fold.apply(records[-1])
    assert fold.snapshot() is not before
