"""Java's transformations and converters in our process: what crosses comes back unchanged, and what goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow as pa
import pytest

from kconnect.api import (
    ConnectHeaders,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
    TimestampType,
)
from kconnect.api.columns import column_of, values_of
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.errors import ConfigError, ConnectError, DataError, RetriableError
from kconnect.java.installed import find_java
from kconnect.java.plugins import JavaIndex, JavaSettings
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.java_error import JavaHostDiedError, JavaPluginError
from kconnect.logs.log_context import log_context
from kconnect.logs.traces import trace_with_cause
from kconnect.model import RunState, TaskId
from kconnect.runtime.herder.decisions.failures import failure_of
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.stages import DROPPED, StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.plugins import PluginRegistry
from kconnect.spark.messages import TaskReport, encode
from kit.java_answers import without_order, written_value
from kit.java_plugin_folder import java_plugin_folder
from kit.pace import ample_s
from kit.processes import below, command, lives
from kit.random_data import random_plain, random_schema, random_struct_schema, random_value
from kit.waiting import eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return java_plugin_folder(tmp_path_factory.mktemp("plugins"))


@pytest.fixture(scope="module")
def registry(plugin_path: Path) -> Iterator[PluginRegistry]:
    made = PluginRegistry.load(str(plugin_path), java=JavaSettings(heap="128m"))
    assert made.transformation("TestPlugins$Identity")().version() == "undefined"  # the JVM is up
    yield made
    made.close()


@contextmanager
def transformation(registry: PluginRegistry, name: str, **config: str) -> Iterator[Any]:
    made = registry.transformation(name)()
    made.configure(config)
    try:
        yield made
    finally:
        with suppress(JavaHostDiedError):  # where the test has ended it
            made.close()


def is_text(text: str) -> bool:
    """Whether it is free of half surrogates: names of members with one are no JSON that Java reads."""
    return "\\ud" not in text and text.isprintable()


def random_column(random: Random, schema: Schema) -> Any:
    """A column without half surrogates, for which Arrow has no form."""
    while True:
        with suppress(DataError):
            count = random.randint(2, 40)
            return column_of(schema, [random_value(random, schema, complete=True) for _ in range(count)])


def test_records_come_back_from_java_as_they_were(registry: PluginRegistry) -> None:
    random = Random(1)
    with transformation(registry, "TestPlugins$Identity") as identity:
        for number in range(150):
            schema = random_schema(random) if number % 3 else None
            value = random_plain(random) if schema is None else random_value(random, schema)
            if not is_text(repr(value)):
                continue
            record = SinkRecord(
            "topic", 3, Schema.STRING_SCHEMA, f"k{number}", schema, value, number, timestamp=number,
            timestamp_type=TimestampType.CREATE_TIME,
        )  # fmt: skip
            record.headers.add("h", random_value(random, Schema.INT32_SCHEMA), Schema.INT32_SCHEMA)
            record.headers.add("plain", "text")

            assert repr(identity.apply(record)) == repr(record)


def test_batches_come_back_from_java_as_they_were(registry: PluginRegistry) -> None:
    random = Random(2)
    with transformation(registry, "TestPlugins$Identity") as identity:
        for _ in range(60):
            schema = random_struct_schema(random)
            column = random_column(random, schema)
            batch = RecordBatch("topic", value=column, value_schema=schema, timestamp=7)

            after = identity.apply_batch(batch)

            assert repr(values_of(schema, after.value, len(column))) == repr(values_of(schema, column, len(column)))
            assert (after.value_schema, after.topic, after.timestamp.to_pylist()) == (
                schema,
                "topic",
                [7] * len(column),
            )


def test_a_converter_of_java_that_looks_at_no_headers_takes_records_with_headers_of_any_type(
    registry: PluginRegistry,
) -> None:
    java = registry.converter(f"java:{_JSON}")()
    java.configure({"schemas.enable": "false"}, False)
    headers = ConnectHeaders()
    for value in (5, "text", [1], None):
        headers.add("h", value)
    assert java.from_connect_data("t", Schema.STRING_SCHEMA, "x", headers) == b'"x"'
    assert [header.value for header in headers] == [5, "text", [1], None]
    java.close()


def test_javas_converter_writes_and_reads_what_ours_does(registry: PluginRegistry) -> None:
    java, ours = registry.converter(f"java:{_JSON}")(), registry.converter(_JSON)()
    for converter in (java, ours):
        converter.configure({"schemas.enable": "true", "replace.null.with.default": "false"}, False)
    random = Random(3)
    for _ in range(60):
        schema = random_struct_schema(random)
        column = random_column(random, schema)
        values = values_of(schema, column, len(column))
        wanted = [ours.from_connect_data("t", schema, value) for value in values]

        assert [java.from_connect_data("t", schema, value) for value in values[:2]] == wanted[:2]
        made = java.from_connect_batch("t", schema, column)
        assert made.to_pylist() == wanted
        schema_again, again = java.to_connect_batch("t", made)
        assert schema_again == schema
        for text, other in zip(wanted, values_of(schema, again, len(again)), strict=True):
            value = ours.to_connect_data("t", text).value
            assert without_order(written_value(schema, other)) == without_order(written_value(schema, value))
    java.close()


def test_what_java_throws_is_an_error_of_ours_with_the_cause_first_and_javas_stack_below(
    registry: PluginRegistry,
) -> None:
    bad = SourceRecord({}, {}, "t", "bad")
    with transformation(registry, "kit.TestPlugins$Misbehaves", does="throw") as throwing:
        assert throwing.apply(SourceRecord({}, {}, "t", "good")).value == "good"
        with pytest.raises(DataError, match=r"This is bad: java\.lang\.IllegalStateException: the reason") as raised:
            throwing.apply(bad)
    assert "at kit.TestPlugins$Misbehaves.apply(TestPlugins.java" in raised.value.__notes__[0]
    retrying = transformation(registry, "kit.TestPlugins$Misbehaves", does="retry")
    with retrying as made, pytest.raises(RetriableError, match="Not yet"):
        made.apply(bad)
    lacking = transformation(registry, "kit.TestPlugins$Misbehaves", does="missing")
    lacks = r"NoClassDefFoundError: the class kit\.Missing, which kit\.jar needs, is missing in /.*/kit\n"
    with lacking as made, pytest.raises(JavaPluginError, match=lacks) as raised:
        made.apply(bad)
    assert "Put the jar that has kit.Missing into" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("mute", r"kit\.TestPlugins\$Misbehaves\$Mute, whose text cannot be read: it throws java\.lang\.IllegalState"),
        ("half", r"half of a pair: \?!"),
        ("long", r"x{1000} ?.*\[\.\. [\d,]+ characters \.\.\]"),
    ],
)
def test_whatever_java_throws_becomes_a_status_that_can_be_sent_and_is_read_at_once(
    registry: PluginRegistry, does: str, said: str
) -> None:
    with transformation(registry, "kit.TestPlugins$Misbehaves", does=does) as made:
        with pytest.raises(ConnectError) as raised:
            made.apply(SourceRecord({}, {}, "t", "bad"))
        assert made.apply(SourceRecord({}, {}, "t", "good")).value == "good", "its thread lives"
    trace = trace_with_cause("Task a-0", raised.value)
    assert re.search(said, trace, re.DOTALL)
    assert len(encode(TaskReport(TaskId("a", 0), 1, RunState.FAILED, trace))) < 500_000
    began_s = time.process_time()
    assert failure_of("worker", trace).no_help is None
    assert time.process_time() - began_s < 2  # it was minutes, in which the worker lost its group


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (
            "exit",
            "ended (exit code 7, as a plugin of the worker called System.exit at kit.TestPlugins$Misbehaves.",
        ),
        ("crash", "SIGSEGV"),
        ("memory", "out of memory (Java heap space): raise kconnect.java.heap"),
    ],
)
def test_a_plugin_that_ends_java_leaves_python_alone_and_the_next_one_has_a_new_jvm(
    plugin_path: Path, does: str, said: str
) -> None:
    registry = PluginRegistry.load(
        str(plugin_path), java=JavaSettings(heap="128m", options=("-XX:-CreateCoredumpOnCrash",))
    )
    try:
        with transformation(registry, "kit.TestPlugins$Misbehaves", does=does) as bad:
            with pytest.raises(JavaHostDiedError) as raised:
                bad.apply(SourceRecord({}, {}, "t", "bad"))
            assert said in str(raised.value)
        with transformation(registry, "kit.TestPlugins$Misbehaves", does=does) as again:
            assert again.apply(SourceRecord({}, {}, "t", "good")).value == "good"
    finally:
        registry.close()


def test_with_a_jvm_for_each_connector_one_that_ends_its_jvm_hurts_no_other(plugin_path: Path) -> None:
    before = host_jvms()
    registry = PluginRegistry.load(str(plugin_path), java=JavaSettings.of({"kconnect.java.host": "connector"}))
    with closing(registry), ExitStack() as stack:
        made = {}
        for name, task in (("one", 0), ("one", 1), ("two", 0)):
            with log_context(name, task):
                made[name, task] = stack.enter_context(
                    transformation(registry, "kit.TestPlugins$Misbehaves", does="exit")
                )
        assert len(host_jvms() - before) == 2
        with pytest.raises(JavaHostDiedError, match="exit code 7"):
            made["one", 0].apply(SourceRecord({}, {}, "t", "bad"))
        with pytest.raises(JavaHostDiedError, match="exit code 7"):
            made["one", 1].apply(SourceRecord({}, {}, "t", "good"))
        assert made["two", 0].apply(SourceRecord({}, {}, "t", "good")).value == "good"


def test_a_temporary_folder_with_a_long_path_is_no_hindrance(
    plugin_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with (
        closing(PluginRegistry.load(str(plugin_path))) as registry,
        transformation(registry, "kit.TestPlugins$Identity") as same,
    ):
        assert same.apply(SourceRecord({}, {}, "t", "value")).value == "value"


def host_jvms() -> set[int]:
    """The JVMs for plugins below this process."""
    return {child.pid for child in below(os.getpid(), deep=False) if "kconnect.host.Main" in command(child)}


def test_java_ends_with_the_process_that_started_it(plugin_path: Path) -> None:
    program = (
        "import sys\n"
        "from kconnect.runtime.plugins import PluginRegistry\n"
        f"made = PluginRegistry.load({str(plugin_path)!r}).transformation('TestPlugins$Identity')()\n"
        "made.configure({})\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        (jvm,) = psutil.Process(child.pid).children()
        os.kill(child.pid, signal.SIGKILL)
    eventually(lambda: not lives(jvm), 10, "the JVM has ended")


def test_an_end_does_not_wait_for_a_jvm_that_starts_and_that_one_ends_once_it_is_up(tmp_path: Path) -> None:
    home, gate, began = tmp_path / "java", tmp_path / "gate", tmp_path / "began"
    (home / "bin").mkdir(parents=True)
    java = find_java("tests")
    slow = f'#!/bin/sh\ntouch {began}\nwhile [ ! -e {gate} ]; do sleep 0.02; done\nexec {java.executable} "$@"\n'
    (home / "bin" / "java").write_text(slow)
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{java.version}"\n')
    host, before = HostProcess(JavaIndex(), JavaSettings(home=str(home))), host_jvms()
    with ThreadPoolExecutor(2) as pool:
        try:
            connects = [pool.submit(host.connect) for _ in range(2)]
            eventually(began.exists, 20, "the first one starts a JVM")
            host.stop(0.1)  # the gate is still shut
        finally:
            gate.touch()
        for connect in connects:
            with pytest.raises(ConnectError, match="were stopped in the meantime"):
                connect.result(ample_s(30))
    eventually(lambda: host_jvms() <= before, 10, "no JVM is left")


def test_settings_of_a_java_plugin_are_checked_by_its_own_table(registry: PluginRegistry) -> None:
    table = registry.transformation("TestPlugins$Misbehaves")().config()
    (does, *_) = table.validate({"does": "dance"})
    assert does.error_messages == [
        "Invalid value dance for configuration does: String must be one of: "
        "throw, retry, exit, crash, memory, sleep, missing, mute, half, long, checked, error at start, checked at start"
    ]
    connector = registry.connector_class("TestPlugins$Numbers")()
    assert connector.version() == "1.2.3"
    errors = {value.name: value.error_messages for value in connector.validate({"count": "0"}).config_values}
    assert errors["count"] == ["Invalid value 0 for configuration count: Value must be at least 1"]
    assert errors["topic"] == ['Missing required configuration "topic" which has no default value.']


def test_a_transformation_with_its_predicate_within_it_is_no_abstract_class(registry: PluginRegistry) -> None:
    strings = {f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")}
    config = {"name": "numbers", "connector.class": "kit.TestPlugins$Numbers", "topic": "t"}
    guarded = {"transforms": "g", "transforms.g.type": "kit.Guarded", "transforms.g.predicate": "p"}
    guard = {"predicates": "p", "predicates.p.type": "kit.Guarded$Guard"}
    report = ConnectorValidator(registry, strings).validate({**config, **guarded, **guard})
    assert {info.value.name: info.value.error_messages for info in report.configs if info.value.error_messages} == {}


def test_a_value_that_javas_transformation_leaves_of_another_schema_is_its_records_error(
    registry: PluginRegistry,
) -> None:
    step = registry.transformation("kit.Guarded")()
    step.configure({})
    good = SinkRecord("t", 0, None, None, Schema.INT32_SCHEMA, 1, 0)
    bad = SinkRecord("t", 0, None, None, Schema.STRING_SCHEMA, "bad", 1)
    assert step.apply(good).value == 1
    with pytest.raises(ConnectError, match="Invalid type for INT32: class java"):
        step.apply(bad)
    step.close()


def test_a_step_of_java_that_keeps_in_mind_what_it_was_given_has_each_record_once(registry: PluginRegistry) -> None:
    """Of a batch that has several topics then, or records that fail, a filter of duplicates dropped all others."""

    class Tolerant:
        def on_failure(self, failure: StageError, retry: Any) -> Any:
            failed.append(failure.record.value)
            return DROPPED

    failed: list[Any] = []
    with transformation(registry, "TestPlugins$Once") as once:
        chain = TransformChain([TransformStep(once)], Tolerant())
        found = []
        for texts in (["a1", "b1", "a1", "a2"], ["b1", "!x", "c1", "!y", "a2", "c2#"], ["d1", "d2"], ["d2"]):
            offsets = pa.array(range(len(texts)))
            column = pa.array(texts)
            batch = RecordBatch(
                "t", value=column, value_schema=Schema.OPTIONAL_STRING_SCHEMA, kafka_partition=1, kafka_offsets=offsets
            )
            after = chain.apply_batch(batch)
            found.append(after.to_records() if isinstance(after, RecordBatch) else after or [])
    assert [
        [(one.topic, one.value, one.original_kafka_offset, one.original_topic) for one in ones] for ones in found
    ] == [
        [("a", "a1", 0, "t"), ("b", "b1", 1, "t"), ("a", "a2", 3, "t")],
        [("c", "c1", 2, "t"), ("c", None, 5, "t")],
        [("d", "d1", 0, "t"), ("d", "d2", 1, "t")],
        [],
    ]
    assert failed == ["!x", "!y"]


def test_halves_of_surrogate_pairs_and_numbers_of_any_size_cross_to_java_and_back(registry: PluginRegistry) -> None:
    """Kafka's JsonConverter writes a half as an escape; as UTF-8 it would be a question mark."""
    of_text = SchemaBuilder.struct().field("text", Schema.STRING_SCHEMA).build()
    half = "a\ud800b"
    values: list[tuple[Schema | None, Any]] = [
        (None, half), (None, {"name": [half]}), (None, {half: 1}), (None, 2**70), (None, [-(2**63), 2**63]),
        (Schema.STRING_SCHEMA, half), (of_text, Struct(of_text).put("text", "\udc00")),
    ]  # fmt: skip
    reader = registry.converter(f"java:{_JSON}")()
    reader.configure({"schemas.enable": "false"}, is_key=False)
    assert reader.to_connect_data("t", b'["a\\ud800b"]').value == [half]
    reader.close()
    with transformation(registry, "TestPlugins$Identity") as identity:
        for schema, value in values:
            headers = ConnectHeaders().add("h", value, schema)
            made = identity.apply(SinkRecord("t", 0, schema, value, schema, value, 0, headers=headers))
            assert (made.key, made.value, [header.value for header in made.headers]) == (value, value, [value])


