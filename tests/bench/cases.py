"""What is measured: each case runs one worker, or one cluster, once and gives its metrics."""

from __future__ import annotations

from collections.abc import Callable

from bench import (
    avro,
    clusters,
    commands,
    console,
    databases,
    isolation,
    java_plugins,
    java_sources,
    moving,
    queries,
    scale,
    starting,
    tables,
    waiting,
)
from bench.ground import Ground, Metrics

__all__ = ["BESIDE_SPARK", "CASES", "NEEDS", "ONLY_OURS"]

CASES: dict[str, Callable[[str, Ground], Metrics]] = {
    "file-to-topic": moving.file_to_topic,
    "beside-kcat": moving.beside_kcat,
    "json-schemas": moving.json_schemas,
    "json-schemaless": moving.json_schemaless,
    **{name: moving.transformation(name) for name in moving.FAMILIES},
    "python-source": moving.python_source,
    "two-sources": moving.two_sources,
    "topic-to-file": moving.topic_to_file,
    "java-file": moving.java_file,
    "java-file-2": moving.java_file_2,
    "java-json": moving.java_json,
    "java-sink": moving.java_sink,
    "java-debezium-snapshot": java_sources.java_debezium_snapshot,
    "java-debezium-stream": java_sources.java_debezium_stream,
    "java-mirror": java_sources.java_mirror,
    "java-first-task": java_plugins.java_first_task,
    "java-idle-20": java_plugins.java_idle_20,
    "avro-write": avro.avro_write,
    "avro-lines": avro.avro_lines,
    "avro-read": avro.avro_read,
    "dlq-idle": moving.dlq_idle,
    "cold-start": waiting.cold_start,
    "start-steps": waiting.start_steps,
    "latency": waiting.latency,
    "isolation": isolation.isolation,
    "idle-100": waiting.idle_100,
    "idle-1000": waiting.idle_1000,
    "console-1000": console.console_1000,
    "config-start": starting.config_start,
    "commands": commands.commands,
    "cluster-up": clusters.cluster_up,
    "cluster-creates": clusters.cluster_creates,
    "cluster-join": clusters.cluster_join,
    "cluster-list": clusters.cluster_list,
    "table-parquet": tables.table_parquet,
    "table-delta": tables.table_delta,
    "table-plain-topics": tables.table_plain_topics,
    "table-sql": tables.table_sql,
    "table-query": queries.table_query,
    "table-latency": tables.table_latency,
    "spark-source": queries.spark_source,
    "query-latency": queries.query_latency,
    "format-lines": queries.format_lines,
    "sql-source": databases.sql_source,
    "sql-bulk": databases.sql_bulk,
    "sql-sink": databases.sql_sink,
    **scale.CASES,
}

ONLY_OURS = scale.ONLY_OURS_OF_SCALE | frozenset(
    {
        "beside-kcat",
        "isolation",
        "python-source",
        "two-sources",
        "cluster-list",
        "console-1000",
        "sql",
        "without-sql",
        "start-steps",
        "avro-write",
        "avro-lines",
        "avro-read",
        "table-latency",
        "table-plain-topics",
        "table-sql",
        "query-latency",
        "format-lines",
        "sql-source",
        "sql-bulk",
    }
)
"""Cases that Java Connect cannot run, or takes ten minutes for; Java's AvroConverter is not on Maven Central."""

BESIDE_SPARK = frozenset({"table-parquet", "table-delta", "table-query", "spark-source"})
"""Cases that have Spark, as it comes, as the other side."""

NEEDS = {"beside-kcat": ("kcat", "Debian and Ubuntu have it: apt install kcat")}
"""Programs that a case needs beyond what `make` brings, and where they come from: without them it is left out."""
