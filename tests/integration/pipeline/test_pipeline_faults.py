"""A broker that goes away in mid-stream, tasks that are dropped without a word: nothing is lost, order holds."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import Schema, SourceRecord
from kconnect.devbroker import DevBroker
from kconnect.model import RunState, TaskId
from kit.pace import ample_s, now
from kit.pipeline_host import FILE_SINK, FILE_SOURCE, SINK, SOURCE, Behaviour, PipelineHost
from kit.topics import consume, consume_values, create_topic, end_offset, produce_lines, topic_for
from kit.waiting import eventually, stays

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def write_lines(file: Path, first: int, count: int) -> None:
    with file.open("ab") as out:
        out.write(b"".join(b"line %09d\n" % number for number in range(first, first + count)))


def numbers(values: list[bytes | None]) -> list[int]:
    return [int((value or b"").split()[1]) for value in values]


def assert_all_in_order(found: list[int], count: int) -> None:
    """Every number is there, and first sights are in order: repeats are runs sent again, never reordered."""
    assert set(found) == set(range(count)), f"{count - len(set(found))} of {count} lost"
    newest = -1
    for number in found:
        assert number <= newest + 1, f"{number} before {newest + 1}"
        newest = max(newest, number)


@pytest.mark.timeout(180)
def test_a_broker_that_restarts_in_mid_stream_loses_no_line_of_a_source(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic, file = topic_for(request), tmp_path / "in.txt"
    create_topic(own_broker.bootstrap, topic)
    done = threading.Event()
    total = 0

    def keep_writing() -> None:
        nonlocal total
        while not done.wait(0.02):
            write_lines(file, total, 2_000)
            total += 2_000

    with PipelineHost(own_broker.bootstrap) as host:
        writer = threading.Thread(target=keep_writing)
        writer.start()
        try:
            spec = host.start_source("through", FILE_SOURCE, file=str(file), topic=topic)
            host.await_count(spec, "records_written", 20_000)
            own_broker.kill()
            stays(lambda: host.states(spec) == [RunState.RUNNING], 3, "the task runs without its broker")
            own_broker.start()
            written = host.counters(spec).records_written
            host.await_count(spec, "records_written", written + 20_000, within_s=60)
        finally:
            done.set()
            writer.join(10)
        host.await_count(spec, "records_written", total, within_s=60)
        assert host.stop(spec) == set()
        assert host.states(spec) == [RunState.RUNNING, RunState.STOPPED]
        assert host.offsets.of("through") == [{"position": file.stat().st_size}]
    assert_all_in_order(
        numbers(consume_values(own_broker.bootstrap, topic, end_offset(own_broker.bootstrap, topic))), total
    )


@pytest.mark.timeout(180)
def test_a_broker_that_restarts_in_mid_stream_loses_no_record_of_a_sink(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic, out = topic_for(request), tmp_path / "out.txt"
    create_topic(own_broker.bootstrap, topic)
    produce_lines(own_broker.bootstrap, topic, (b"line %09d" % number for number in range(50_000)))
    with PipelineHost(own_broker.bootstrap) as host:
        spec = host.start_sink("down", FILE_SINK, topics=topic, file=str(out))
        host.await_count(spec, "records_put", 50_000)
        own_broker.kill()
        stays(lambda: host.states(spec) == [RunState.RUNNING], 3, "the task runs without its broker")
        own_broker.start()
        produce_lines(own_broker.bootstrap, topic, (b"line %09d" % number for number in range(50_000, 100_000)))
        # Not counted: after a lost session the records since the last commit come again.
        eventually(lambda: out.read_bytes().endswith(b"line 000099999\n"), 60, "the last record is there")
        assert host.stop(spec) == set()
        assert host.states(spec) == [RunState.RUNNING, RunState.STOPPED]
    assert_all_in_order([int(line.split()[1]) for line in out.read_bytes().splitlines()], 100_000)


def test_a_dropped_source_goes_on_at_its_last_commit_and_loses_nothing(
    broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    file, count = tmp_path / "in.txt", 0
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="20") as host:
        for _ in range(3):  # killed three times in mid-stream
            write_lines(file, count, 130_000)  # lines for each time, however far the one before it got
            count += 130_000
            spec = host.start_source("dropped", FILE_SOURCE, file=str(file), topic=topic, batch_size="2000")
            written = host.counters(spec).records_written
            host.await_count(spec, "records_written", written + 20_000)
            host.host.cancel([spec.id])
            eventually(lambda: host.host.leftovers() == 0, 10, "the cancelled task has ended")
            position = (host.offsets.of("dropped") or [None])[0]
            assert position is None or position["position"] % 15 == 0, "an offset is the end of a line"
        last = host.start_source("dropped", FILE_SOURCE, file=str(file), topic=topic)
        eventually(lambda: host.offsets.of("dropped") == [{"position": file.stat().st_size}], 30, "all committed")
        host.stop(last)
    found = numbers(consume_values(broker.bootstrap, topic, end_offset(broker.bootstrap, topic)))
    assert_all_in_order(found, count)


def test_no_offset_is_committed_beyond_what_the_broker_has(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic, file = topic_for(request), tmp_path / "in.txt"
    create_topic(own_broker.bootstrap, topic)
    write_lines(file, 0, 1_000)
    with PipelineHost(own_broker.bootstrap, offset_flush_interval_ms="20", offset_flush_timeout_ms="1000") as host:
        spec = host.start_source("ahead", FILE_SOURCE, file=str(file), topic=topic)
        eventually(lambda: host.offsets.of("ahead") == [{"position": 15_000}], 20, "committed")
        own_broker.stop()
        write_lines(file, 1_000, 1_000)
        host.await_count(spec, "records_polled", 2_000)
        stays(
            lambda: host.offsets.of("ahead") == [{"position": 15_000}], 0.5, "what is not acknowledged is not committed"
        )
        began = now()
        assert host.stop(spec, timeout_s=ample_s(5)) == set()
        assert now() - began < 4, "a broker that is away must not hold up the stop"
        assert host.offsets.of("ahead") == [{"position": 15_000}]


def test_a_sink_whose_broker_is_away_stops_within_its_time(
    own_broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(own_broker.bootstrap, topic)
    produce_lines(own_broker.bootstrap, topic, ["line 0"])
    with PipelineHost(own_broker.bootstrap) as host:
        spec = host.start_sink("away", SINK, topics=topic)
        host.await_count(spec, "records_put", 1)
        own_broker.stop()
        stays(lambda: RunState.FAILED not in host.states(spec), 0.5, "the task goes on without its broker")
        began = now()
        assert host.stop(spec, timeout_s=ample_s(5)) == set()
        assert now() - began < 5
    eventually(lambda: "kafka-consumer-end" not in [thread.name for thread in threading.enumerate()], 15, "it ends")


def test_records_of_many_partitions_are_acknowledged_exactly(broker: DevBroker, request: pytest.FixtureRequest) -> None:
    topic, count = topic_for(request), 30_000
    create_topic(broker.bootstrap, topic, partitions=6)
    left = iter(range(0, count, 100))

    def poll(task: Any) -> Any:
        first = next(left, None)
        if first is None:
            return (task.context.wait(0.01), None)[1]
        return [
            SourceRecord({"table": n % 3}, {"row": n}, topic, f"line {n}", value_schema=Schema.STRING_SCHEMA)
            for n in range(first, first + 100)
        ]

    Behaviour.poll = poll
    with PipelineHost(broker.bootstrap) as host:
        spec = host.start_source("many", SOURCE)
        host.await_count(spec, "records_written", count)
        host.stop(spec)
        assert sorted(offset["row"] for offset in host.offsets.of("many") if offset) == [
            count - 3,
            count - 2,
            count - 1,
        ]
    found = numbers([message.value() for message in consume(broker.bootstrap, topic, count)])
    assert sorted(found) == list(range(count))


def test_a_hundred_tasks_stop_within_one_common_deadline(broker: DevBroker, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.touch()
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="60000") as host:
        specs = [host.start_source(f"idle-{n}", FILE_SOURCE, file=str(file), topic="unused") for n in range(100)]
        for spec in specs:
            host.await_state(spec, RunState.RUNNING)
        began = now()
        ids: set[TaskId] = {spec.id for spec in specs}
        assert host.host.stop(ids, ample_s(10)) == set()
        assert now() - began < 5


def test_a_sink_that_has_nothing_to_commit_stops_without_its_broker(
    own_broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(own_broker.bootstrap, topic)
    with PipelineHost(own_broker.bootstrap) as host:
        spec = host.start_sink("idle", SINK, topics=topic)
        eventually(lambda: f"open {topic}-0" in Behaviour.calls, 20, "partition assigned")
        own_broker.stop()
        stays(lambda: RunState.FAILED not in host.states(spec), 0.5, "the task goes on without its broker")
        began = now()
        assert host.stop(spec, timeout_s=ample_s(5)) == set()
        assert now() - began < 5