def test_a_source_record_keeps_a_partition_that_kafka_refuses(registry: PluginRegistry) -> None:
    with transformation(registry, "TestPlugins$Identity") as identity:
        found = [identity.apply(SourceRecord({}, {}, "t", 1, kafka_partition=given)) for given in (None, -1, 3)]
    assert [one.kafka_partition for one in found] == [None, -1, 3]


def test_javas_converter_has_kafkas_headers_where_a_part_of_the_chain_is_pythons(registry: PluginRegistry) -> None:
    """As in Java: towards Kafka after header.converter, from Kafka before it; what it adds and takes away counts."""
    heading, key = registry.converter("kit.Heading")(), StringConverter()
    heading.configure({}, is_key=False)
    key.configure({}, True)
    converters = Converters(key, heading, SimpleHeaderConverter())
    headers = [ConnectHeaders().add_string("before", "7"), ConnectHeaders(), ConnectHeaders().add_string("x", "y")]
    values = ["a", "b", "c"]
    records = [
        SourceRecord({}, {}, "t", value, value_schema=Schema.STRING_SCHEMA, headers=ConnectHeaders(given))
        for value, given in zip(values, headers, strict=True)
    ]
    batch = RecordBatch("t", value_schema=Schema.STRING_SCHEMA, value=pa.array(values), headers=headers)
    produced: list[Any] = [[("before", b"7"), ("number", b"7")], [("number", b"\1")], [("x", b"y"), ("number", b"\1")]]
    assert [made.headers for made in converters.to_kafka_list(records) if made] == produced
    made = converters.to_kafka_batch(batch)
    assert (list(made.values), made.headers) == ([b"a", b"b", b"c"], produced)

    data: list[bytes | None] = [b"a", b"b", b"c"]
    raw = FetchedBatch("t", 0, [0, 1, 2], None, data, None, TimestampType.CREATE_TIME, [None, *produced[1:]])
    read = [("a@?", []), ("b@1", []), ("c@1", ["x"])]
    columns = converters.to_connect_columns(raw)
    assert columns is not None
    for found in (columns.to_records(), converters.to_connect_records(raw)):
        assert [(one.value, [header.key for header in one.headers]) for one in found] == read
    assert raw.headers == [None, *produced[1:]]
    converters.close()


