"""The metrics of the bench are what they say."""

from __future__ import annotations

import pytest

from bench.compare import table
from bench.meter import Sample, cpu_us_per_record, longest_gap, longest_gap_ms, steady_rate


def test_the_steady_rate_is_that_of_the_middle_of_the_run() -> None:
    # slow first and last quarter, 1000 records/s between
    samples = [Sample(0, 0, 0), Sample(10, 250, 0), Sample(10.25, 500, 0), Sample(10.5, 750, 0), Sample(20, 1000, 0)]

    assert steady_rate(samples) == pytest.approx(1000)


def test_the_steady_rate_interpolates_between_samples() -> None:
    assert steady_rate([Sample(0, 0, 0), Sample(2, 1000, 0)]) == pytest.approx(500)


def test_cpu_counts_from_the_last_sample_without_records() -> None:
    samples = [Sample(0, 0, 1.0), Sample(1, 0, 3.0), Sample(2, 500_000, 4.0), Sample(3, 1_000_000, 5.0)]

    assert cpu_us_per_record(samples) == pytest.approx(2.0)


def test_the_longest_gap_counts_silence_at_both_ends_of_the_span() -> None:
    times_ms = [5, 100, 120, 170, 180, 400]

    assert longest_gap_ms(times_ms, 100, 200) == 50
    assert longest_gap_ms(times_ms, 50, 130) == 50
    assert longest_gap(times_ms, 175, 399) == (180, 399)
    assert longest_gap_ms(times_ms, 175, 399) == 219
    assert longest_gap_ms(times_ms, 200, 300) == 100


def test_the_table_has_medians_spread_and_ratio() -> None:
    title, _, row = written("file-to-topic", {"java": [100.0, 300.0, 200.0], "ours": [900.0, 600.0, 800.0]})

    assert title == "| case | metric | Java Connect 4.3.0 | ours | ours / the other |"
    assert row == "| file-to-topic | records/s (more is better) | 200 (100 - 300) | 800 (600 - 900) | 4.00 |"


def test_cases_beside_spark_name_it() -> None:
    title, _, row = written("table-parquet", {"spark": [100.0], "ours": [800.0]})

    assert title == "| case | metric | Spark 4.2.1 | ours | ours / the other |"
    assert row == "| table-parquet | records/s (more is better) | 100 | 800 | 8.00 |"


def written(case: str, values: dict[str, list[float]]) -> list[str]:
    """The first three lines of the table."""
    document = {
        "commit": "abc",
        "time": "now",
        "machine": {"cores": 2, "cpu": "x", "memory_gb": 4},
        "versions": {"kafka": "4.3.0", "pyspark": "4.2.1"},
        "settings": {"lines": 1000, "line_bytes": 100, "runs": 3},
        "results": [
            {"case": case, "side": side, "run": run, "records_per_s": value}
            for side, column in values.items()
            for run, value in enumerate(column)
        ],
    }

    return table(document).splitlines()[:3]
