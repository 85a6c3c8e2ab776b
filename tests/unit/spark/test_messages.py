"""Messages of the link: what is sent is what is read; everything else is refused."""

from __future__ import annotations

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import LinkError, LinkRefusedError
from kconnect.model import (
    Condition,
    ConnectorOffset,
    ConnectorType,
    RunState,
    TargetState,
    TaskCondition,
    TaskId,
    TaskSpec,
)
from kconnect.runtime.metrics import Spread, TaskCounters
from kconnect.spark import messages as m

TASK = TaskId("orders", 3)
SPEC = TaskSpec(TASK, 7, ConnectorType.SINK, {"name": "orders"}, {"task.class": "x"}, {"a": "b"}, TargetState.PAUSED)
EVERY_KIND = [
    m.Challenge("n"),
    m.ChallengeResponse("n", "p"),
    m.Welcome("p"),
    m.Hello(1, "host", 2, 3),
    m.TaskReport(TASK, 7, RunState.FAILED, "trace"),
    m.TasksStopped(1, (TASK,)),
    m.OffsetsRead(2, "orders", ({"filename": "a"}, {})),
    m.RunCheck(4, TaskId("orders", 0), 7),
    m.OffsetsCommit(3, "orders", (ConnectorOffset({"f": "a"}, {"p": 1}), ConnectorOffset({}, None))),
    m.ReconfigureRequest("orders"),
    m.LogLine(20, "kconnect.x", 5, 1.5, "task-orders-0", "[orders|task-0] ", "text"),
    m.Console("line\n"),
    m.StartTask(SPEC),
    m.StopTasks(4, (TASK,), 5000),
    m.SetTargetState((TASK,), TargetState.STARTED),
    m.OffsetsReply(2, ({"position": 4}, None), None),
    m.OffsetsAck(3, "the disk is full"),
    m.Quit(10),
    m.Refused("not yours"),
    m.Heartbeat(2, 1.5, 20.0, 4096),
    m.TaskTopic(TASK, "lines"),
    m.TaskMetrics(((TASK, 7, TaskCounters(records_read=5, put_ms=Spread(2, 3.5, 2.25))), (TASK, 8, TaskCounters()))),
    m.FailedRecords(TASK, 7, "orders", 1, 10, 20, (11, 17), are_reported=True),
    m.TaskConditions(
        (
            (TASK, 7, TaskCondition(Condition.HEALTHY, 1)),
            (TASK, 8, TaskCondition(Condition.STUCK, 2, 3, "poll() has not returned", 'File "a.py", line 1')),
        )
    ),
    m.SlotDemand(97.5, ((TASK, 61.25), (TaskId("lines", 3), 4.0))),
    m.ForgetTopics("orders"),
    m.SetLogLevel("kconnect.runtime.pipeline", 10),
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({key for message in EVERY_KIND for key in orjson.loads(m.encode(message))})


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_way(message):
    assert m.decode(m.encode(message)) == message


def test_every_kind_of_message_is_tried_above():
    assert {type(message) for message in EVERY_KIND} == set(m.Message.__args__)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"v":1}',
        b'{"v":true,"type":"heartbeat","leftovers":0}',
        b'{"v":2,"type":"heartbeat","leftovers":0}',
        b'{"v":1,"type":"evil"}',
        b'{"v":1,"type":["hello"]}',
        b'{"v":1,"type":"heartbeat"}',
        b'{"v":1,"type":"heartbeat","leftovers":"0"}',
        b'{"v":1,"type":"heartbeat","leftovers":true}',
        b'{"v":1,"type":"task_report","id":{},"run":1,"state":"RUNNING","trace":null}',
        b'{"v":1,"type":"task_report","id":{"connector":"a","task":0},"run":1,"state":"DANCING","trace":null}',
    ],
)
def test_what_is_no_message_is_refused(body):
    with pytest.raises(LinkError):
        m.decode(body)


@pytest.mark.parametrize("version", [0, 2, 10**9])
def test_another_version_is_refused_with_both_numbers(version):
    with pytest.raises(LinkRefusedError, match=f"version {version} of the control link, the other version 1: install"):
        m.decode(orjson.dumps({"v": version, "type": "heartbeat"}))


@given(st.binary(max_size=200) | st.dictionaries(st.sampled_from(FIELDS), JSON).map(orjson.dumps))
def test_junk_is_refused_and_raises_nothing_else(body):
    with pytest.raises(LinkError):
        m.decode(body)


@given(st.sampled_from(EVERY_KIND), st.data())
def test_a_message_with_one_field_replaced_is_read_or_refused(message, data):
    raw = orjson.loads(m.encode(message))
    raw[data.draw(st.sampled_from(sorted(raw)))] = data.draw(JSON)
    with contextlib.suppress(LinkError):  # the other right answer
        assert type(m.decode(orjson.dumps(raw))) in m.Message.__args__


def test_an_offset_json_can_not_carry_is_refused_with_a_hint():
    with pytest.raises(LinkError) as failure:
        m.encode(m.OffsetsCommit(1, "orders", (ConnectorOffset({"f": object()}, None),)))

    assert "offsets_commit" in str(failure.value)
    assert "partitions and offsets" in (failure.value.hint or "")


def test_text_of_plugins_is_sent_though_no_utf8_has_it() -> None:
    said = [
        m.TaskReport(TASK, 7, RunState.FAILED, "\udcff.csv"),
        m.Console("a\ud800"),
        m.LogLine(20, "x", 5, 1.5, "", "", "\udc00"),
    ]
    read = [m.decode(m.encode(message)) for message in said]
    assert [getattr(message, "trace", getattr(message, "text", None)) for message in read] == ["?.csv", "a?", "?"]


def test_configs_and_proofs_are_not_shown():
    shown = repr(m.StartTask(SPEC)) + repr(m.ChallengeResponse("n", "the-proof"))

    assert "task.class" not in shown
    assert "the-proof" not in shown


def test_a_setting_without_value_reaches_the_task() -> None:
    """Connectors of Java give such ones; refused here, it would end the slot with all its tasks."""
    spec = TaskSpec(TaskId("orders", 0), 1, ConnectorType.SOURCE, {"a": None}, {"b": None}, {})  # type: ignore[dict-item]
    assert m.decode(m.encode(m.StartTask(spec))) == m.StartTask(spec)


def test_half_a_surrogate_pair_in_a_setting_arrives_as_it_is():
    """REST takes such ones, as Java's does; refused here, it would end each slot with all its tasks."""
    config = {"connector.class": "x", "text": "a\ud800b\U0001f600", "\udc00": "\u00e4"}
    spec = TaskSpec(TaskId("orders", 0), 1, ConnectorType.SOURCE, {"a": "\ud83d"}, config, {"n": "1"})
    assert m.decode(m.encode(m.StartTask(spec))) == m.StartTask(spec)
