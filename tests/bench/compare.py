"""The table of a bench run: medians, spread, and how we compare with Java, or Spark; or with an older run of ours.

python tests/bench/compare.py                 the newest results
python tests/bench/compare.py FILE            these results
python tests/bench/compare.py FILE --against OLD   ours in FILE beside ours in OLD
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["metrics_of", "table"]

_RESULTS = Path(__file__).resolve().parent.parent.parent / "bench-results"
# metric -> (title, format, whether more is better)
_METRICS = {
    "records_per_s": ("records/s", "{:,.0f}", True),
    "one_per_s": ("records/s of one source alone", "{:,.0f}", True),
    "kcat_per_s": ("records/s of kcat", "{:,.0f}", True),
    "times_kcat": ("ours / kcat", "{:.2f}", True),
    "times_one": ("two sources / one", "{:.2f}", True),
    "rate_to_without": ("records/s / without queue", "{:.3f}", True),
    "cpu_to_without": ("CPU us/record / without queue", "{:.3f}", False),
    "cpu_us_per_record": ("CPU us/record", "{:.2f}", False),
    "kcat_cpu_us": ("CPU us/record of kcat", "{:.2f}", False),
    "first_record_s": ("first record after s", "{:.2f}", False),
    "jvm_launched_s": ("Spark's JVM is launched after s", "{:.2f}", False),
    "code_loaded_s": ("the worker's code is loaded after s", "{:.2f}", False),
    "jvm_answers_s": ("Spark's JVM answers after s", "{:.2f}", False),
    "rest_answers_s": ("REST answers after s", "{:.2f}", False),
    "context_s": ("Spark's context is there after s", "{:.2f}", False),
    "slot_forked_s": ("the first slot is forked after s", "{:.2f}", False),
    "task_runs_s": ("the task is RUNNING after s", "{:.2f}", False),
    "total_s": ("start to last record, s", "{:.1f}", False),
    "cpu_s": ("CPU s until first record", "{:.1f}", False),
    "pss_mb": ("memory (PSS) MB", "{:,.0f}", False),
    "p50_ms": ("append to topic, ms, p50", "{:.1f}", False),
    "p99_ms": ("append to topic, ms, p99", "{:.1f}", False),
    "alone_p50_ms": ("append to topic, ten sources, ms, p50", "{:.1f}", False),
    "alone_p99_ms": ("append to topic, ten sources, ms, p99", "{:.1f}", False),
    "shared_p50_ms": ("the same beside one that eats a core, p50", "{:.1f}", False),
    "shared_p99_ms": ("the same beside one that eats a core, p99", "{:.1f}", False),
    "shared_times_alone": ("p99 beside it / by themselves", "{:.2f}", False),
    "own_p50_ms": ("the same with a slot of its own for that one, p50", "{:.1f}", False),
    "own_p99_ms": ("the same with a slot of its own for that one, p99", "{:.1f}", False),
    "own_times_alone": ("p99 with a slot of its own / by themselves", "{:.2f}", False),
    "most_ms": ("append to topic, ms, most", "{:.1f}", False),
    "running_s": ("all RUNNING after s", "{:.1f}", False),
    "cpu_percent": ("CPU, % of a core", "{:.1f}", False),
    "list_ms": ("list with statuses and configs, ms", "{:,.0f}", False),
    "stop_s": ("stopped after s", "{:.1f}", False),
    "ready_s": ("ready on 100,000 config records, s", "{:.2f}", False),
    "ready_empty_s": ("ready on an empty config topic, s", "{:.2f}", False),
    "store_start_s": ("of that the config store's start, s", "{:.2f}", False),
    "help_ms": ("`connect --help`, ms", "{:,.0f}", False),
    "connectors_list_ms": ("`connectors list`, ms", "{:,.0f}", False),
    "connectors_show_ms": ("`connectors show`, ms", "{:,.0f}", False),
    "config_get_ms": ("`config get`, ms", "{:,.0f}", False),
    "offsets_show_ms": ("`offsets show`, ms", "{:,.0f}", False),
    "pause_ms": ("`connectors pause`, ms", "{:,.0f}", False),
    "up_s": ("three workers up and in the group, s", "{:.2f}", False),
    "up_cpu_s": ("CPU s of the three until then", "{:.1f}", False),
    "creates_per_s": ("connectors created a second", "{:.1f}", True),
    "conflicts": ("creates answered with 409", "{:,.0f}", False),
    "create_cpu_ms": ("CPU ms a connector, of all workers", "{:.0f}", False),
    "settled_s": ("all RUNNING after the last create, s", "{:.2f}", False),
    "worker_pss_mb": ("memory (PSS) of a worker, MB", "{:,.0f}", False),
    "moved_on_s": ("all RUNNING elsewhere after kill -9, s", "{:.1f}", False),
    "moved": ("tasks that move", "{:,.0f}", False),
    "gap_ms": ("longest gap of tasks that stay, ms", "{:,.0f}", False),
    "rebalance_gap_ms": ("the same while tasks move, ms", "{:,.0f}", False),
    "quiet_gap_ms": ("the same while nobody joins, ms", "{:,.0f}", False),
    "moved_gap_ms": ("longest gap of tasks that move, ms", "{:,.0f}", False),
    "avro_us": ("CPU us/record, columns", "{:.2f}", False),
    "serializer_us": ("CPU us/record, confluent-kafka's AvroSerializer or AvroDeserializer", "{:.2f}", False),
    "json_us": ("CPU us/record, JsonConverter", "{:.2f}", False),
    "times_serializer": ("columns, times as fast as confluent-kafka", "{:.1f}", True),
    "times_json": ("columns, times as fast as JsonConverter", "{:.2f}", True),
    "alone_cpu_percent": ("CPU of the worker while nobody looks, % of a core", "{:.1f}", False),
    "watched_cpu_percent": ("the same while twenty browsers poll", "{:.1f}", False),
    "console_cpu_percent": ("of that the console, % of a core", "{:.1f}", False),
    "first_paint_ms": ("first paint of 1,000 connectors, ms", "{:,.0f}", False),
    "parquet_p50_ms": ("row readable in Parquet files, ms above flush.ms, p50", "{:.1f}", False),
    "parquet_p99_ms": ("row readable in Parquet files, ms above flush.ms, p99", "{:.1f}", False),
    "delta_p50_ms": ("row readable in Delta Lake, ms above flush.ms, p50", "{:.1f}", False),
    "delta_p99_ms": ("row readable in Delta Lake, ms above flush.ms, p99", "{:.1f}", False),
    "row_p50_ms": ("row readable, ms, p50", "{:,.0f}", False),
    "row_p99_ms": ("row readable, ms, p99", "{:,.0f}", False),
    "status_ms": ("`connect status`, ms", "{:,.0f}", False),
    "decide_ms": ("leader decides, all new, CPU ms", "{:,.1f}", False),
    "decide_leave_ms": ("leader decides, a worker left, CPU ms", "{:,.1f}", False),
    "decide_join_ms": ("leader decides, a worker came, CPU ms", "{:,.1f}", False),
    "decide_us_a_task": ("CPU us a task, all new", "{:.1f}", False),
    "assignments_kb": ("bytes to all members, all new, kB", "{:,.0f}", False),
    "assignments_leave_kb": ("bytes to all members, a worker left, kB", "{:,.0f}", False),
    "offsets_start_s": ("1,000,000 offsets read, s", "{:.2f}", False),
    "offsets_cpu_s": ("of that CPU, s", "{:.2f}", False),
    "offsets_mb": ("memory for 1,000,000 offsets, MB", "{:,.0f}", False),
    "offsets_slope": ("CPU grows with offsets by the power", "{:.2f}", False),
    "show_s": ("`topics config show`, 1,000 connectors, s", "{:.2f}", False),
}


_TITLES = {"java": "Java Connect {kafka}", "spark": "Spark {pyspark}"}


def metrics_of(document: Mapping[str, Any], side: str) -> dict[tuple[str, str], list[float]]:
    """(case, metric) -> the values of all runs of one side."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in document["results"]:
        if result["side"] == side:
            for metric in _METRICS:
                if metric in result:
                    found.setdefault((result["case"], metric), []).append(result[metric])
    return found


