"""format("kconnect"): connectors read, streamed and written by a real local Spark, killed and started again."""

from __future__ import annotations

import contextlib
import doctest
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kconnect.java.kafka_jars import JarSet
from kit.pace import ample_s, ended
from kit.places import DOCS
from kit.spark_session import local_session, session_settings
from kit.topics import consume, consume_values, end_offset
from kit.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


_QUICK = {
    # A hundred Python processes: each begins with its imports done
    "spark.python.daemon.module": "kconnect.spark.datasource.preload",
    # For a thousand rows the compiler takes longer than it spares
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("spark"), _QUICK) as session:
        yield session


class Items:
    """A service with numbered items, at most 50 an answer, those beyond `?after=`."""

    def __init__(self) -> None:
        self.count = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                after = int(parse_qs(urlsplit(self.path).query).get("after", ["0"])[-1])
                last = min(outer.count, after + 50)
                items = [{"id": number, "name": f"item {number}"} for number in range(after + 1, last + 1)]
                body = json.dumps(items).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.options = {
            "connector.class": "HttpJsonSource",
            "url": f"http://127.0.0.1:{self._http.server_port}/items",
            "topic": "items",
            "cursor.field": "id",
            "cursor.param": "after",
            "poll.interval.ms": "20",
            "kconnect.idle.ms": "200",
        }

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def items() -> Iterator[Items]:
    made = Items()
    yield made
    made.close()


# Read to the end so long after the last record: a source that has nothing says so at once
_SMALL = {"batch.size": "500", "kconnect.idle.ms": "200"}


