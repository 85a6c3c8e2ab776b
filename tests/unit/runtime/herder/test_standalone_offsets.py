"""Offsets commands (KIP-875) under the standalone herder, in Java's words."""

from __future__ import annotations

import json

import pytest

from kconnect.errors import AlreadyExistsError, BadRequestError, ConnectError, TimedOutError
from kconnect.model import ConnectorOffset, TargetState, TopicPartition, offsets_from_json, offsets_to_json
from kit.herders import config, herder_bench
from kit.places import GOLDEN

MUST_BE_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/fsrc/stop' endpoint"
)
X = ConnectorOffset({"f": "x"}, {"n": 1})
Y = ConnectorOffset({"f": "y"}, {"n": 2})


@pytest.fixture
def bench():
    with herder_bench() as found:
        yield found


@pytest.fixture
def stopped(bench):
    bench.create(state=TargetState.STOPPED, knows_offsets="true")
    return bench


@pytest.fixture
def sink(bench):
    bench.create("snk", "sink", state=TargetState.STOPPED, topics="t")
    return bench


def test_a_source_without_offsets_has_none(stopped):
    assert stopped.herder.connector_offsets("fsrc") == []


@pytest.mark.parametrize("state", [TargetState.STARTED, TargetState.PAUSED])
def test_only_a_stopped_connector_can_be_altered_or_reset(bench, state):
    bench.create(state=state)
    with pytest.raises(BadRequestError) as altered:
        bench.herder.alter_connector_offsets("fsrc", [X])
    with pytest.raises(BadRequestError) as reset:
        bench.herder.reset_connector_offsets("fsrc")
    assert str(altered.value) == str(reset.value) == MUST_BE_STOPPED


def test_altered_offsets_are_kept_and_others_stay(stopped):
    reported = stopped.herder.alter_connector_offsets("fsrc", [X, Y])
    assert reported == "The offsets for this connector have been altered successfully"
    stopped.herder.alter_connector_offsets("fsrc", [ConnectorOffset({"f": "x"}, {"n": 9})])
    assert stopped.herder.connector_offsets("fsrc") == [ConnectorOffset({"f": "x"}, {"n": 9}), Y]


def test_what_offsets_shows_is_what_alter_takes(stopped):
    stopped.herder.alter_connector_offsets("fsrc", [X, Y])
    body = offsets_to_json(stopped.herder.connector_offsets("fsrc"))
    stopped.herder.reset_connector_offsets("fsrc")
    stopped.herder.alter_connector_offsets("fsrc", offsets_from_json(json.loads(json.dumps(body))))
    assert offsets_to_json(stopped.herder.connector_offsets("fsrc")) == body


def test_null_resets_one_partition_and_leaves_a_tombstone(stopped):
    stopped.herder.alter_connector_offsets("fsrc", [X, Y])
    stopped.herder.alter_connector_offsets("fsrc", [ConnectorOffset({"f": "x"}, None)])
    assert stopped.herder.connector_offsets("fsrc") == [Y]
    assert stopped.offsets.entries()[b'["fsrc",{"f":"x"}]'] is None


def test_the_last_of_the_same_partition_wins(stopped):
    stopped.herder.alter_connector_offsets("fsrc", [X, ConnectorOffset({"f": "x"}, {"n": 5})])
    assert stopped.herder.connector_offsets("fsrc") == [ConnectorOffset({"f": "x"}, {"n": 5})]


def test_reset_removes_all_of_this_connector_alone(stopped):
    stopped.offsets.set({b'["other",{"f":"x"}]': b'{"n":7}'})
    stopped.herder.alter_connector_offsets("fsrc", [X, Y])
    reported = stopped.herder.reset_connector_offsets("fsrc")
    assert reported == "The offsets for this connector have been reset successfully"
    assert stopped.herder.connector_offsets("fsrc") == []
    assert stopped.offsets.entries() == {
        b'["other",{"f":"x"}]': b'{"n":7}',
        b'["fsrc",{"f":"x"}]': None,
        b'["fsrc",{"f":"y"}]': None,
    }
    assert stopped.journal.altered[-1] == [({"f": "x"}, None), ({"f": "y"}, None)]


def test_reset_without_offsets_still_asks_the_connector(stopped):
    stopped.herder.reset_connector_offsets("fsrc")
    assert stopped.journal.altered == [[]]


def test_a_connector_that_does_not_know_the_hook_is_distinguished(bench):
    bench.create(state=TargetState.STOPPED)
    reported = bench.herder.alter_connector_offsets("fsrc", [X])
    assert reported.startswith(
        "The Connect framework-managed offsets for this connector have been altered successfully."
    )
    assert "manually altered in the system" in reported
    assert "manually reset in the system" in bench.herder.reset_connector_offsets("fsrc")


