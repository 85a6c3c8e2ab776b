"""A cluster as a file: what is exported, what an import writes and in which order, which files are refused."""

from __future__ import annotations

import json

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.archive.document import (
    GroupState,
    LiveTopics,
    archive_document,
    import_plan,
    read_archive,
)
from kconnect.admin.direct.edit.plan import (
    NoLiveGroup,
)
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.errors import BadRequestError, ConflictError
from kconnect.model import TopicPartition
from kconnect.runtime.herder.offsets.log_ranges import LogRanges
from kconnect.runtime.herder.offsets.offsets_admin import STARTS_OVER
from kconnect.runtime.storage.config_topic import (
    encode_connector,
)
from kconnect.runtime.storage.offset_topic import encode_key, encode_value
from kit.topic_views import config_view, offset_view, records_of


def test_offsets_come_before_the_connector_that_would_start_from_them():
    archive = read_archive(
        {
            "format": "kconnect-topics",
            "version": 1,
            "connectors": [{"name": "a", "config": {"k": "1"}, "tasks": [{"t": "0"}], "task_count_record": 2}],
            "offsets": {"a": {"offsets": [{"partition": {"f": 1}, "offset": {"p": 7}}]}},
        }
    )
    plan = import_plan(archive, LiveTopics(config_view([]), offset_view()))
    assert [edit.key for edit in plan.edits] == [
        b'["a",{"f":1}]',
        b"target-state-a",
        b"connector-a",
        b"tasks-fencing-a",
        b"task-a-0",
        b"commit-a",
    ]
    assert len(plan.steps) == 2
    (need,) = plan.requirements
    assert isinstance(need, NoLiveGroup)


def test_offsets_of_a_connector_that_is_there_are_not_overwritten_unless_asked():
    configs = config_view(records_of([encode_connector("a", {"k": "1"})]))
    offsets = offset_view(
        [(encode_key("a", {"f": 1}), encode_value({"p": 9})), (encode_key("a", {"f": 2}), encode_value({"p": 9}))]
    )
    archive = read_archive(
        {
            "format": "kconnect-topics",
            "version": 1,
            "connectors": [{"name": "a", "config": {"k": "1"}}],
            "offsets": {"a": {"offsets": [{"partition": {"f": 1}, "offset": {"p": 7}}]}},
        }
    )
    with pytest.raises(ConflictError, match="another offsets"):
        import_plan(archive, LiveTopics(configs, offsets))
    plan = import_plan(archive, LiveTopics(configs, offsets), replace=True)
    assert {edit.key: edit.new for edit in plan.edits} == {b'["a",{"f":1}]': b'{"p":7}', b'["a",{"f":2}]': None}


@pytest.mark.parametrize("has_offsets", [True, False])
def test_a_file_that_says_nothing_of_offsets_leaves_those_that_are_there(has_offsets):
    file = {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [{"name": "a", "config": {"k": "2"}}],
    } | ({"offsets": {}} if has_offsets else {})
    configs = config_view(records_of([encode_connector("a", {"k": "1"})]))
    state = LiveTopics(configs, offset_view([(b'["a",{"f":1}]', b'{"p":1}')]))
    plan = import_plan(read_archive(file).chosen(["a"]), state, replace=True)
    forgotten = [edit.key for edit in plan.edits if edit.which is InternalTopic.OFFSET and edit.new is None]
    assert forgotten == ([b'["a",{"f":1}]'] if has_offsets else [])
    assert any(edit.key == b"connector-a" for edit in plan.edits)


@pytest.mark.parametrize("has_offsets", [True, False])
def test_a_file_without_offsets_of_a_connector_resets_its_own_topic_too_if_it_has_any_at_all(has_offsets):
    file = {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [{"name": "a", "config": {"offsets.storage.topic": "own"}}],
    } | ({"offsets": {}} if has_offsets else {})
    configs = config_view(records_of([encode_connector("a", {"offsets.storage.topic": "own"})]))
    own = {"a": ("own", offset_view([(b'["a",{"f":1}]', b'{"p":900}')]))}
    plan = import_plan(read_archive(file), LiveTopics(configs, offset_view(), own), replace=True)
    forgotten = [(edit.topic, edit.key) for edit in plan.edits if edit.which is InternalTopic.OFFSET]
    assert forgotten == ([("own", b'["a",{"f":1}]')] if has_offsets else [])
    assert all(edit.new is None for edit in plan.edits if edit.which is InternalTopic.OFFSET)


@pytest.mark.parametrize("has_own", [True, False])
@pytest.mark.parametrize("offset", [{"p": 500}, None])
def test_no_spelling_of_an_offsets_key_is_left_at_an_older_offset(offset, has_own):
    javas, other = b'["a",{"x":1,"y":2}]', b'["a", {"y":2,"x":1}]'
    kept = [] if offset is None else [{"partition": {"x": 1, "y": 2}, "offset": offset}]
    file = {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [{"name": "a", "config": {}}],
        "offsets": {"a": {"offsets": kept}},
    }
    there = offset_view([(javas, b'{"p":100}'), (other, b'{"p":900}')])
    configs = config_view(records_of([encode_connector("a", {})]))
    state = LiveTopics(configs, offset_view(), {"a": ("own", there)}) if has_own else LiveTopics(configs, there)
    plan = import_plan(read_archive(file), state, replace=True)
    written = {edit.key: edit.new for edit in plan.edits if (edit.topic == "own") is has_own}
    if offset is None:
        assert written == {javas: None, other: None}
    else:
        assert written[javas] == b'{"p":500}'
    for edit in plan.edits:
        if (edit.topic == "own") is has_own:
            there.offsets.apply(edit.key, edit.new)
    assert there.offsets.value(javas) == (None if offset is None else b'{"p":500}')


