"""Spark by itself, with its own Kafka jar or `format("kconnect")`: one stream over all that is there.

The bench starts it as a program:

    python spark_alone.py '{"way": "topic-to-parquet", ...}'

It says `ready` when its session is up, starts at a line on its input, says what it did as JSON, ends with its input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ROW = "id long, user string, amount double, country string, ts long"


def main() -> int:
    spec: dict[str, Any] = json.loads(sys.argv[1])
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.jars", ",".join(spec["jars"]))
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    session.range(1).count()
    _say("ready")
    sys.stdin.readline()
    ways = {"topic-to-parquet": _topic_to_parquet, "files-to-topic": _files_to_topic, "format-lines": _format_lines}
    query = ways[spec["way"]](session, spec)
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    _say(
        json.dumps(
            {
                "rows": sum(progress["numInputRows"] for progress in done),
                "seconds": sum(progress["durationMs"]["triggerExecution"] for progress in done) / 1000,
            }
        )
    )
    sys.stdin.readline()
    session.stop()
    return 0


def _topic_to_parquet(session: Any, spec: dict[str, Any]) -> Any:
    from pyspark.sql import functions

    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", spec["bootstrap"])
        .option("subscribe", spec["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    value = functions.from_json(functions.col("value").cast("string"), ROW)
    return _started(records.select(value.alias("v")).select("v.*"), "parquet", spec, path=spec["path"])


def _files_to_topic(session: Any, spec: dict[str, Any]) -> Any:
    from pyspark.sql import functions

    rows = session.readStream.schema(ROW).parquet(spec["path"])
    texts = rows.select(functions.to_json(functions.struct("*")).alias("value"))
    return _started(texts, "kafka", spec, topic=spec["topic"], **{"kafka.bootstrap.servers": spec["bootstrap"]})


def _format_lines(session: Any, spec: dict[str, Any]) -> Any:
    import kconnect.spark

    kconnect.spark.register(session)
    lines = session.readStream.format("kconnect").option("connector.class", "FileStreamSource")
    return _started(lines.option("file", spec["path"]).option("topic", "lines").load(), "noop", spec)


def _started(frame: Any, sink: str, spec: dict[str, Any], **options: str) -> Any:
    writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", spec["checkpoint"])
    return writer.trigger(availableNow=True).start()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
