"""Micro bench of sinks behind JSON without schema, one process, no Kafka: ten topics as producers write them.

    python tests/bench/micro_sinks.py --rows 50000 --sinks table object-parquet object-jsonl sql

Prints one JSON object: for each sink and topic the records a second, microseconds of CPU a record in the converter, in
put() and at the end, and the share of records that came in columns, lists or one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.plain_topics import TOPICS, texts
from kconnect.testing.measure import measure_sink
from kconnect.testing.measured import Measured
from kconnect.testing.trial import InputRecord

_WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_TIMEOUT_S = 600


def _table(kind: str, folder: str) -> dict[str, str]:
    settings = {"connector.class": "TableSink", "table.format": kind, "flush.ms": "60000"}
    if kind != "iceberg":
        return settings | {"table.path": f"{folder}/table"}
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
    return settings | {f"table.catalog.{key}": value for key, value in catalog.items()}


def _objects(kind: str, folder: str) -> dict[str, str]:
    return {"connector.class": "ObjectSink", "object.url": f"file://{folder}/objects", "object.format": kind}


def _sql(folder: str) -> dict[str, str]:
    url = f"sqlite:///{folder}/rows.db"
    return {"connector.class": "SqlSink", "connection.url": url, "auto.create": "true", "auto.evolve": "true"}


SINKS: Mapping[str, Callable[[str], dict[str, str]]] = {
    **{kind: lambda folder, kind=kind: _table(kind, folder) for kind in ("parquet", "delta", "iceberg")},  # type: ignore[misc]
    **{f"object-{kind}": lambda folder, kind=kind: _objects(kind, folder) for kind in ("parquet", "jsonl", "avro")},  # type: ignore[misc]
    "sql": _sql,
}


def metrics(made: Measured) -> dict[str, Any]:
    stages = {cost.stage: round(cost.cpu_ns / 1e3 / made.records, 2) for cost in made.stages}
    forms = {cost.stage: cost.form for cost in made.stages if cost.stage in ("value.converter", "put")}
    return {"per_second": round(made.per_second), "us_cpu": stages, "forms": forms}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--sinks", nargs="*", choices=list(SINKS), default=["parquet", "object-parquet", "sql"])
    parser.add_argument("--topics", nargs="*", choices=list(TOPICS), default=list(TOPICS))
    args = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for topic in args.topics:
        records = [InputRecord(text, topic=topic) for text in texts(topic, args.rows)]
        for sink in args.sinks:
            with tempfile.TemporaryDirectory() as folder:
                config = {"name": "bench", "topics": topic, **SINKS[sink](folder)}
                made = measure_sink(config, _WORKER, records, limit=None, timeout_s=_TIMEOUT_S)
                results.setdefault(sink, {})[topic] = metrics(made)
    found = {"python": sys.version.split()[0], "load": os.getloadavg()[0], "rows": args.rows, "sinks": results}
    print(json.dumps(found, indent=2))  # noqa: T201 - its purpose
    return 0


if __name__ == "__main__":
    sys.exit(main())