def test_javas_converter_that_looks_at_no_headers_takes_columns(registry: PluginRegistry) -> None:
    converter = registry.converter(f"java:{_JSON}")()
    converter.configure({}, is_key=False)
    assert not converter.takes_kafka_headers
    assert converter.ignores_headers
    converter.close()


def test_a_name_that_is_nothing_or_of_another_kind_is_refused(registry: PluginRegistry, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Failed to find any class that implements Connector and which name matches"):
        registry.connector_class("kit.Nothing")
    with pytest.raises(ConfigError, match="Identity is a Java class of type transformation, not sink or source"):
        registry.connector_class("kit.TestPlugins$Identity")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "broken.jar").write_text("no jar")
    other = PluginRegistry.load(str(tmp_path))
    with closing(other), pytest.raises(ConfigError, match="Failed to find any class"):
        other.connector_class("com.example.Thing")


def test_lists_name_javas_plugins_with_version_and_place(registry: PluginRegistry, plugin_path: Path) -> None:
    found = {info.class_name: info for info in registry.describe() if info.class_name.startswith("kit.TestP")}
    numbers = found["kit.TestPlugins$Numbers"]
    assert (numbers.type, numbers.version, numbers.location) == ("source", "1.2.3", str(plugin_path / "kit"))
    names = "Numbers", "Ends", "Reported", "Shapes", "Obeying", "Identity", "Misbehaves", "Counted", "Once"
    assert set(found) == {f"kit.TestPlugins${name}" for name in names}