@pytest.mark.parametrize(
    ("how", "reported"),
    [
        ("alter_offsets_politely", "The value for the 'position' key in the offset should be a non-negative value"),
        (
            "alter_offsets_unsupported",
            "Failed to modify offsets for connector fsrc because it doesn't support external modification of offsets",
        ),
        ("alter_offsets", "Failed to modify offsets for source connector fsrc"),
    ],
)
def test_a_connector_that_refuses_keeps_the_offsets_as_they_are(bench, how, reported):
    bench.create(state=TargetState.STOPPED, raise_in=how)
    with pytest.raises(ConnectError) as raised:
        bench.herder.alter_connector_offsets("fsrc", [X])
    assert str(raised.value) == reported
    assert not isinstance(raised.value, BadRequestError)  # Java answers 500
    assert bench.herder.connector_offsets("fsrc") == []


def test_offsets_that_the_connector_finds_wrong_are_the_callers_mistake(bench):
    bench.create(state=TargetState.STOPPED, raise_in="alter_offsets_wrong")
    with pytest.raises(BadRequestError, match="no such file"):
        bench.herder.alter_connector_offsets("fsrc", [X])
    assert bench.herder.connector_offsets("fsrc") == []


@pytest.mark.parametrize(
    ("topic", "partition"), [("", 0), ("a\x00b", 0), ("\ud800", 0), (".", 0), ("t" * 250, 0), ("t", -1)]
)
def test_places_that_no_cluster_can_have_are_refused_before_it_is_asked(sink, topic, partition):
    sink.groups.broken = True
    with pytest.raises(BadRequestError, match=r"^Failed to alter consumer group offsets for connector snk: "):
        sink.herder.alter_connector_offsets(
            "snk", [ConnectorOffset({"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": 1})]
        )
    assert sink.journal.altered == []


def test_a_hook_that_never_returns_gives_up_and_changes_nothing():
    with herder_bench(call_s=0.2) as bench:
        bench.create(state=TargetState.STOPPED, hang_in="alter_offsets")
        with pytest.raises(TimedOutError, match="alter_offsets of connector fsrc did not return"):
            bench.herder.alter_connector_offsets("fsrc", [X])
        assert bench.offsets.entries() == {}


def test_nothing_to_alter_is_refused(stopped):
    with pytest.raises(BadRequestError, match="Partitions / offsets need to be provided for an alter offsets request"):
        stopped.herder.alter_connector_offsets("fsrc", [])


def test_nested_offsets_are_refused(stopped):
    with pytest.raises(BadRequestError, match="but field nested contains MAP"):
        stopped.herder.alter_connector_offsets("fsrc", [ConnectorOffset({"f": "x"}, {"nested": {"a": 1}})])
    assert stopped.journal.altered == []


def test_offsets_of_a_sink_are_those_of_its_group_in_order(sink):
    at = TopicPartition
    sink.groups.offsets["connect-snk"] = {at("t", 1): 5, at("t", 0): 4, at("a", 7): 1}
    assert offsets_to_json(sink.herder.connector_offsets("snk")) == {
        "offsets": [
            {"partition": {"kafka_partition": 7, "kafka_topic": "a"}, "offset": {"kafka_offset": 1}},
            {"partition": {"kafka_partition": 0, "kafka_topic": "t"}, "offset": {"kafka_offset": 4}},
            {"partition": {"kafka_partition": 1, "kafka_topic": "t"}, "offset": {"kafka_offset": 5}},
        ]
    }


def test_a_sink_may_have_a_group_of_its_own_name(bench):
    bench.create("snk", "sink", state=TargetState.STOPPED, consumer_override_group_id="mine")
    bench.groups.offsets["mine"] = {TopicPartition("t", 0): 3}
    assert len(bench.herder.connector_offsets("snk")) == 1


def golden_sink_requests():
    entries = json.loads((GOLDEN / "rest" / "transcript.json").read_text(encoding="utf-8"))["entries"]
    for entry in entries:
        if entry.get("path") != "/connectors/rsnk/offsets" or entry["method"] != "PATCH" or entry["status"] == 415:
            continue
        if entry["name"].removeprefix("snk_offs_patch_") == "null_partition":
            continue  # {"partition": null} is the REST layer's
        if "running" in entry["name"] or not json.loads(entry["request_body"]).get("offsets"):
            continue
        yield pytest.param(entry, id=entry["name"])


@pytest.mark.parametrize("entry", list(golden_sink_requests()))
def test_a_sink_answers_each_alter_as_java_did(bench, entry):
    bench.groups.topics = {"orc-t-src"}
    bench.create("rsnk", "sink", state=TargetState.STOPPED)
    offsets = offsets_from_json(json.loads(entry["request_body"]))
    answer = json.loads(entry["response_body"])["message"]
    if entry["status"] == 200:
        assert bench.herder.alter_connector_offsets("rsnk", offsets) == answer
        return
    if entry["name"].endswith(("out_of_range", "negative_partition")):
        bench.groups.topics = set()  # the broker's refusal
    with pytest.raises(ConnectError) as raised:
        bench.herder.alter_connector_offsets("rsnk", offsets)
    assert str(raised.value).partition(": ")[0] == answer.partition(": ")[0]
    assert isinstance(raised.value, BadRequestError)  # Java has 500 for what cannot be