class Lines:
    """A file that grows by numbered lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.options = {"connector.class": "FileStreamSource", "file": str(path), "topic": "lines", **_SMALL}

    def grow(self, by: int) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{number}\n" for number in range(self.count, self.count + by))
        self.count += by


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    made = Lines(tmp_path / "lines.txt")
    made.grow(1000)
    return made


def _read(spark: Any, options: dict[str, str], **more: str) -> Any:
    return spark.read.format("kconnect").options(**options, **more)


def test_the_notebook_of_the_documentation_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "notebook.md").read_text("utf-8").replace("```\n", "\n")
    page = doctest.DocTestParser().get_doctest(text, {}, "notebook.md", "docs/notebook.md", 0)
    said: list[str] = []

    found = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(page, out=said.append)

    assert not said, "".join(said)
    assert found.attempted > 30


def test_a_source_is_read_to_its_end_with_the_columns_of_sparks_kafka_format(spark, lines):
    found = _read(spark, lines.options).load()

    assert [(field.name, field.dataType.simpleString()) for field in found.schema] == [
        ("key", "string"),
        ("value", "string"),
        ("topic", "string"),
        ("partition", "int"),
        ("timestamp", "timestamp"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = found.select("value", "topic").collect()
    assert [(int(row.value), row.topic) for row in rows] == [(number, "lines") for number in range(1000)]


def test_transformations_predicates_and_converters_work_as_in_a_worker(spark, lines):
    found = (
        _read(spark, lines.options)
        .option("transforms", "Wrap,OnlyLines")
        .option("transforms.Wrap.type", "HoistField$Value")
        .option("transforms.Wrap.field", "number")
        .option("transforms.OnlyLines.type", "InsertHeader")
        .option("transforms.OnlyLines.header", "From")
        .option("transforms.OnlyLines.value.literal", "here")
        .option("transforms.OnlyLines.predicate", "IsLines")
        .option("predicates", "IsLines")
        .option("predicates.IsLines.type", "TopicNameMatches")
        .option("predicates.IsLines.pattern", "lin.*")
    )
    typed, as_bytes = (
        found.load(),
        found.option("value.converter", "JsonConverter").option("value.converter.schemas.enable", "false"),
    )

    assert typed.schema["value"].dataType.simpleString() == "struct<number:string>"
    row = typed.first()
    assert (row.value.number, row.headers[0].key, bytes(row.headers[0].value)) == ("0", "From", b"here")
    assert bytes(as_bytes.load().first().value) == b'{"number":"0"}'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"connector.class": "FileStreamSourse"}, "Did you mean FileStreamSource"),
        ({"topc": "x"}, "Unknown setting: topc. Did you mean topic?"),
        ({"file": "/nowhere/at/all"}, "No record came by which to see the columns"),
    ],
)
def test_wrong_options_are_refused_by_load_with_one_sentence_and_no_trace(spark, lines, change, said):
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        _read(spark, {**lines.options, "kconnect.schema.timeout.ms": "500", **change}).load()
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_record_that_fails_is_named_and_one_that_is_tolerated_is_left_out(spark, lines):
    with lines.path.open("a") as file:
        file.write("no number\n")
    cast = {"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int32"}

    with pytest.raises(Exception, match="no number") as caught:
        _read(spark, lines.options, **cast).load().count()
    assert "failed in TRANSFORMATION of CastValue" in str(caught.value)
    assert "'position'" in str(caught.value)
    tolerant = _read(spark, lines.options, **cast, **{"errors.tolerance": "all"}).load()
    assert tolerant.schema["value"].dataType.simpleString() == "int"
    assert tolerant.count() == 1000


def test_a_secret_is_in_no_plan_that_spark_shows(spark, items, tmp_path):
    items.count = 5
    secret = {"auth.type": "bearer", "auth.token": "hunter2-hunter2"}
    found = _read(spark, items.options, **secret).load()
    found.write.format("kconnect").mode("append").options(
        **{"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "x.password": "hunter2-hunter2"}
    ).save()

    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    shown = [executions.apply(index) for index in range(executions.size())]
    plans = "\n".join(f"{one.description()} {one.details()} {one.physicalPlanDescription()}" for one in shown)
    assert "kconnect" in plans
    assert "hunter2" not in plans + found._jdf.queryExecution().toString()


def _stream(spark: Any, sources: dict[str, dict[str, str]], folder: Path) -> Any:
    """A query with all these sources, into one table."""
    frames = [
        spark.readStream.format("kconnect")
        .options(**options)
        .schema("value STRING")
        .load()
        .selectExpr(f"'{name}' source", "cast(value as int) number")
        for name, options in sources.items()
    ]
    return (
        functools.reduce(lambda one, other: one.union(other), frames)
        .writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )


def _numbers(spark: Any, folder: Path, source: str) -> list[int]:
    rows = spark.read.parquet(str(folder / "table")).where(f"source = '{source}'").collect()
    return sorted(row.number for row in rows)


def _add_orders(database: Path, count: int) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("create table if not exists orders (id integer primary key autoincrement, item text)")
        connection.executemany("insert into orders (item) values (?)", [("tea",)] * count)


_ONLY_ID = {"transforms.e.type": "ExtractField$Value", "transforms.e.field": "id"}

_PROGRAM = """
import functools
import sys
from pyspark.sql import SparkSession
import kconnect.spark