def test_a_class_for_a_newer_java_is_refused_and_says_which_java_it_wants(plugin_path: Path, tmp_path: Path) -> None:
    (tmp_path / "newer").mkdir()
    source, target = plugin_path / "kit" / "kit.jar", tmp_path / "newer" / "newer.jar"
    with zipfile.ZipFile(source) as given, zipfile.ZipFile(target, "w") as made:
        for name in given.namelist():
            data = given.read(name)
            made.writestr(name, data[:6] + (99).to_bytes(2, "big") + data[8:] if name.endswith(".class") else data)
    with closing(PluginRegistry.load(str(tmp_path))) as registry:
        with pytest.raises(
            ConnectError,
            match=r"newer.jar in .*newer needs Java 55, and plugins run in Java \d+ \(kconnect.java.home\)",
        ):
            registry.transformation("TestPlugins$Identity")().configure({})
        with pytest.raises(
            ConnectError, match=r"UnsupportedClassVersionError: the class kit.TestPlugins.Numbers of "
        ) as raised:
            registry.connector_class("kit.TestPlugins$Numbers")().version()
    assert raised.value.hint == "Install that Java and name it in kconnect.java.home, or take an older jar."


def test_without_java_a_java_plugin_says_so_and_pythons_run(plugin_path: Path, tmp_path: Path) -> None:
    with closing(PluginRegistry.load(str(plugin_path), java=JavaSettings(home=str(tmp_path)))) as registry:
        with pytest.raises(ConnectError, match="Java 17 or newer is needed for Java's plugins") as raised:
            registry.connector_class("kit.TestPlugins$Numbers")().task_class()
        assert str(tmp_path) in str(raised.value)
        assert registry.connector_class("FileStreamSource")().version()
        assert any(info.class_name.endswith("FileStreamSourceConnector") for info in registry.describe())