def table(document: Mapping[str, Any], against: Mapping[str, Any] | None = None) -> str:
    """Markdown: one row for each case and metric; `median (least - most)`, and ours divided by the other."""
    sides = [side for side in _TITLES if metrics_of(document, side)] or ["java"]
    titles = " or ".join(_TITLES[side].format(**document["versions"]) for side in sides)
    other_title = titles if against is None else f"ours at {against['commit']}"
    ours = metrics_of(document, "ours")
    other = metrics_of(document, "java") | metrics_of(document, "spark")  # no case has both
    if against is not None:
        other = metrics_of(against, "ours")
    rows = [
        f"| case | metric | {other_title} | ours | ours / {'the other' if against is None else 'before'} |",
        "|---|---|---|---|---|",
    ]
    for case, metric in dict.fromkeys([*other, *ours]):
        title, form, more_is_better = _METRICS[metric]
        here, there = ours.get((case, metric), []), other.get((case, metric), [])
        divisor = statistics.median(there) if there else 0.0
        ratio = f"{statistics.median(here) / divisor:.2f}" if here and divisor else "-"
        better = " (more is better)" if more_is_better else ""
        rows.append(f"| {case} | {title}{better} | {_text(there, form)} | {_text(here, form)} | {ratio} |")
    machine, settings = document["machine"], document["settings"]
    rows += [
        "",
        f"{settings['lines']:,} lines of {settings['line_bytes']} bytes, {settings['runs']} runs, alternating; "
        f"median (least - most). {machine['cores']} cores, {machine['cpu']}, {machine['memory_gb']} GB, "
        f"commit {document['commit']}, {document['time']}.",
    ]
    return "\n".join(rows) + "\n"


def _text(values: list[float], form: str) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return form.format(values[0])
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} - {form.format(max(values))})"


def main() -> int:
    """Print the table of a results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--against", type=Path, metavar="OLD")
    options = parser.parse_args()
    file = options.file or max(_RESULTS.glob("*.json"), default=None, key=lambda path: path.name)
    if file is None:
        parser.error(f"no results in {_RESULTS}: run `make bench` first")
    against = json.loads(options.against.read_text("utf-8")) if options.against else None
    sys.stdout.write(table(json.loads(file.read_text("utf-8")), against))
    return 0


if __name__ == "__main__":
    sys.exit(main())