def test_numbers_of_a_sink_may_be_text_and_null_removes(sink):
    sink.groups.offsets["connect-snk"] = {TopicPartition("t", 1): 5}
    sink.herder.alter_connector_offsets(
        "snk",
        [
            ConnectorOffset({"kafka_topic": "t", "kafka_partition": "0"}, {"kafka_offset": "4"}),
            ConnectorOffset({"kafka_topic": "t", "kafka_partition": 1}, None),
        ],
    )
    assert sink.groups.offsets["connect-snk"] == {TopicPartition("t", 0): 4}
    assert sink.journal.altered == [{TopicPartition("t", 0): 4, TopicPartition("t", 1): None}]


def test_reset_of_a_sink_deletes_its_group(sink):
    sink.groups.offsets["connect-snk"] = {TopicPartition("t", 0): 5}
    reported = sink.herder.reset_connector_offsets("snk")
    assert reported == "The offsets for this connector have been reset successfully"
    assert sink.groups.offsets == {}
    assert sink.journal.altered == [{TopicPartition("t", 0): None}]
    sink.herder.reset_connector_offsets("snk")  # once more is fine


def test_a_group_that_still_has_members_is_reported(sink):
    sink.groups.offsets["connect-snk"] = {TopicPartition("t", 0): 5}
    sink.groups.has_members = True
    with pytest.raises(ConnectError, match=r"Failed to alter consumer group offsets .* haven't stopped completely yet"):
        sink.herder.alter_connector_offsets(
            "snk", [ConnectorOffset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 4})]
        )
    with pytest.raises(ConnectError, match=r"Failed to reset consumer group offsets .* haven't stopped completely yet"):
        sink.herder.reset_connector_offsets("snk")
    assert sink.groups.offsets["connect-snk"] == {TopicPartition("t", 0): 5}


def test_a_broker_that_is_away_is_reported_in_javas_words(sink):
    sink.groups.broken = True
    with pytest.raises(ConnectError, match=r"^Failed to retrieve consumer group offsets for sink connector snk: no"):
        sink.herder.connector_offsets("snk")
    with pytest.raises(
        ConnectError, match=r"^Failed to list offsets prior to resetting offsets for sink connector snk: no broker$"
    ):
        sink.herder.reset_connector_offsets("snk")


def create(bench, offsets, name="fsrc", kind="source", **props):
    return bench.herder.create_with_offsets(name, config(name, kind, **props), offsets)


def test_a_connector_is_created_with_the_offsets_that_its_tasks_start_at(bench):
    info, reported = create(bench, [X, Y], knows_offsets="true")
    assert reported == "The offsets for this connector have been altered successfully"
    assert (info.name, bench.herder.connector_offsets("fsrc")) == ("fsrc", [X, Y])
    assert bench.journal.altered == [[({"f": "x"}, {"n": 1}), ({"f": "y"}, {"n": 2})]]
    assert bench.states() == ("RUNNING", ["RUNNING"])


def test_first_offsets_replace_those_of_a_former_connector_of_the_name(stopped):
    stopped.herder.alter_connector_offsets("fsrc", [X, Y])
    stopped.herder.delete_connector("fsrc")
    create(stopped, [ConnectorOffset({"f": "x"}, {"n": 7})])
    assert stopped.herder.connector_offsets("fsrc") == [ConnectorOffset({"f": "x"}, {"n": 7})]


def test_first_offsets_of_a_sink_replace_those_of_its_former_group(bench):
    bench.groups.offsets["connect-snk"] = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    create(
        bench,
        [ConnectorOffset({"kafka_topic": "t", "kafka_partition": "1"}, {"kafka_offset": 2})],
        "snk",
        "sink",
        topics="t",
    )
    assert bench.groups.offsets["connect-snk"] == {TopicPartition("t", 1): 2}


@pytest.mark.parametrize(
    ("offsets", "props"),
    [
        ([X], {"raise_in": "alter_offsets_wrong"}),
        ([X], {"raise_in": "alter_offsets"}),
        ([ConnectorOffset({"f": {}}, {"n": 1})], {}),
        ([], {}),
    ],
    ids=["wrong", "failed", "nested", "none"],
)
def test_there_is_no_connector_when_its_offsets_or_config_are_refused(bench, offsets, props):
    with pytest.raises(ConnectError):
        create(bench, offsets, **props)
    assert bench.herder.connectors() == []
    assert bench.offsets.entries() == {}


def test_offsets_of_a_connector_that_exists_stay_when_it_is_created_again(stopped):
    stopped.herder.alter_connector_offsets("fsrc", [X])
    with pytest.raises(AlreadyExistsError):
        create(stopped, [Y])
    assert stopped.herder.connector_offsets("fsrc") == [X]
