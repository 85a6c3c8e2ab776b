"""What stages cost, measured on real connectors: what is counted, not how long it took."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from kconnect.errors import ConnectError
from kconnect.runtime.pipeline.stages import StageError
from kconnect.testing import measure
from kconnect.testing.measure import Meter, measure_sink, measure_source
from kconnect.testing.measured import BETWEEN, Measured, StageCost
from kconnect.testing.trial import InputRecord

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
HOIST = {
    "transforms": "hoist",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
}


def lines(path: Path, count: int) -> Path:
    path.write_text("".join(f"line {number}\n" for number in range(count)))
    return path


def source(tmp_path: Path, count: int, **more: str) -> dict[str, str]:
    file = lines(tmp_path / "in.txt", count)
    return {"name": "s", "connector.class": "FileStreamSource", "file": str(file), "topic": "t", **JSON, **more}


def test_a_source_is_measured_to_its_end_stage_by_stage(tmp_path: Path) -> None:
    measured = measure_source(source(tmp_path, 30_000, **HOIST), {}, limit=None, timeout_s=60)
    costs = {cost.stage: cost for cost in measured.stages}
    assert (measured.records, measured.kept) == (30_000, 30_000)
    assert list(costs) == ["poll", "key.converter", "value.converter", "transforms.hoist", BETWEEN]
    for stage in ("poll", "value.converter", "transforms.hoist"):
        assert (costs[stage].by_columns, costs[stage].by_records) == (30_000, 0)
        assert costs[stage].wall_ns > 0
    assert costs["transforms.hoist"].plugin == "HoistFieldValue"
    assert sum(measured.share(cost) for cost in measured.stages) == pytest.approx(1)
    assert measured.per_second * measured.wall_us == pytest.approx(1e6)


def test_waiting_at_the_end_of_a_source_is_not_its_cost(tmp_path: Path) -> None:
    measured = measure_source(source(tmp_path, 1_000), {}, limit=None, timeout_s=60)
    (polls,) = [cost for cost in measured.stages if cost.stage == "poll"]
    assert polls.calls == 1, "what came behind the only poll with records is left out"


def test_a_limit_ends_a_source_that_goes_on(tmp_path: Path) -> None:
    measured = measure_source(source(tmp_path, 300_000), {}, limit=1_000, timeout_s=60)
    assert 1_000 <= measured.records < 300_000


def test_records_of_a_sink_are_put_until_the_limit_and_what_is_dropped_is_not_counted_as_kept(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    config = {
        "name": "s",
        "connector.class": "FileStreamSink",
        "topics": "t",
        "file": str(file),
        **JSON,
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "null",
        "predicates": "null",
        "predicates.null.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    given = [InputRecord(b"1"), InputRecord(None), InputRecord(b"2"), InputRecord(b"3", partition=1)]
    measured = measure_sink(config, {}, given, limit=1_002, timeout_s=60)
    written = file.read_text().splitlines()
    assert (measured.records, measured.kept) == (1_002, len(written))
    assert 1_002 - len(written) == pytest.approx(1_002 / 4, abs=1)
    assert {cost.stage for cost in measured.stages} >= {"value.converter", "transforms.drop", "put", "flush"}


def test_without_a_limit_the_input_is_put_once(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    config = {"name": "s", "connector.class": "FileStreamSink", "topics": "t", "file": str(file), **JSON}
    assert measure_sink(config, {}, [InputRecord(b"7")] * 3, limit=None, timeout_s=60).records == 3
    assert file.read_text() == "7\n7\n7\n"


def test_what_fails_names_the_plugin_and_the_record(tmp_path: Path) -> None:
    config = {
        "name": "s",
        "connector.class": "FileStreamSink",
        "topics": "t",
        "file": str(tmp_path / "out.txt"),
        **JSON,
    }
    with pytest.raises(StageError, match=r"partition 0, offset 1 failed in VALUE_CONVERTER of JsonConverter"):
        measure_sink(config, {}, [InputRecord(b"1"), InputRecord(b"no JSON")], limit=None, timeout_s=60)


def test_nothing_to_measure_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="There was no record to measure"):
        measure_source(source(tmp_path, 0), {}, limit=None, timeout_s=0.3)


def test_what_measuring_takes_is_not_the_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a microsecond with each look at it, and with what the stage does."""
    now_ns = [0]

    def look() -> int:
        now_ns[0] += 1_000
        return now_ns[0]

    def work() -> None:
        now_ns[0] += 5_000

    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter_ns=look, process_time_ns=lambda: 0))
    meter = Meter()
    cost, between = meter.of("stage"), meter.of(BETWEEN)
    stage = meter.timed(cost, work)
    with meter.between(between):
        for _ in range(100):
            stage()
    assert cost.by_records == 100
    assert cost.wall_ns == pytest.approx(100 * 5_000, rel=0.001)
    assert between.wall_ns <= 2_000, "two looks of its own"