builder = SparkSession.builder.master("local[2]")
for key, value in eval(sys.argv[3]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
kconnect.spark.register(spark)
folder, sources = sys.argv[1], eval(sys.argv[2])
frames = [
    spark.readStream.format("kconnect").options(**options).schema("value STRING").load()
    .selectExpr(f"'{name}' source", "cast(value as int) number") for name, options in sources.items()
]
(functools.reduce(lambda one, other: one.union(other), frames).writeStream.format("parquet")
    .option("path", f"{folder}/table").option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination())
"""


def test_a_query_that_is_killed_and_one_that_is_stopped_go_on_with_each_record_once(spark, lines, items, tmp_path):
    lines.grow(7000)
    items.count, orders = 1000, 40
    database = tmp_path / "shop.db"
    _add_orders(database, orders)
    sources = {
        "file": lines.options,
        "http": {**items.options, "transforms": "e", **_ONLY_ID},
        "sql": {
            "connector.class": "SqlSource",
            "connection.url": f"sqlite:///{database}",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "orders",
            "topic.prefix": "shop-",
            "poll.interval.ms": "20",
            "kconnect.idle.ms": "200",
            "transforms": "e",
            **_ONLY_ID,
        },
    }
    most = {"file": "1000", "http": "100", "sql": "10"}
    small = {name: {**options, "kconnect.max.rows": most[name]} for name, options in sources.items()}
    commits = tmp_path / "checkpoint/commits"
    with _killed([str(tmp_path), repr(small), repr({**session_settings(), **_QUICK})]):
        eventually(lambda: sum(path.name.isdigit() for path in commits.glob("*")) >= 2, 60)
    for bounded in (False, True):
        lines.grow(1500)
        items.count += 50
        _add_orders(database, 30)
        orders += 30
        query = _stream(spark, sources, tmp_path)
        if bounded:
            query.trigger(availableNow=True).start().awaitTermination()
        else:
            running = query.start()
            running.processAllAvailable()
            running.stop()

    assert _numbers(spark, tmp_path, "file") == list(range(lines.count))
    assert _numbers(spark, tmp_path, "http") == list(range(1, items.count + 1))
    assert _numbers(spark, tmp_path, "sql") == list(range(1, orders + 1))


class _killed:
    """The program with these arguments; killed with all its processes at the end of the block."""

    def __init__(self, arguments: list[str]) -> None:
        program = [sys.executable, "-c", _PROGRAM, *arguments]
        self._process = subprocess.Popen(program, start_new_session=True)

    def __enter__(self) -> None:
        """It runs."""

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        ended(self._process, 10)


def test_rows_are_written_by_a_sink_as_values_and_as_records(spark, tmp_path):
    out = tmp_path / "out.txt"
    sink = {"connector.class": "FileStreamSink", "file": str(out)}
    rows = spark.range(4).coalesce(1)

    rows.selectExpr("id", "concat('n', id) name").write.format("kconnect").options(**sink, topics="t").mode(
        "append"
    ).save()
    rows.selectExpr("concat('t', id) topic", "cast(to_json(named_struct('id', id)) as binary) value").write.format(
        "kconnect"
    ).options(**sink).option("value.converter", "JsonConverter").option(
        "value.converter.schemas.enable", "false"
    ).option("transforms", "T").option("transforms.T.type", "InsertField$Value").option(
        "transforms.T.topic.field", "of"
    ).mode("append").save()

    assert out.read_text().splitlines() == [f"Struct{{id={n},name=n{n}}}" for n in range(4)] + [
        f"{{id={n}, of=t{n}}}" for n in range(4)
    ]


def test_wrong_writes_are_refused_and_a_failing_row_is_named(spark, tmp_path):
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt")}
    frame = spark.range(3).coalesce(1).selectExpr("if(id = 2, 'x', '1') value")

    def refusal(mode: str = "append", **more: str) -> str:
        with pytest.raises(Exception, match="kconnect") as caught:
            frame.write.format("kconnect").options(**sink, **more).mode(mode).save()
        assert "Traceback" not in str(caught.value)
        return str(caught.value)

    assert "The rows have no topic" in refusal()
    assert 'mode("overwrite") does not exist here' in refusal("overwrite", topics="t")
    failed = refusal(topics="t", transforms="c", **{"transforms.c.type": "Cast$Value", "transforms.c.spec": "int8"})
    assert "Value (x) was out of range" in failed
    assert "row 2 of partition 0" in failed


def test_a_sink_that_gathers_writes_what_it_has_at_the_end_of_a_batch(spark, tmp_path):
    sink = {"connector.class": "ObjectSink", "topics": "t", "object.url": str(tmp_path / "out"), "flush.ms": "3600000"}
    rows = spark.range(10).coalesce(1).selectExpr("id")
    rows.write.format("kconnect").options(**sink, **{"object.format": "jsonl"}).mode("append").save()
    found = [line for path in (tmp_path / "out").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert [json.loads(line) for line in found] == [{"id": n} for n in range(10)]


def test_a_stream_from_a_source_to_a_sink_writes_each_record_over_stops(spark, lines, tmp_path):
    out = tmp_path / "out.txt"
    for _ in range(2):
        stream = spark.readStream.format("kconnect").options(**lines.options).load()
        query = (
            stream.select("value", "topic")
            .writeStream.format("kconnect")
            .options(**{"connector.class": "FileStreamSink", "file": str(out)})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.processAllAvailable()
        query.stop()
        lines.grow(500)
    assert sorted(map(int, out.read_text().split())) == list(range(1500))


@pytest.mark.broker
def test_rows_that_fail_are_dead_letters_of_sources_and_sinks(spark, broker, topic, lines, tmp_path):
    rows = spark.createDataFrame([("1",), ("no number",), ("3",)], "value STRING").coalesce(1)
    out, letters = tmp_path / "out.txt", f"{topic}-of-source"
    tolerant = {
        "transforms": "c",
        "transforms.c.type": "Cast$Value",
        "transforms.c.spec": "int32",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "bootstrap.servers": broker.bootstrap,
    }
    queue = "errors.deadletterqueue.topic.name"
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": "t"}
    rows.write.format("kconnect").mode("append").options(**sink, **tolerant, **{queue: topic}).save()

    assert out.read_text() == "1\n3\n"
    (letter,) = consume_values(broker.bootstrap, topic, 1)
    assert letter == b"no number"

    with lines.path.open("a") as file:
        file.write("no number\n")
    lines.grow(10)
    source = {**lines.options, **tolerant, queue: letters}
    stream = spark.readStream.format("kconnect").options(**source).load().select("value")
    kept = stream.writeStream.format("parquet").option("path", f"{tmp_path}/kept")
    kept.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start().awaitTermination()
    assert spark.read.parquet(f"{tmp_path}/kept").count() == 1010
    (one,) = consume(broker.bootstrap, letters, 1)
    said = {name: value for name, value in one.headers() or []}
    assert json.loads(one.value() or b"")["payload"] == "no number"
    assert said["__connect.errors.stage"] == b"TRANSFORMATION"
    assert json.loads(said["__connect.source"] or b"")["sourcePartition"] == {"filename": str(lines.path)}
    assert end_offset(broker.bootstrap, letters) == 1, "a look at the columns makes none"


def test_a_source_in_java_streams_from_its_offsets(spark, lines, tmp_path):
    plugins = tmp_path / "plugins/file"
    plugins.mkdir(parents=True)
    (jar,) = (jar for jar in JarSet("connect").fetch() if jar.name.startswith("connect-file"))
    shutil.copy(jar, plugins)
    java = {
        **lines.options,
        "connector.class": "java:org.apache.kafka.connect.file.FileStreamSourceConnector",
        "plugin.path": str(plugins.parent),
        "transforms": "w",
        "transforms.w.type": "HoistField$Value",
        "transforms.w.field": "line",
    }
    for _ in range(2):
        stream = spark.readStream.format("kconnect").options(**java).schema("line STRING").load()
        table = stream.writeStream.format("parquet").option("path", f"{tmp_path}/table")
        table.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start().awaitTermination()
        lines.grow(500)
    found = spark.read.parquet(f"{tmp_path}/table").collect()
    assert sorted(int(row.line) for row in found) == list(range(1500))

    # Its poll() waits for a second when there is no line: behind records that is the end, not half a minute
    began_s = time.monotonic()
    read = spark.read.format("kconnect").options(**java).schema("line STRING").load()
    assert read.count() == 2000
    assert time.monotonic() - began_s < ample_s(20)
