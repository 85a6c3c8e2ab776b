"""The source loop on a real broker: order, offsets, hooks, refused records, failures of the plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectHeaders, Schema, SourceRecord
from kconnect.errors import ConnectError, RetriableError
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TargetState
from kit.pace import ample_s, now
from kit.pipeline_host import FILE_SOURCE, MOVING_SOURCE, RECORD_SOURCE, SOURCE, Behaviour, PipelineHost
from kit.topics import consume, consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually, stays

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def record(topic: str, number: int, value: Any = None, **more: Any) -> SourceRecord:
    return SourceRecord(
        {"table": "a"}, {"row": number}, topic, f"v{number}" if value is None else value,
        value_schema=Schema.STRING_SCHEMA, **more,
    )  # fmt: skip


def once(*polls: Any) -> Any:
    """A poll that gives each of these, then nothing."""
    left = list(polls)

    def poll(task: Any) -> Any:
        if left:
            given = left.pop(0)
            if isinstance(given, BaseException):
                raise given
            return given
        task.context.wait(0.01)
        return None

    return poll


def test_lines_of_a_file_arrive_in_order_and_the_offset_is_the_byte_behind_the_last(
    broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    lines = [f"line {number}".encode() for number in range(50_000)]
    file = tmp_path / "in.txt"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("lines", FILE_SOURCE, file=str(file), topic=topic)
        host.await_count(spec, "records_written", len(lines))
        with file.open("ab") as out:
            out.write(b"one more\n")
        host.await_count(spec, "records_written", len(lines) + 1)
        assert host.stop(spec) == set()
        assert host.states(spec) == [RunState.RUNNING, RunState.STOPPED]
        assert host.offsets.of("lines") == [{"position": file.stat().st_size}]
    assert consume_values(broker.bootstrap, topic, len(lines) + 1) == [*lines, b"one more"]
    assert end_offset(broker.bootstrap, topic) == len(lines) + 1


def test_lines_up_to_javas_max_request_size_arrive(broker: DevBroker, topic: str, tmp_path: Path) -> None:
    # Java compares what a record takes in a request, 87 bytes more than such a line, with 1,048,576
    lines = [b"small", b"x" * 1_020_000, b"y" * 1_048_489, b"last"]
    file = tmp_path / "in.txt"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("long", FILE_SOURCE, file=str(file), topic=topic)
        host.await_count(spec, "records_written", len(lines))
        with file.open("ab") as out:
            out.write(b"z" * 1_048_490 + b"\n")
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        assert "producer.override.max.request.size" in host.trace(spec)
    assert consume_values(broker.bootstrap, topic, len(lines)) == lines


def test_overrides_that_the_policy_forbids_by_now_fail_the_task(broker: DevBroker, topic: str) -> None:
    Behaviour.poll = once([record(topic, 1)])
    with PipelineHost(broker.bootstrap, connector_client_config_override_policy="None") as host:
        spec = host.start_source("forbidden", SOURCE, **{"producer.override.linger.ms": "5"})
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        assert "Client Config Overrides not allowed: producer.override.linger.ms. The 'None' policy" in host.trace(spec)
        host.start_source("allowed", SOURCE, **{"consumer.override.client.id": "of no client"})
        assert consume_values(broker.bootstrap, topic, 1) == [b"v1"]


def test_offsets_are_committed_while_poll_sits_and_waits(broker: DevBroker, topic: str) -> None:
    polls = once([record(topic, 1)])

    def poll(task: Any) -> Any:
        return polls(task) or task.context.wait(20) or None

    Behaviour.poll = poll
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("sitting", SOURCE)
        eventually(lambda: host.offsets.of("sitting") == [{"row": 1}], 10, "offset committed")
        began = now()
        assert host.stop(spec) == set()
        assert now() - began < 10, "the wait of an idle poll must end with the stop"


def test_a_source_without_records_moves_its_offset_and_goes_on_there(broker: DevBroker) -> None:
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("moving", MOVING_SOURCE)
        eventually(lambda: host.offsets.of("moving") and host.offsets.of("moving")[0]["row"] > 5, 10, "offset moved")
        assert host.stop(spec) == set()
        (last,) = host.offsets.of("moving")
        assert last == {"row": Behaviour.tasks[0].row}
        spec = host.start_source("moving", MOVING_SOURCE)
        eventually(lambda: host.offsets.of("moving")[0]["row"] > last["row"], 10, "offset moved on")
        assert host.stop(spec) == set()
        assert Behaviour.tasks[1].first == last["row"]


def test_a_topic_that_is_not_there_is_created_by_the_broker(broker: DevBroker, request: pytest.FixtureRequest) -> None:
    topic = topic_for(request)
    Behaviour.poll = once([record(topic, 1)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("creates", SOURCE)
        host.await_count(spec, "records_written", 1)
    assert consume_values(broker.bootstrap, topic, 1) == [b"v1"]


def test_records_keep_key_partition_timestamp_and_headers(broker: DevBroker, request: pytest.FixtureRequest) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=3)
    headers = ConnectHeaders()
    headers.add("h", "x", Schema.STRING_SCHEMA)
    Behaviour.poll = once(
        [
            record(topic, 1, kafka_partition=2, key="k", key_schema=Schema.STRING_SCHEMA, timestamp=1_000),
            record(topic, 2, kafka_partition=2, headers=headers),
        ]
    )
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("shapes", SOURCE)
        host.await_count(spec, "records_written", 2)
    first, second = consume(broker.bootstrap, topic, 2)
    assert (first.partition(), first.key(), first.timestamp()[1], first.headers()) == (2, b"k", 1_000, None)
    assert (second.partition(), second.key(), second.headers()) == (2, None, [("h", b"x")])


def test_equal_keys_go_to_the_partition_java_would_choose(broker: DevBroker, request: pytest.FixtureRequest) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=10)
    keys = [f"key-{number}" for number in range(20)]
    Behaviour.poll = once([record(topic, n, key=key, key_schema=Schema.STRING_SCHEMA) for n, key in enumerate(keys)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("keyed", SOURCE)
        host.await_count(spec, "records_written", len(keys))
    found = {message.key(): message.partition() for message in consume(broker.bootstrap, topic, len(keys))}
    assert found == {key.encode(): murmur2_partition(key.encode(), 10) for key in keys}


def test_a_failed_commit_of_offsets_is_made_up_for_by_the_next(broker: DevBroker, topic: str) -> None:
    Behaviour.poll = once([record(topic, 1)])
    with PipelineHost(broker.bootstrap) as host:
        host.offsets.fail_with = ConnectError("no disk")
        spec = host.start_source("again", SOURCE)
        eventually(lambda: host.counters(spec).commit_failures > 1, 10, "commits fail")
        assert host.states(spec) == [RunState.RUNNING]
        assert "commit" not in Behaviour.calls
        host.offsets.fail_with = None
        eventually(lambda: host.offsets.of("again") == [{"row": 1}], 10, "offset committed")
        eventually(lambda: "commit" in Behaviour.calls, 10, "the task hears of it")


def _started_until_it_fails(host: PipelineHost, name: str, file: Path, topic: str, **more: Any) -> str:
    """The first line of its trace."""
    spec = host.start_source(name, FILE_SOURCE, file=str(file), topic=topic, **more)
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
    return host.trace(spec).splitlines()[0]


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize(("most_bytes", "failures"), [(20_000, 1), (1_000, 2)])
def test_records_that_are_too_large_together_are_sent_apart_and_none_is_passed_over(
    broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path, most_bytes: int, failures: int, tolerance: str
) -> None:
    topic, name = topic_for(request), f"apart-{most_bytes}-{tolerance}"
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": str(most_bytes)})
    lines = [b"%d" % number + b"x" * 600 for number in range(200)]
    file = tmp_path / "in.txt"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with PipelineHost(broker.bootstrap) as host:
        for _ in range(failures):
            reported = _started_until_it_fails(host, name, file, topic, **{"errors.tolerance": tolerance})
            assert f"failed: A batch of records could not be written to topic '{topic}', partition 0" in reported
            assert "Once restarted, the task sends smaller batches" in reported
        spec = host.start_source(name, FILE_SOURCE, file=str(file), topic=topic, **{"errors.tolerance": tolerance})
        host.await_count(spec, "records_written", len(lines))
        assert host.stop(spec) == set()
        assert host.offsets.of(name) == [{"position": file.stat().st_size}]
    assert consume_values(broker.bootstrap, topic, len(lines)) == lines
    assert end_offset(broker.bootstrap, topic) == len(lines)


def test_a_record_the_broker_refuses_fails_the_task_with_its_place(
    broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": "20000"})
    file = tmp_path / "in.txt"
    file.write_bytes(b"first\n" + b"x" * 30_000 + b"\nlast\n")
    with PipelineHost(broker.bootstrap) as host:
        assert "A batch of records" in _started_until_it_fails(host, "toolarge", file, topic)
        reported = _started_until_it_fails(host, "toolarge", file, topic)  # it goes alone from then on
        refused = "Task toolarge-0 failed: A record of 30,000 bytes without a key could not be written to topic"
        assert reported.startswith(f"{refused} '{topic}', partition 0: ")
        assert host.offsets.of("toolarge") in ([], [{"position": 6}]), "no offset behind the refused record"


def test_a_refused_record_is_skipped_with_tolerance_all(broker: DevBroker, request: pytest.FixtureRequest) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, config={"max.message.bytes": "1000"})
    Behaviour.poll = once([record(topic, 1)], [record(topic, 2, "x" * 5_000)], [record(topic, 3)])
    with PipelineHost(broker.bootstrap, producer_linger_ms="0", producer_batch_size="500") as host:
        host.start_source("skips", SOURCE, errors_tolerance="all")
        eventually(lambda: host.offsets.of("skips") == [{"row": 3}], 20, "offset behind the skipped record")
    assert b"v1" in consume_values(broker.bootstrap, topic, end_offset(broker.bootstrap, topic))


def test_a_record_larger_than_the_client_takes_fails_the_task(broker: DevBroker, topic: str) -> None:
    Behaviour.poll = once([record(topic, 1), record(topic, 2, "x" * 3_000_000)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("huge", SOURCE)
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        assert "Message size too large" in host.trace(spec).splitlines()[0]
        assert host.offsets.of("huge") == []


def test_a_transform_that_fails_commits_what_came_before_and_no_more(broker: DevBroker, topic: str) -> None:
    good = [record(topic, number) for number in (1, 2)]
    wrong = SourceRecord({"table": "a"}, {"row": 3}, topic, "text", value_schema=Schema.STRING_SCHEMA)
    later = record(topic, 4)
    Behaviour.poll = once([*good, wrong, later])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(
            "halfway", SOURCE, transforms="t", transforms_t_type="kit.failing_transform:FailsOnText"
        )
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        assert host.offsets.of("halfway") == [{"row": 2}]
        assert "reported to fail on text" in host.trace(spec).splitlines()[0]
    assert consume_values(broker.bootstrap, topic, 2) == [b"v1", b"v2"]
    assert end_offset(broker.bootstrap, topic) == 2


def test_records_dropped_by_a_transform_move_the_offset_on(broker: DevBroker, topic: str) -> None:
    texts = [record(topic, number, "drop") for number in (1, 2)]
    Behaviour.poll = once(texts)
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("drops", SOURCE, transforms="t", transforms_t_type="kit.failing_transform:DropsText")
        eventually(lambda: host.offsets.of("drops") == [{"row": 2}], 10, "offset of dropped records")
        assert host.counters(spec).records_dropped == 2
    assert end_offset(broker.bootstrap, topic) == 0


def test_commit_record_is_called_for_each_record_in_order_with_its_place(broker: DevBroker, topic: str) -> None:
    Behaviour.poll = once([record(topic, 1), record(topic, 2, "drop"), record(topic, 3)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source(
            "reported", RECORD_SOURCE, transforms="t", transforms_t_type="kit.failing_transform:DropsText"
        )
        eventually(lambda: host.offsets.of("reported") == [{"row": 3}], 10, "committed")
        host.stop(spec)
    reported = [call for call in Behaviour.calls if call.startswith("commit_record")]
    assert sorted(reported) == ["commit_record drop dropped", "commit_record v1 0@0", "commit_record v3 0@1"]
    assert reported.index("commit_record v1 0@0") < reported.index("commit_record v3 0@1")


def test_a_retriable_error_in_poll_is_tried_again(broker: DevBroker, topic: str) -> None:
    Behaviour.poll = once(RetriableError("not yet"), [record(topic, 1)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("retries", SOURCE)
        host.await_count(spec, "records_written", 1)
        assert host.states(spec) == [RunState.RUNNING]


@pytest.mark.parametrize("method", ["start", "poll", "stop"])
def test_a_plugin_that_raises_fails_its_task_with_the_trace_and_no_other(
    broker: DevBroker, topic: str, tmp_path: Path, method: str
) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"first\n")
    with PipelineHost(broker.bootstrap) as host:
        neighbour = host.start_source("neighbour", FILE_SOURCE, file=str(file), topic=topic)
        host.await_count(neighbour, "records_written", 1)
        Behaviour.raise_in = method
        spec = host.start_source("bad", SOURCE)
        if method == "stop":
            host.await_state(spec, RunState.RUNNING)
            host.stop(spec)
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "FAILED", pause_s=0.01)
        trace = host.trace(spec)
        assert f"ScriptedSourceTask.{method}() raised ValueError: reported to fail in {method}" in trace.splitlines()[0]
        assert "Traceback (most recent call last)" in trace
        with file.open("ab") as out:
            out.write(b"second\n")
        host.await_count(neighbour, "records_written", 2)


@pytest.mark.parametrize("method", ["poll", "stop"])
def test_a_plugin_that_never_returns_is_left_behind_and_fenced_off(broker: DevBroker, topic: str, method: str) -> None:
    Behaviour.poll = once([record(topic, 1)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("hangs", SOURCE)
        host.await_count(spec, "records_written", 1)
        eventually(lambda: host.offsets.of("hangs") == [{"row": 1}], 10, "committed")
        Behaviour.hang_in = method
        if method == "poll":
            assert Behaviour.is_hanging.wait(ample_s(10))
            Behaviour.poll = lambda task: [record(topic, 2)]
        began = now()
        assert host.stop(spec, timeout_s=0.5) == {spec.id}
        assert now() - began < 5, "half a second is what stop was given"
        assert host.host.leftovers() == 1
        written = end_offset(broker.bootstrap, topic)
        reported = len(host.reports)
        Behaviour.release()
        eventually(lambda: host.host.leftovers() == 0, 10, "the leftover ends when its plugin returns")
        assert len(host.reports) == reported, "a task left behind reports nothing more"
        if method == "poll":
            assert end_offset(broker.bootstrap, topic) == written, "nor does it produce"
            assert host.offsets.of("hangs") == [{"row": 1}], "nor commit"


def test_a_task_that_starts_paused_builds_nothing_until_it_is_resumed(broker: DevBroker, topic: str) -> None:
    Behaviour.poll = once([record(topic, 1)])
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("sleeper", SOURCE, target=TargetState.PAUSED)
        host.await_state(spec, RunState.PAUSED)
        assert Behaviour.calls == []
        host.host.set_target_state([spec.id], TargetState.STARTED)
        host.await_count(spec, "records_written", 1)
        assert host.states(spec) == [RunState.PAUSED, RunState.RUNNING]


def test_a_paused_task_does_not_poll_and_goes_on_when_resumed(broker: DevBroker, topic: str) -> None:
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("pauses", SOURCE)
        host.await_state(spec, RunState.RUNNING)
        host.host.set_target_state([spec.id], TargetState.PAUSED)
        host.await_state(spec, RunState.PAUSED)
        polls = Behaviour.calls.count("poll")
        stays(lambda: Behaviour.calls.count("poll") == polls, 0.2, "a paused task is not polled")
        Behaviour.poll = once([record(topic, 1)])
        host.host.set_target_state([spec.id], TargetState.STARTED)
        host.await_count(spec, "records_written", 1)
        assert host.states(spec) == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING]


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Java's default partitioner, written from Kafka's documented hash (murmur2, seed 0x9747b28c)."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    whole = len(key) // 4
    for index in range(whole):
        k = int.from_bytes(key[index * 4 : index * 4 + 4], "little")
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
    rest = key[whole * 4 :]
    if len(rest) > 2:
        h ^= rest[2] << 16
    if len(rest) > 1:
        h ^= rest[1] << 8
    if rest:
        h ^= rest[0]
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    h ^= h >> 15
    return (h & 0x7FFFFFFF) % partitions
