"""Single records that are put and deleted: checked for their kind, spelled as Java does, or forced."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.edit.plan import (
    Edit,
)
from kconnect.admin.direct.edit.record_plans import delete_plan as delete_keys
from kconnect.admin.direct.edit.record_plans import put_plan
from kconnect.admin.direct.read.reader import Latest
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.model import LogRecord
from kconnect.runtime.storage.config_topic import (
    encode_connector,
)
from kit.examples import examples
from kit.topic_views import records_of

C, S, O = InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET  # noqa: E741 - short names of three topics


@pytest.mark.parametrize(
    ("which", "key", "value", "reported"),
    [
        (C, "connector-a", b'{"k":"v"}', "'properties' is missing"),
        (C, "connector-a", b"{", "not JSON"),
        (C, "connector-a", b"NaN", "not JSON"),
        (C, "task-a", b'{"properties":{}}', "number of a task"),
        (C, "target-state-a", b'{"state":"GONE"}', "unknown state"),
        (C, "nonsense", b"{}", "does not belong in a config topic"),
        (S, "status-task-a", b"{}", "number of a task"),
        (S, "status-connector-a", b'{"state":"RUNNING"}', "generation"),
        (O, '["a",{}]', b"7", "not a JSON object"),
        (O, '["a",{}]', b'{"p":{"q":1}}', "primitive"),
        (O, "a", b"{}", "connector"),
        (C, "connector-a", b"null", "deletes the record"),
    ],
)
def test_a_value_that_is_none_of_its_kind_is_refused_unless_forced(which, key, value, reported):
    with pytest.raises(BadRequestError, match=reported):
        put_plan(which, Latest(), key, value)
    (edit,) = put_plan(which, Latest(), key, value, is_forced=True).edits
    assert edit.key == key.encode()
    assert edit.new is not None


def test_json_is_written_as_java_spells_it():
    (edit,) = put_plan(C, Latest(), "connector-a", b'{ "properties": {"x": "\xf0\x9f\x98\x80", "y" : "1"} }').edits
    assert edit.new == b'{"properties":{"x":"\\uD83D\\uDE00","y":"1"}}'


def latest_of(*entries):
    latest = Latest()
    for record in records_of(entries):
        latest.apply(record)
    return latest


def test_a_masked_secret_stands_for_the_one_that_is_there():
    latest = latest_of(encode_connector("a", {"password": "hush", "k": "1"}))
    masked = json.dumps({"properties": {"password": "[hidden]", "k": "2"}}).encode()
    from kconnect.logs.redaction import HIDDEN

    masked = masked.replace(b"[hidden]", HIDDEN.encode())
    (edit,) = put_plan(C, latest, "connector-a", masked).edits
    assert json.loads(edit.new)["properties"] == {"password": "hush", "k": "2"}
    with pytest.raises(BadRequestError, match="stands for a secret that does not exist"):
        put_plan(C, Latest(), "connector-a", masked)


def test_a_source_partition_keeps_the_spelling_it_has_in_the_topic():
    stored = b'["a",{"y":2,"x":1}]'
    latest = latest_of((stored, b'{"p":1}'))
    assert put_plan(O, latest, '["a", {"x": 1, "y": 2}]', b'{"p":2}').edits[0].key == stored
    assert delete_keys(O, latest, ['["a", {"x":1,"y":2}]']).edits[0].key == stored
    assert put_plan(O, Latest(), '["a", {"x": 1}]', b'{"p":2}').edits[0].key == b'["a",{"x":1}]'


def test_deleting_what_is_not_there_names_what_is_near():
    latest = latest_of(encode_connector("orders", {}))
    with pytest.raises(NotFoundError) as error:
        delete_keys(C, latest, ["connector-order"])
    assert "connector-orders" in error.value.hint
    assert delete_keys(C, latest, ["connector-order"], is_forced=True).edits[0].old is None


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from(InternalTopic))
@examples(200)
def test_any_bytes_can_be_forced_in_and_deleted(key, value, which):
    import base64

    text = "base64:" + base64.b64encode(key).decode()
    plan = put_plan(which, Latest(), text, value or b"x", is_forced=True)
    assert plan.edits[0].new is not None
    record = LogRecord("t", 0, 0, plan.edits[0].key, value)
    latest = Latest()
    latest.apply(record)
    assert delete_keys(which, latest, [text]).edits == (Edit(which, plan.edits[0].key, None, record),)