def measured(*stages: StageCost, is_busy: bool = False) -> Measured:
    return Measured(1_000, 1_000, stages, 0.0, is_busy)


def test_on_a_busy_machine_waits_are_no_advice() -> None:
    cost = StageCost("poll", calls=2, by_columns=1_000, wall_ns=90, cpu_ns=9)
    assert measured(cost, is_busy=True).advice == ["poll takes 100% of the time, in columns."]


@pytest.mark.parametrize(
    ("cost", "reported"),
    [
        (StageCost("poll", calls=2, by_records=1_000, wall_ns=90, cpu_ns=9), "waits in 90% of it"),
        (StageCost("poll", calls=500, by_records=1_000, wall_ns=90, cpu_ns=90), "with 2 records a call"),
        (StageCost("poll", calls=1_000, by_records=1_000, wall_ns=90, cpu_ns=90), "with 1 record a call"),
        (StageCost("put", calls=2, by_records=1_000, wall_ns=90, cpu_ns=90), "put_batch()"),
        (StageCost("transforms.x", calls=2, by_records=1_000, wall_ns=90, cpu_ns=90), "apply_batch()"),
        (StageCost("value.converter", calls=2, by_columns=1_000, wall_ns=90, cpu_ns=90), "in columns."),
        (StageCost("flush", calls=1, wall_ns=90, cpu_ns=90), "offset.flush.interval.ms"),
    ],
)
def test_the_advice_names_the_stage_that_takes_most(cost: StageCost, reported: str) -> None:
    small = StageCost("header.converter", calls=2, by_records=1_000, wall_ns=10, cpu_ns=10)
    (sentence,) = measured(small, cost).advice
    assert sentence.startswith(f"{cost.stage} takes 90% of the time")
    assert reported in sentence


def test_json_that_no_column_holds_is_measured_in_lists(tmp_path: Path) -> None:
    config = {
        "name": "s",
        "connector.class": "FileStreamSink",
        "topics": "t",
        "file": str(tmp_path / "out.txt"),
        **JSON,
        "transforms": "sql",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT *, upper(name) AS loud FROM records",
    }
    given = [InputRecord(b'{"name": "a", "price": 1}'), InputRecord(b'{"name": "b", "price": "none"}')]
    measured = measure_sink(config, {}, given, limit=1_000, timeout_s=60)
    forms = {cost.stage: cost.form for cost in measured.stages}
    assert (forms["value.converter"], forms["transforms.sql"]) == ("lists", "lists")
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 1_000


def test_a_sink_that_keeps_offsets_with_its_data_keeps_none_of_a_measurement(tmp_path: Path) -> None:
    config = {
        "name": "orders",
        "connector.class": "SqlSink",
        "topics": "t",
        "connection.driver": "sqlite3",
        "connection.url": str(tmp_path / "orders.db"),
        "auto.create": "true",
        "delivery.guarantee": "exactly_once",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
    }
    schema = '{"type": "struct", "fields": [{"field": "id", "type": "int64"}]}'
    record = InputRecord(f'{{"schema": {schema}, "payload": {{"id": 1}}}}'.encode())
    for _ in range(2):
        measure_sink(config, {}, [record], limit=100, timeout_s=60)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as database:
        assert database.execute("select count(*) from t").fetchone() == (200,)
