"""Live changes in words, and keys that are looked up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.documents import describer_of, look_up
from kconnect.admin.direct.read.reader import named_alike
from kconnect.model import LogRecord, RunState, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.config_topic import RestartRequested
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_topic import (
    StoredStatus,
    TopicUse,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)


def record(key: bytes | None, value: bytes | None, offset: int = 0, partition: int = 0, time_ms: int = 0) -> LogRecord:
    return LogRecord("t", partition, offset, key, value, time_ms)


def reported(which: InternalTopic, *written: tuple[bytes | None, bytes | None]) -> list[str]:
    words = describer_of(which)
    return [words(record(key, value, offset)) for offset, (key, value) in enumerate(written)]


def test_what_is_written_to_the_config_topic_is_reported_in_words():
    c = config_topic
    assert reported(
        InternalTopic.CONFIG,
        c.encode_connector("src", {"a": "1", "password": "hunter2"}),
        c.encode_connector("src", {"a": "2", "password": "hunter3", "b": "1"}),
        c.encode_connector("src", {"b": "1"}),
        c.encode_connector("src", {"b": "1"}),
        c.encode_task(TaskId("src", 0), {}),
        c.encode_commit("src", 1),
        c.encode_commit("src", 3),
        c.encode_target_state("src", TargetState.STOPPED),
        c.tombstone_of_target_state("src"),
        c.encode_restart(RestartRequested("src", True, True)),
        c.encode_restart(RestartRequested("src", False, False)),
        c.encode_task_count("src", 1),
        c.encode_session_key(SessionKey(b"k", "HmacSHA256", 1)),
        c.encode_logger_level("org.x", "DEBUG"),
        c.tombstone_of_connector("src"),
        c.encode_connector("src", {}),
        (b"commit-src", None),
        (b"commit-src", b"{}"),
        (b"orders-1", b"{}"),
        (b"\xff", b"{}"),
    ) == [
        "src: created",
        "src: changed a, password; added b",
        "src: removed a, password",
        "src: the same config is written again",
        "src: a config of task 0, for the next commit",
        "src: 1 task committed",
        "src: 3 tasks committed; some of their configs are missing",
        "src: target state STOPPED",
        "src: its target state is removed",
        "src: restart of it and its tasks requested, only if FAILED",
        "src: restart of it requested",
        "src: 1 producer of tasks to be fenced next time",
        "a new session key",
        "logger org.x: DEBUG on all workers",
        "src is deleted",
        "src: created",
        "commit-src is deleted, which means nothing to a worker",
        "commit-src is skipped by workers: 'tasks' is missing or null, not a whole number",
        "orders-1 is of an unknown kind",
        "base64:/w== is of an unknown kind",
    ]


def test_words_go_on_from_what_was_read_before():
    fold = ConfigFold()
    key, value = config_topic.encode_connector("src", {"a": "1"})
    fold.apply(record(key, value))
    words = describer_of(InternalTopic.CONFIG, fold)
    assert words(record(*config_topic.encode_connector("src", {"a": "2"}), 1)) == "src: changed a"


def test_statuses_and_offsets_are_reported_in_words():
    failed = StoredStatus(RunState.FAILED, "w:1", 4, "boom\n at x")
    assert reported(
        InternalTopic.STATUS,
        (status_key("src"), encode_status(StoredStatus(RunState.RUNNING, "w:1", 3))),
        (status_key(TaskId("src", 2)), encode_status(failed)),
        (status_key(TaskId("src", 2)), None),
        (topic_key("src", "t"), encode_topic_use(TopicUse("t", "src", 2, 1000))),
        (topic_key("src", "t"), None),
        (b"x", b"y"),
    ) == [
        "src RUNNING on w:1, generation 3",
        "src task 2 FAILED on w:1, generation 4: boom",
        "src task 2: its status is removed",
        "src uses topic t",
        "src no longer has topic t",
        "x is skipped by workers: its key is none of a status topic",
    ]
    assert reported(
        InternalTopic.OFFSET,
        (b'["src",{"f":"a"}]', b'{"p":1}'),
        (b'["src",{"f":"a"}]', None),
        (b'["src",{"f":"a"}]', b"[1]"),
        (None, b"x"),
    ) == [
        'src {"f":"a"}: {"p":1}',
        'src {"f":"a"}: reset',
        'src {"f":"a"}: An offset is not a JSON object: b\'[1]\'',
        "(no key) is of no connector",
    ]


@given(st.sampled_from(list(InternalTopic)), st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary())))
def test_any_bytes_can_be_reported(which, written):
    assert all(isinstance(text, str) for text in reported(which, *written))


def test_the_newest_record_of_a_key_is_found():
    records = [record(b"a", b"1", 0), record(b"b", b"9", 1), record(b"a", b"2", 2, time_ms=-5)]
    assert look_up(records, b"a").record.value == b"2"


def test_a_key_that_is_not_there_gives_those_that_are_like_it():
    records = [
        record(key, value, offset)
        for offset, (key, value) in enumerate(
            [(b"task-src-0", b"{}"), (b"connector-src", b"{}"), (b"commit-src", b"{}"), (b"connector-old", b"{}")]
        )
    ]
    assert look_up(records, b"src").near == ["commit-src", "connector-src", "task-src-0"]
    assert look_up(records, b"conector-src").near[0] == "connector-src"
    gone = look_up([*records, record(b"connector-src", None, 9)], b"connector-src")
    assert gone.record.offset == 9
    assert gone.record.value is None
    assert "connector-src" not in gone.near


def test_an_offset_is_found_in_any_spelling_and_the_newest_counts():
    records = [
        record(b'["s",{"a":1,"b":2}]', b"1", 5, partition=0, time_ms=10),
        record(b'["s",{"b":2, "a":1}]', b"2", 3, partition=1, time_ms=20),
    ]
    assert look_up(records, b'["s", {"a":1, "b":2}]', is_offset=True).record.value == b"2"
    assert look_up(records, b'["s",{"a":1,"b":2}]').record.value == b"1"


@pytest.mark.parametrize(
    ("which", "names"),
    [
        (InternalTopic.CONFIG, ["prod-configs", "connect.config"]),
        (InternalTopic.STATUS, ["prod-status", "x_statuses"]),
        (InternalTopic.OFFSET, ["prod-offsets"]),
    ],
)
def test_topics_with_usual_names_are_offered_the_nearest_first(which, names):
    topics = ["orders", "connect.config", "prod-configs", "prod-status", "x_statuses", "prod-offsets", "reconfig"]
    assert sorted(named_alike(which, topics, "prod-conf")) == sorted(names)
    assert named_alike(which, topics, f"prod-{which}")[0] == names[0]