def group_at(*offsets):
    return {
        "group": "g",
        "offsets": [
            {"partition": {"kafka_topic": topic, "kafka_partition": number}, "offset": {"kafka_offset": offset}}
            for topic, number, offset in offsets
        ],
    }


def plan_of(*offsets, known=()):
    """Of an import that sets a sink's offsets where the topic `t` has the records 5 to 9 in its one partition."""
    file = {"format": "kconnect-topics", "version": 1, "connectors": [], "groups": {"a": group_at(*offsets)}}
    log = LogRanges({"t": 1}, {TopicPartition("t", 0): (5, 10)})
    groups = {"a": GroupState("g", {TopicPartition(topic, number): offset for topic, number, offset in known})}
    state = LiveTopics(config_view([]), offset_view(), groups=groups, logs={"a": log})
    return import_plan(read_archive(file), state)


@pytest.mark.parametrize(
    ("offset", "problem"),
    [(4, "offset 4 of t-0 is before its first record, 5"), (11, "offset 11 of t-0 is beyond its end, 10")],
)
def test_an_offset_at_which_nothing_can_be_read_is_reported_with_the_plan(offset, problem):
    (note,) = plan_of(("t", 0, offset)).notes
    assert note == f"Connector a: {problem}. {STARTS_OVER}"
    assert [plan_of(("t", 0, fine)).notes for fine in (5, 10)] == [(), ()]
    assert plan_of(("t", 0, offset), known=[("t", 0, offset)]).notes == (), "it is there already"


@pytest.mark.parametrize(
    ("partition", "problem"),
    [(("gone", 0), "topic gone does not exist"), (("t", 1), "no partition 1"), (("t", -1), "no partition -1")],
)
def test_offsets_of_partitions_that_do_not_exist_are_refused_before_anything_is_written(partition, problem):
    with pytest.raises(BadRequestError, match=f"Connector a: .*{problem}.*; nothing was written") as caught:
        plan_of(("t", 0, 7), (*partition, 7))
    assert "--without-offsets" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"format": "other"}, "not an export"),
        ({"version": 2}, "version 2"),
        ({"version": True}, "version True"),
        ({"more": 1}, 'unknown field "more"'),
        ({"connectors": {}}, "must be a list"),
        ({"connectors": [1]}, r"connectors\[0\] must be an object"),
        ({"connectors": [{"name": ""}]}, "name must be a text"),
        ({"connectors": [{"name": "a"}]}, "config must be an object"),
        ({"connectors": [{"name": "a", "config": {"k": 1}}]}, "k must be a text"),
        ({"connectors": [{"name": "a", "config": {}}] * 2}, "appears twice"),
        ({"connectors": [{"name": "a", "config": {"name": "b"}}]}, "its config is that of b"),
        ({"connectors": [{"name": "a", "config": {}, "target_state": "UP"}]}, "target_state 'UP'"),
        ({"connectors": [{"name": "a", "config": {}, "tasks": 1}]}, "tasks must be a list"),
        ({"connectors": [{"name": "a", "config": {}, "task_count_record": -1}]}, "task_count_record"),
        ({"offsets": [1]}, "offsets must be an object"),
        ({"offsets": {"a": {"offsets": [{"partition": {}, "offset": 7}]}}}, "must be objects"),
        ({"groups": {"a": {}}}, "group must be a text"),
        ({"groups": {"a": {"group": "g", "offsets": [{"partition": {}, "offset": None}]}}}, "kafka_topic"),
        ({"groups": {"a": group_at(("t", 0, 1), ("t", 0, 2))}}, "a: a partition has more than one offset"),
    ],
)
def test_a_file_that_is_no_export_of_this_version_is_refused_with_the_place(change, reported):
    good = {"format": "kconnect-topics", "version": 1, "connectors": []}
    assert read_archive(good).connectors == {}
    with pytest.raises(BadRequestError, match=reported):
        read_archive({**good, **change})


def test_secrets_are_masked_unless_asked_for_and_come_back_from_what_is_there():
    configs = config_view(records_of([encode_connector("a", {"password": "hush", "k": "1"})]))
    state = LiveTopics(configs, offset_view())
    document = archive_document(state, None, 0, skip=lambda _: None)
    assert "hush" not in json.dumps(document)
    assert import_plan(read_archive(document), state).is_empty
    with pytest.raises(BadRequestError, match="password of connector a is"):
        import_plan(read_archive(document), LiveTopics(config_view([]), offset_view()))
    assert "hush" in json.dumps(archive_document(state, None, 0, masks=SecretMasks(reveal=True), skip=lambda _: None))


def test_offsets_of_what_is_no_connector_any_more_are_left_out_by_name():
    configs, left_out = config_view(records_of([encode_connector("a", {"k": "1"})])), []
    offsets = offset_view([(b'["%s",{"p":%d}]' % at, b"{}") for at in ((b"a", 1), (b"gone", 1), (b"gone", 2))])
    document = archive_document(LiveTopics(configs, offsets), None, 0, skip=left_out.append)
    assert list(document["offsets"]) == ["a"]
    assert left_out == ["2 offsets of gone, which is not a connector any more"]


def test_the_session_key_is_never_exported():
    from kconnect.runtime.storage.config_topic import encode_session_key
    from kconnect.runtime.storage.session_key import SessionKey

    configs = config_view(records_of([encode_session_key(SessionKey(b"very secret", "HmacSHA256", 1))]))
    document = json.dumps(
        archive_document(LiveTopics(configs, offset_view()), None, 0, masks=SecretMasks(reveal=True), skip=print)
    )
    assert "HmacSHA256" not in document
    assert "dmVyeSBzZWNyZXQ" not in document
