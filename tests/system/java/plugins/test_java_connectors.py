"""Java's connectors in a real worker: whole chains in Java, chains that are partly ours, and offsets by command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_registry import DevRegistry
from kconnect.model import RunState
from kit.cli import CliResult, cli_run
from kit.java_finding import found_folder
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import JSON, MISBEHAVES, NUMBERS, JavaWorker, java_worker, texts
from kit.processes import below, command, named
from kit.tables import read_table, table_settings
from kit.topics import consume, create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(180)]

_TRANSFORMS = "org.apache.kafka.connect.transforms"

# One of them only we have: values then cross as columns
_OURS = {
    "transforms": "hoist,sql,text",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "text",
    "transforms.sql.type": "SqlTransform",
    "transforms.sql.query": "SELECT text FROM records",
    "transforms.text.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
    "transforms.text.field": "text",
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[JavaWorker]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    for version in ("1.0.0", "2.5.0"):
        found_folder(plugins / f"found-{version}", version)
    vault = {
        "config.providers": "vault",
        "config.providers.vault.class": "found.Found$Vault",
        "config.providers.vault.param.secrets": "password:hunter2",
    }
    with java_worker(tmp_path_factory.mktemp("java-worker"), broker.bootstrap, plugins, **vault) as running:
        yield running


@pytest.fixture(autouse=True)
def _worker_is_left_clean(worker: JavaWorker) -> Iterator[None]:
    yield
    worker.assert_no_connectors()


def test_a_java_source_runs_with_its_whole_chain_and_goes_on_from_its_offset(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    worker.create("whole", **NUMBERS, topic=topic, count="2500")
    values = texts(broker, topic, 2500)
    assert values == [f"number {number}" for number in range(2500)]

    def offset() -> int:
        with worker.client() as client:
            found = {json.dumps(one.partition): (one.offset or {})["next"] for one in client.connector_offsets("whole")}
        return int(found.get('{"source": "numbers"}', 0))

    eventually(lambda: offset() == 2500, 15, "the last offset is committed")
    with worker.client() as client:
        status = client.connector_status("whole")
        assert status.tasks[0].version == "1.2.3"
        client.put_connector_config("whole", {"name": "whole", **NUMBERS, "topic": topic, "count": "3000"})
    assert texts(broker, topic, 3000)[2500:] == [f"number {number}" for number in range(2500, 3000)]
    worker.delete("whole")


def test_metrics_of_java_plugins_are_the_workers_with_javas_names_and_tags_and_end_with_them(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    counted = {"transforms": "seen", "transforms.seen.type": "kit.TestPlugins$Counted"}
    worker.create("metered", **NUMBERS, **counted, topic=topic, count="700")
    # The same stage in a chain that is partly Python's
    mixed = {
        "transforms": "seen,hoist,sql",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT upper(text) AS text FROM records",
        "value.converter": JSON,
    }
    worker.create("mixed-meter", **NUMBERS, **{**counted, **mixed}, topic=topic, count="700")
    for name in ("metered", "mixed-meter"):
        stage = f'connector="{name}",task="0",transformation="seen",kind="any"'
        wanted = {
            f'kafka_connect_plugins_count{{connector="{name}",value="700"}} 1',
            f'kafka_connect_plugins_next{{connector="{name}",task="0"}} 700',
            f"kafka_connect_plugins_seen_total{{{stage}}} 700.0",
            f"kafka_connect_plugins_seen_rate{{{stage}}}",
        }

        def has_them(name: str = name, wanted: set[str] = wanted) -> bool:
            assert worker.metrics_of(name) == wanted
            return True

        eventually(has_them, 20, f"metrics of {name}")
    with worker.client() as client:
        client.stop_connector("metered")
    eventually(lambda: not worker.metrics_of("metered"), 20, "they are gone")
    with worker.client() as client:
        client.resume_connector("metered")
    eventually(lambda: len(worker.metrics_of("metered")) == 4, 20, "a second run adds them again")
    worker.delete("metered", "mixed-meter")


def test_a_java_source_goes_through_transformations_and_converters_of_ours(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    mixed = {
        **NUMBERS,
        "topic": topic,
        "count": "300",
        "transforms": "hoist,sql,java",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT upper(text) AS text, length(text) AS size FROM records "
        "WHERE text NOT LIKE '%7'",
        "transforms.java.type": "kit.TestPlugins$Identity",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    worker.create("mixed", **mixed)
    values = [json.loads(value) for value in texts(broker, topic, 270)]
    wanted = [f"NUMBER {number}" for number in range(300) if number % 10 != 7]
    assert values == [{"text": text, "size": len(text)} for text in wanted]
    worker.delete("mixed")


@pytest.mark.parametrize("chain", ["whole", "mixed"])
def test_a_java_predicate_says_which_records_a_transformation_takes(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, chain: str
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    ours = _OURS if chain == "mixed" else {"transforms": ""}
    drops = {
        **ours,
        "transforms": ",".join(filter(None, ["drop", ours["transforms"], "keep"])),
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "seven",
        "transforms.keep.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.keep.predicate": "three",
        "transforms.keep.negate": "true",
        "predicates": "seven,three",
        "predicates.seven.type": "kit.TestPlugins$Ends",
        "predicates.seven.end": "73",
        "predicates.three.type": "kit.TestPlugins$Ends",
        "predicates.three.end": "3",
    }
    worker.create(f"drops-{chain}", **{**NUMBERS, **drops}, topic=topic, count="300")
    wanted = [f"number {number}" for number in range(300) if number % 10 == 3 and number % 100 != 73]
    assert texts(broker, topic, len(wanted)) == wanted
    worker.delete(f"drops-{chain}")


def test_a_java_chain_that_fails_names_stage_plugin_record_and_javas_stack_or_is_tolerated(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    failing = {**NUMBERS, **MISBEHAVES, "topic": topic, "count": "500", "bad": "333", "errors.restart.max": "0"}
    worker.create("failing", **failing)
    trace = worker.await_task("failing", RunState.FAILED)
    assert "failed in TRANSFORMATION of TestPlugins$Misbehaves (transforms.bad): This is bad" in trace
    assert "source offset {'next': 334}" in trace
    assert "at kit.TestPlugins$Misbehaves.apply(TestPlugins.java" in trace
    assert texts(broker, topic, 333) == [f"number {number}" for number in range(333)]

    with worker.client() as client:
        client.put_connector_config("failing", {"name": "failing", **failing, "errors.tolerance": "all"})
    values = texts(broker, topic, 499)
    assert values == [f"number {number}" for number in range(500) if number != 333]
    worker.delete("failing")


def test_a_java_sink_takes_what_javas_chain_makes_and_letters_keep_what_failed(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic, letters = topic_for(request), topic_for(request, "-letters")
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, letters)
    produce_lines(broker.bootstrap, topic, [f"line {n}" if n != 50 else "bad" for n in range(200)])
    file = tmp_path / "out.txt"
    sink = {
        "connector.class": "java:org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": topic,
        "file": str(file),
        **MISBEHAVES,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    worker.create("sink", **sink)
    (letter,) = consume(broker.bootstrap, letters, 1)
    headers = dict(letter.headers() or ())
    assert letter.value() == b"bad"
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.class.name"] == b"kit.TestPlugins$Misbehaves"
    assert headers["__connect.errors.offset"] == b"50"
    wanted = [f"line {n}" for n in range(200) if n != 50]
    eventually(lambda: file.exists() and file.read_text().splitlines() == wanted, 15, "the file has all lines")

    eventually(lambda: worker.sink_offset("sink", topic) == 200, 15, "the sink's offset is committed")
    worker.delete("sink")


@pytest.mark.parametrize("chain", ["java", "mixed"])
def test_a_java_sink_gets_what_it_asks_of_its_context_whatever_has_been_fetched_meanwhile(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path, chain: str
) -> None:
    topic, letters = topic_for(request), topic_for(request, "-letters")
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, letters)
    orders = {3_000: "report", 9_000: "retry", 14_000: "rewind", 19_000: "commit", 24_000: "pause"}
    produce_lines(broker.bootstrap, topic, [orders.get(n, f"line {n}") for n in range(40_000)])
    journal = tmp_path / "journal.txt"
    sink = {
        "connector.class": "kit.TestPlugins$Obeying",
        "topics": topic,
        "journal": str(journal),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **(_OURS if chain == "mixed" else {}),
    }
    name = f"obeying-{chain}"
    worker.create(name, **sink)

    def lines() -> list[str]:
        return journal.read_text().splitlines() if journal.exists() else []

    eventually(lambda: any(line.endswith(" 39999") for line in lines()) and "reported" in lines(), 60, "all is put")
    worker.delete(name)
    reported = eventually(lambda: lines() if lines()[-1] == "stop" else None, 15, "the task has stopped")
    next_offset, committed, is_paused = 0, 0, False
    for line in reported:
        what, *numbers = line.split()
        if what == "put":
            assert not is_paused, f"{line}: {reported}"
            assert int(numbers[0]) == next_offset, f"{line}, not {next_offset}: {reported}"
            next_offset = int(numbers[1]) + 1
        elif what == "rewind":
            next_offset = int(numbers[0])
        elif what == "commit":
            assert int(numbers[0]) <= next_offset
            committed = int(numbers[0])
        elif what in ("pause", "resume"):
            is_paused = what == "pause"
    assert (next_offset, committed) == (40_000, 40_000)
    assert [line for line in reported if line in ("retry", "request", "pause", "resume")] == [
        "retry",
        "request",
        "pause",
        "resume",
    ]
    assert any(line.startswith("commit") for line in reported[reported.index("request") : reported.index("pause")])
    assert reported[-2:] == [f"close [{topic}-0]", "stop"]
    (letter,) = consume(broker.bootstrap, letters, 1)
    headers = dict(letter.headers() or ())
    assert (letter.value(), headers["__connect.errors.offset"]) == (b"report", b"3000")
    assert headers["__connect.errors.exception.message"] == b"too late"


def test_the_jvm_of_connectors_has_a_smaller_young_generation_than_that_of_tasks(
    worker: JavaWorker, topic: str, broker: DevBroker
) -> None:
    worker.create("sized", **NUMBERS, topic=topic, count="5")
    texts(broker, topic, 5)
    assert worker.process is not None
    every = {jvm.pid: command(jvm) for jvm in named(below(worker.process.pid), "java")}
    of_tasks = {jvm.pid for jvm in worker.jvms()}
    (own,) = [line for pid, line in every.items() if "kconnect.host.Main" in line and pid not in of_tasks]
    assert "-Xmn4m" in own
    assert all("-Xmn16m" in every[pid] for pid in of_tasks)
    assert of_tasks
    worker.delete("sized")


def test_lines_of_java_have_their_connector_and_the_level_that_is_set(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    java_json = {"value.converter": f"java:{JSON}", "value.converter.schemas.enable": "false"}
    worker.create("talks", **NUMBERS, **java_json, topic=topic, count="5")
    texts(broker, topic, 5)
    worker.await_logged("JsonConverterConfig")  # lines of Java come on a way of their own, perhaps after the records
    reported = [line for line in worker.log_text().splitlines() if "JsonConverterConfig" in line]
    assert [line.partition("] ")[2].partition("JsonConverterConfig")[0] for line in reported] == [
        "INFO [talks|task-0] "
    ]

    def quiet_polls() -> list[str]:
        return [line for line in worker.log_text().splitlines() if "nothing left of 5" in line]

    assert not quiet_polls()
    with worker.client() as client:
        client.set_logger("kit.TestPlugins", "DEBUG")
    (line, *_) = eventually(quiet_polls, 20, "a line at DEBUG")
    assert "] DEBUG [talks|task-0] nothing left of 5 (kit.TestPlugins" in line
    with worker.client() as client:
        client.set_logger("kit.TestPlugins", "INFO")
    worker.delete("talks")


def test_versions_of_a_plugin_run_side_by_side_with_secrets_of_javas_config_provider(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topics = {}
    for version, more in (("2.5.0", {}), ("1.0.0", {"connector.plugin.version": "[1,2)"})):
        name = f"ticker-{version}"
        topics[version] = f"{topic_for(request)}-{version}"
        create_topic(broker.bootstrap, topics[version])
        stamp = {"transforms": "s", "transforms.s.type": "found.Found$Stamp", "transforms.s.plugin.version": "1.0.0"}
        secret = {"secret": "${vault:x:password}", "topic": topics[version]}
        worker.create(name, **{"connector.class": "found.Found$Ticker", **more, **secret, **stamp})
    for version, topic in topics.items():
        # hunter2 of the path x: eight characters, of which the last is reported
        assert texts(broker, topic, 1)[:1] == [f"ticker {version} knows 8x stamp 1.0.0"]
    with worker.client() as client:
        for version in topics:
            name = f"ticker-{version}"
            assert client.connector_status(name).tasks[0].version == version
            assert client.connector_config(name)["secret"] == "${vault:x:password}"
        assert {plugin.get("version") for plugin in client.plugins() if plugin["class"] == "found.Found$Ticker"} == {
            "1.0.0",
            "2.5.0",
        }
        listed = [plugin for plugin in client.plugins(locations=True) if plugin["class"] == "found.Found$Ticker"]
        assert {Path(plugin["location"]).name for plugin in listed} == {"found-1.0.0", "found-2.5.0"}
        bad = {"connector.class": "found.Found$Ticker", "topic": "t", "connector.plugin.version": "9.9"}
        with pytest.raises(ConnectError, match=r"version range \[9.9,9.9\], available versions: \[1.0.0, 2.5.0\]"):
            client.create_connector("refused", bad)
    worker.delete(*(f"ticker-{version}" for version in topics))
    assert "hunter2" not in worker.log_text()


@pytest.fixture
def topic(broker: DevBroker, request: pytest.FixtureRequest) -> str:
    """Of two partitions."""
    found = topic_for(request)
    create_topic(broker.bootstrap, found, partitions=2)
    return found


def test_a_java_source_goes_through_our_sql_and_avro_into_a_table(
    worker: JavaWorker, registry: DevRegistry, topic: str, tmp_path: Path
) -> None:
    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }
    source = {
        "connector.class": "kit.TestPlugins$Numbers",
        "topic": topic,
        "count": "300",
        **avro,
        "transforms": "hoist,sql",
        "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT upper(text) AS text, length(text) AS size FROM records "
        "WHERE text NOT LIKE '%7'",
    }
    name = f"{topic}-table"
    table = table_settings("parquet", tmp_path, name)
    worker.run(f"{topic}-in", source)
    worker.run(name, {"connector.class": "TableSink", "topics": topic, "flush.ms": "200", **avro, **table})
    wanted = sorted((f"NUMBER {n}", len(f"number {n}")) for n in range(300) if n % 10 != 7)

    def rows() -> list[tuple[Any, Any]]:
        return sorted((row["text"], row["size"]) for row in read_table(table).to_pylist())

    def are_all_there() -> bool:
        assert rows() == wanted, f"{len(rows())} rows\n{worker.log_text()[-2000:]}"
        return True

    eventually(are_all_there, 40, "the table has all rows")
    worker.delete(f"{topic}-in", name)


@pytest.mark.parametrize("chain", ["java", "mixed"])
def test_a_java_sink_knows_where_a_record_came_from_whatever_topic_it_was_sent_to(
    worker: JavaWorker, broker: DevBroker, topic: str, tmp_path: Path, chain: str
) -> None:
    for partition in (0, 1):
        lines = [f"{partition}-{n}" for n in range(100)]
        produce_lines(broker.bootstrap, topic, lines, partition=partition)
    journal = tmp_path / "journal"
    steps = ["route", "cut"] if chain == "java" else ["route", "hoist", "sql", "text", "cut"]
    sink = {
        "connector.class": "kit.Faulty$Sink",
        "topics": topic,
        "journal": str(journal),
        "transforms": ",".join(steps),
        "transforms.route.type": f"{_TRANSFORMS}.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "elsewhere",
        "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT text FROM records WHERE text NOT LIKE '%5'",
        "transforms.text.type": f"{_TRANSFORMS}.ExtractField$Value",
        "transforms.text.field": "text",
        # The topic changes once more, by the time
        "transforms.cut.type": f"{_TRANSFORMS}.TimestampRouter",
        "transforms.cut.topic.format": "${topic}-${timestamp}",
        "transforms.cut.timestamp.format": "'later'",
    }
    worker.run(f"{topic}-out", {key: text for key, text in sink.items() if is_of(steps, key)})
    kept = [n for n in range(100) if chain == "java" or n % 10 != 5]
    # Value; topic, partition and offset as they are now; and as they were
    wanted = [f"{part}-{n} elsewhere-later {part} {n} {topic} {part} {n}" for part in (0, 1) for n in kept]

    def are_all_there() -> bool:
        found = sorted(journal.read_text().splitlines()) if journal.exists() else []
        assert found == sorted(wanted), f"{found[:5]}"
        return True

    eventually(are_all_there, 40, "the sink has all records")
    worker.delete(f"{topic}-out")


def is_of(steps: list[str], key: str) -> bool:
    return not key.startswith("transforms.") or key.split(".")[1] in steps


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_offsets_are_altered_and_reset_by_command_if_the_java_connector_agrees(
    worker: JavaWorker, broker: DevBroker, topic: str, tmp_path: Path, home: Path, kind: str
) -> None:
    name, journal = f"{topic}-{kind}", tmp_path / "journal"
    if kind == "source":
        config = {"connector.class": "kit.Faulty$Source", "topic": topic}
        partition, good, bad = {"of": "numbers"}, {"next": 5_000}, {"next": -1}
        says = "Numbers begin at 0, not at -1"
    else:
        produce_lines(broker.bootstrap, topic, [f"line {n}" for n in range(10)], partition=0)
        config = {"connector.class": "kit.Faulty$Sink", "topics": topic, "journal": str(journal)}
        partition, good, bad = {"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 7}, {"kafka_offset": 1}
        says = "The first record belongs to the second"

    def connect(*args: str, expect: int = 0, stdin: str | None = None) -> CliResult:
        return cli_run("offsets", *args, "--url", worker.url, home=home, expect=expect, stdin=stdin)

    def offsets() -> list[Any]:
        with worker.client() as client:
            return [dict(one.offset or {}) for one in client.connector_offsets(name) if one.partition == partition]

    def altered(offset: dict[str, int], expect: int) -> CliResult:
        reported = {"name": name, "offsets": [{"partition": partition, "offset": offset}]}
        return connect("alter", name, "-f", "-", "--yes", stdin=json.dumps(reported), expect=expect)

    worker.run(name, config)
    eventually(lambda: bool(offsets() and max(offsets()[0].values()) >= 10), 40, "an offset is committed")
    with worker.client() as client:
        client.stop_connector(name)
        eventually(lambda: not client.connector_status(name).tasks, 20, "it has stopped")
    before = offsets()
    assert says in altered(bad, 1).stderr
    assert offsets() == before
    altered(good, 0)
    assert offsets() == [good]
    connect("reset", name, "--yes")
    assert not [found for found in offsets() if found]
    worker.delete(name)
