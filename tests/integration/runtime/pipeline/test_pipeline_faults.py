"""A broker that is away, tasks that are dropped without a word: nothing is lost, order holds.

A broker that is killed in mid-stream: system/worker/test_killed_in_mid_stream.py.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import Schema, SourceRecord
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TaskId
from kit.pace import ample_s, now
from kit.pipeline_host import FILE_SOURCE, SINK, SOURCE, Behaviour, PipelineHost
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


def test_without_their_broker_tasks_commit_nothing_more_and_stop_within_their_time(
    own_broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A source, a sink that has put what it has not committed, and a sink that has nothing to commit."""
    bootstrap, file = own_broker.bootstrap, tmp_path / "in.txt"
    lines, read, empty = (topic_for(request, f"-{end}") for end in ("lines", "read", "empty"))
    for topic in (lines, read, empty):
        create_topic(bootstrap, topic)
    write_lines(file, 0, 1_000)
    produce_lines(bootstrap, read, ["line 0"])
    with (
        PipelineHost(bootstrap, offset_flush_interval_ms="20", offset_flush_timeout_ms="1000") as sources,
        PipelineHost(bootstrap, offset_flush_interval_ms="60000") as sinks,
    ):
        ahead = sources.start_source("ahead", FILE_SOURCE, file=str(file), topic=lines)
        away, idle = (sinks.start_sink(topic, SINK, topics=topic) for topic in (read, empty))
        eventually(lambda: sources.offsets.of("ahead") == [{"position": 15_000}], 20, "committed")
        sinks.await_count(away, "records_put", 1)
        eventually(lambda: f"open {empty}-0" in Behaviour.calls, 20, "partition assigned")
        own_broker.stop()
        write_lines(file, 1_000, 1_000)
        sources.await_count(ahead, "records_polled", 2_000)
        stays(
            lambda: sources.offsets.of("ahead") == [{"position": 15_000}],
            0.5,
            "what is not acknowledged is not committed",
        )
        for host, spec, within_s in ((sources, ahead, 4), (sinks, away, 5), (sinks, idle, 5)):
            assert RunState.FAILED not in host.states(spec), "the task goes on without its broker"
            began = now()
            assert host.stop(spec, timeout_s=ample_s(5)) == set()
            assert now() - began < within_s, "a broker that is away must not hold up the stop"
        assert sources.offsets.of("ahead") == [{"position": 15_000}]
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
