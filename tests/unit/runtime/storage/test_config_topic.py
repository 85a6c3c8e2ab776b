"""Records of the config topic: Java's bytes, what Java reads in others' bytes, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kconnect.model import LogRecord, TargetState, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.config_topic import (
    ConnectorConfigured,
    LoggerLevelSet,
    Malformed,
    RestartRequested,
    SessionKeySet,
    TargetStateSet,
    TaskConfigured,
    TaskCountRecorded,
    TasksCommitted,
    Tombstone,
    Unknown,
    decode,
)
from kconnect.runtime.storage.session_key import SessionKey

KEY = SessionKey(b"0123456789", "HmacSHA256", 1795232630054)
NAMES = st.text()
CONFIGS = st.dictionaries(st.text(), st.text() | st.none())
COUNTS = st.integers(0, 2**31 - 1)


def read(key: bytes | str, value: bytes | str | None, offset: int = 7):
    key = key.encode() if isinstance(key, str) else key
    value = value.encode() if isinstance(value, str) else value
    return decode(LogRecord("configs", 0, offset, key, value))


@pytest.mark.parametrize(
    ("written", "key", "value"),
    [
        (config_topic.encode_connector("c", {"b": "1", "a": "2"}), "connector-c", '{"properties":{"b":"1","a":"2"}}'),
        (
            config_topic.encode_task(TaskId("c-1", 2), {"a": "→😀"}),
            "task-c-1-2",
            '{"properties":{"a":"→\\uD83D\\uDE00"}}',
        ),
        (config_topic.encode_task(TaskId("c", 0), {"a": None}), "task-c-0", '{"properties":{"a":null}}'),
        (config_topic.encode_commit("c", 3), "commit-c", '{"tasks":3}'),
        (
            config_topic.encode_target_state("c", TargetState.STOPPED),
            "target-state-c",
            '{"state":"PAUSED","state.v2":"STOPPED"}',
        ),
        (
            config_topic.encode_target_state("c", TargetState.STARTED),
            "target-state-c",
            '{"state":"STARTED","state.v2":"STARTED"}',
        ),
        (
            config_topic.encode_restart(RestartRequested("c", only_failed=False, include_tasks=True)),
            "restart-connector-c",
            '{"include-tasks":true,"only-failed":false}',
        ),
        (config_topic.encode_task_count("c", 4), "tasks-fencing-c", '{"task-count":4}'),
        (
            config_topic.encode_session_key(KEY),
            "session-key",
            '{"key":"MDEyMzQ1Njc4OQ==","algorithm":"HmacSHA256","creation-timestamp":1795232630054}',
        ),
        (config_topic.encode_logger_level("a.b", "WARN"), "logger-cluster-a.b", '{"level":"WARN"}'),
    ],
)
def test_records_are_spelled_as_java_spells_them(written, key, value):
    assert (written[0].decode(), written[1].decode()) == (key, value)


@given(NAMES, CONFIGS)
def test_what_is_written_of_a_connector_is_read(name, config):
    assert read(*config_topic.encode_connector(_as_java_keeps(name), config)) == ConnectorConfigured(
        _as_java_keeps(name), config
    )


@given(NAMES.filter(lambda name: not name.endswith("-")) | NAMES, COUNTS, CONFIGS)
@example("a-0", 1, {})
@example("a-", 0, {})
@example("", 0, {})
def test_what_is_written_of_a_task_is_read_whatever_dashes_and_digits_its_connector_has(name, number, config):
    task = TaskId(_as_java_keeps(name), number)
    assert read(*config_topic.encode_task(task, config)) == TaskConfigured(task, config)


@given(NAMES, COUNTS, st.sampled_from(TargetState), st.booleans(), st.booleans())
def test_what_is_written_of_all_other_kinds_is_read(name, count, state, only_failed, include_tasks):
    name = _as_java_keeps(name)
    restart = RestartRequested(name, only_failed, include_tasks)
    assert read(*config_topic.encode_commit(name, count)) == TasksCommitted(name, count)
    assert read(*config_topic.encode_task_count(name, count)) == TaskCountRecorded(name, count)
    assert read(*config_topic.encode_target_state(name, state)) == TargetStateSet(name, state)
    assert read(*config_topic.encode_restart(restart)) == restart
    assert read(*config_topic.encode_logger_level(name, "INFO")) == LoggerLevelSet(name, "INFO")


@given(st.binary(min_size=1), st.text(), st.integers(0, 2**63 - 1))
def test_what_is_written_of_a_session_key_is_read(key, algorithm, created_ms):
    session_key = SessionKey(key, algorithm, created_ms)
    assert read(*config_topic.encode_session_key(session_key)) == SessionKeySet(session_key)


def test_tombstones_of_connectors_and_target_states_mean_something():
    assert read(*config_topic.tombstone_of_connector("c")) == ConnectorConfigured("c", None)
    assert read(*config_topic.tombstone_of_target_state("c")) == TargetStateSet("c", None)
    assert read("connector-c", "null") == ConnectorConfigured("c", None)


KINDS_WITHOUT_TOMBSTONE = [
    "task-c-0",
    "commit-c",
    "restart-connector-c",
    "tasks-fencing-c",
    "session-key",
    "logger-cluster-x",
]


@pytest.mark.parametrize("key", KINDS_WITHOUT_TOMBSTONE)
def test_other_tombstones_mean_nothing(key):
    assert read(key, None) == Tombstone(key, 7)


@pytest.mark.parametrize(
    ("key", "task"),
    [
        ("task-a-0", TaskId("a", 0)),
        ("task-a-1-12", TaskId("a-1", 12)),
        ("task-a--0", TaskId("a-", 0)),
        ("task-a-+3", TaskId("a", 3)),
        ("task-a-0-", TaskId("a", 0)),  # Java's split forgets empty ends
        ("task--0", TaskId("", 0)),
        ("task-a", None),
        ("task-0", None),
        ("task-a-", None),
        ("task---", None),
        ("task-a-b", None),
        ("task-a-1_0", None),
        ("task-a- 1", None),
        ("task-a-2147483648", None),
    ],
)
def test_a_task_key_is_taken_apart_as_java_does(key, task):
    found = read(key, '{"properties":{}}')
    assert found == (
        TaskConfigured(task, {}) if task else Malformed(key, 7, "the key does not end with the number of a task")
    )


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ('{"state":"PAUSED"}', TargetState.PAUSED),
        ('{"state":"PAUSED","state.v2":null}', TargetState.PAUSED),
        ('{"state":"PAUSED","state.v2":"STOPPED"}', TargetState.STOPPED),
        ('{"state":"PAUSED","state.v2":5}', TargetState.PAUSED),
        ('{"state.v2":"STARTED"}', TargetState.STARTED),
    ],
)
def test_a_target_state_without_a_usable_v2_is_the_old_one(value, state):
    assert read("target-state-c", value) == TargetStateSet("c", state)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("connector-c", "[]", "the value is a list, not an object"),
        ("connector-c", "{}", "'properties' is missing or null, not an object"),
        ("connector-c", '{"properties":{"a":1}}', "'properties' has a setting 'a' that is a number, not text"),
        ("task-c-0", '{"properties":"x"}', "'properties' is text, not an object"),
        ("commit-c", '{"tasks":1.5}', "'tasks' is a number, not a whole number"),
        ("commit-c", '{"tasks":true}', "'tasks' is a boolean, not a whole number"),
        ("commit-c", '{"tasks":-1}', "'tasks' is -1, not a number of tasks"),
        ("tasks-fencing-c", '{"tasks":1}', "'task-count' is missing or null, not a whole number"),
        ("target-state-c", "{}", "'state' is missing or null, not text"),
        ("target-state-c", '{"state":"PAUSED","state.v2":"FROZEN"}', "unknown state 'FROZEN'"),
        ("restart-connector-c", "7", "the value is a number, not an object"),
        ("session-key", "{}", "'key' is missing or null, not text"),
        ("session-key", '{"key":"?","algorithm":"a","creation-timestamp":1}', "'key' is not Base64"),
        ("session-key", '{"key":"","algorithm":"a","creation-timestamp":1}', "'key' is empty"),
        ("session-key", '{"key":"MDEy","creation-timestamp":1}', "'algorithm' is missing or null, not text"),
        (
            "session-key",
            '{"key":"MDEy","algorithm":"a","creation-timestamp":"1"}',
            "'creation-timestamp' is text, not a whole number",
        ),
        ("logger-cluster-x", '{"level":{}}', "'level' is an object, not text"),
    ],
)
def test_what_can_not_be_understood_says_why(key, value, why):
    assert read(key, value) == Malformed(key, 7, why)


def test_a_session_key_without_padding_is_read_as_java_reads_it():
    assert read("session-key", '{"key":"MDE","algorithm":"a","creation-timestamp":1}') == SessionKeySet(
        SessionKey(b"01", "a", 1)
    )


@pytest.mark.parametrize(
    ("value", "request_"),
    [
        ("{}", RestartRequested("c", only_failed=False, include_tasks=False)),
        ('{"only-failed":"true","include-tasks":true}', RestartRequested("c", only_failed=False, include_tasks=True)),
        ('{"only-failed":true,"include-tasks":1}', RestartRequested("c", only_failed=True, include_tasks=False)),
    ],
)
def test_flags_of_a_restart_that_are_no_booleans_are_false(value, request_):
    assert read("restart-connector-c", value) == request_


@pytest.mark.parametrize(
    "value", [b"{", b"\xff", b'{"a":NaN}', b'{"a":1e99999999999999999999}', b"[" * 100_000, b"1" * 5000]
)
def test_text_that_is_no_json_is_distinguished_from_json_of_the_wrong_shape(value):
    found = read("connector-c", value)
    assert isinstance(found, Malformed)
    if value[:1] not in b"1":
        assert (found.is_json, found.why[:22]) == (False, "the value is not JSON:")


def test_white_space_and_nothing_are_null_as_in_java():
    assert read("connector-c", "") == read("connector-c", " \n") == ConnectorConfigured("c", None)


def test_keys_of_no_known_kind_are_unknown():
    for key in ("", "connectors-c", "session-key2", "TASK-c-0", "status-connector-c"):
        assert read(key, "{}") == Unknown(key, 7)
    assert decode(LogRecord("configs", 0, 7, None, b"{}")) == Unknown("", 7)


@given(st.binary() | st.none(), st.binary() | st.none())
def test_no_bytes_make_it_raise(key, value):
    decode(LogRecord("configs", 0, 0, key, value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "properties",
                    "tasks",
                    "state",
                    "state.v2",
                    "task-count",
                    "key",
                    "algorithm",
                    "creation-timestamp",
                    "level",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from(["connector-c", "target-state-c", *KINDS_WITHOUT_TOMBSTONE]), JSON)
def test_no_json_of_a_wrong_shape_makes_it_raise(key, value):
    read(key, config_topic.jackson_text(value))


def test_secrets_are_in_no_repr():
    records = [
        read("connector-c", '{"properties":{"password":"geheim"}}'),
        read("task-c-0", '{"properties":{"password":"geheim"}}'),
        SessionKeySet(SessionKey(b"geheim", "a", 1)),
    ]
    assert "geheim" not in repr(records)


def _as_java_keeps(name: str) -> str:
    """Half a surrogate pair is written as `?` in a key."""
    return name.encode("utf-8", "replace").decode()
