"""`connect try` and `connect plugins new`: no broker, no Spark.

Where secrets are remembered or projects are made, and once for the rest, they run in a process of their own.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kit.cli import Command, cli_env, cli_run
from kit.pace import ample_s

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


_QUIET = """
from kconnect.api import ConfigDef, SourceConnector, SourceTask


class QuietTask(SourceTask):
    def start(self, props): ...

    def poll(self):
        return None

    def update_offsets(self, offsets):
        return [({"table": "a"}, {"row": 7})]

    def stop(self): ...


class QuietSource(SourceConnector):
    def start(self, props): ...

    def stop(self): ...

    def task_class(self):
        return QuietTask

    def task_configs(self, max_tasks):
        return [{}]

    def config(self):
        return ConfigDef()

    def version(self):
        return "1"
"""


def write(path: Path, **settings: str) -> str:
    lines = {**JSON, **{key.replace("__", "."): value for key, value in settings.items()}}
    path.write_text("name=tried\n" + "".join(f"{key}={value}\n" for key, value in lines.items()))
    return str(path)


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    return write(
        tmp_path / "source.properties",
        connector__class="FileStreamSource",
        file=str(tmp_path / "in.txt"),
        topic="lines",
        transforms="wrap",
        transforms__wrap__type="HoistField$Value",
        transforms__wrap__field="line",
    )


@pytest.fixture
def sink(tmp_path: Path) -> str:
    return write(
        tmp_path / "sink.properties",
        connector__class="SqlSink",
        topics="orders",
        connection__driver="sqlite3",
        connection__url=str(tmp_path / "orders.db"),
        auto__create="true",
        transforms="route",
        transforms__route__type="RegexRouter",
        transforms__route__regex="(.*)",
        transforms__route__replacement="$1_copy",
    )


def test_a_source_is_measured_stage_by_stage(source: str, home: Path) -> None:
    done = cli_run("try", source, "--measure", home=home, expect=0)
    titles, *rows = done.stdout.splitlines()
    assert titles.split() == ["STAGE", "PLUGIN", "FORM", "CALLS", "US/RECORD", "CPU", "US/RECORD", "SHARE"]
    assert [row.split()[0] for row in rows[:3]] == ["poll", "key.converter", "value.converter"]
    assert "3 records: " in done.stdout
    assert "--timeout reads more of a source" in done.stderr


def test_a_sink_is_measured_with_its_input_again_and_again(sink: str, tmp_path: Path, home: Path) -> None:
    given = tmp_path / "in.jsonl"
    schema = '{"type": "struct", "fields": [{"field": "id", "type": "int64"}]}'
    given.write_text(f'{{"schema": {schema}, "payload": {{"id": 1}}}}\n')
    Path(sink).write_text(Path(sink).read_text().replace("enable=false", "enable=true"))
    done = cli_run("try", sink, "--input", str(given), "--measure", "--limit", "500", "-o", "json", home=home, expect=0)
    assert (done.json["records"], done.json["kept"]) == (500, 500)
    assert [stage["stage"] for stage in done.json["stages"]][-2:] == ["put", "flush"]
    assert done.json["records_per_second"] > 0
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db")) as database, database:
        assert database.execute("select count(*) from orders_copy").fetchone() == (500,)


def test_a_source_is_shown_stage_by_stage(source: str, home: Path) -> None:
    done = cli_run("try", source, "--limit", "2", home=home, expect=0)
    lines = done.stdout.splitlines()
    assert lines[0] == "record 1: written"
    assert 'value="one"' in lines[1]
    assert lines[2].strip().startswith('transform wrap  value={"line": "one"}')
    assert lines[3].strip() == 'bytes           topic="lines"  key=null  value="{\\"line\\":\\"one\\"}"'
    assert lines[4] == "record 2: written"
    assert "2 records" in done.stderr


def test_what_a_source_makes_of_its_offsets_is_reported(tmp_path: Path, connect: Command) -> None:
    (tmp_path / "quiet.py").write_text(_QUIET)
    quiet = write(tmp_path / "quiet.properties", connector__class="quiet.QuietSource")
    options = ["--timeout", "1", "--plugin-path", str(tmp_path)]
    done = connect("try", quiet, *options, expect=0)
    assert 'update_offsets(): {"table": "a"} -> {"row": 7}' in done.stderr


def test_misspelt_settings_are_reported_as_create_tells_them(tmp_path: Path, connect: Command) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    settings = {"connector__class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}
    slips = {"task__max": "2", "batch__sizes": "7", "value__converter__schemas__enabel": "true", "colour": "red"}
    file = write(tmp_path / "slips.properties", **settings, **slips)

    done = connect("try", file, "--limit", "1", expect=0)

    assert done.stdout.startswith("record 1: written\n")
    assert done.stderr.splitlines() == [
        "Warning: tried: Unknown setting: task.max. Did you mean tasks.max?",
        "Warning: tried: Unknown setting: batch.sizes. Did you mean batch.size?",
        "Warning: tried: Unknown setting: value.converter.schemas.enabel. Did you mean value.converter.schemas.enable?",
        "1 record",
    ]


def test_a_misspelt_setting_that_is_required_is_reported_before_it_is_missed(tmp_path: Path, connect: Command) -> None:
    file = write(tmp_path / "missing.properties", connector__class="FileStreamSource", topc="lines")
    reported = connect("try", file, expect=1).stderr.splitlines()
    assert reported[0] == "Warning: tried: Unknown setting: topc. Did you mean topic?"
    assert "topic" in reported[1]


def test_json_of_a_source_is_input_of_a_sink(source: str, sink: str, connect: Command, tmp_path: Path) -> None:
    done = connect("try", source, "--limit", "3", "-o", "json", expect=0)
    assert [row["outcome"] for row in done.json] == ["written"] * 3
    assert [view["stage"] for view in done.json[0]["stages"]] == ["connector", "transform wrap", "bytes"]
    put = connect("try", sink, "--input", "-", "--format", "records", stdin=done.stdout, expect=0)
    assert put.stdout.count(": put") == 3
    assert 'topic="lines_copy"' in put.stdout
    connection = sqlite3.connect(tmp_path / "orders.db")
    assert connection.execute("SELECT line FROM lines_copy").fetchall() == [("one",), ("two",), ("three",)]
    connection.close()


def test_the_record_and_the_stage_that_fail_are_named(sink: str, connect: Command) -> None:
    failed = connect("try", sink, "--input", "-", stdin='{"id": 1}\n{oops\n{"id": 3}\n', expect=1)
    assert "Record 2: value.converter failed" in failed.stderr
    assert "JSONDecodeError" in failed.stderr
    assert "record 3" not in failed.stdout
    put = connect("try", sink, "--input", "-", stdin='{"id": 4}\n"text"\n', expect=1)
    assert "Record 2: put failed (kconnect.builtin.connectors.sql.sql_sink.SqlSinkTask)" in put.stderr
    rows = connect("try", sink, "--input", "-", "-o", "json", stdin="{oops\n", expect=1).json
    assert rows[0]["failure"]["stage"] == "value.converter"
    assert rows[0]["failure"]["tolerated"] is False


def test_a_tolerated_failure_is_shown_and_the_rest_goes_on(sink: str, connect: Command) -> None:
    with Path(sink).open("a") as file:
        file.write("errors.tolerance=all\n")
    done = connect("try", sink, "--input", "-", stdin='{oops\n{"id": 3}\n"text"\n', expect=0)
    assert [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("record")] == [
        "failed",
        "put",
        "failed",
    ]
    assert done.stdout.count("tolerated") == 2


def test_a_failing_transform_is_named_by_its_alias(source: str, connect: Command) -> None:
    path = Path(source)
    kept = [line for line in path.read_text().splitlines() if not line.startswith("transforms")]
    bad = ["transforms=bad", "transforms.bad.type=InsertField$Value"]
    bad += ["transforms.bad.static.field=a", "transforms.bad.static.value=b"]
    path.write_text("\n".join([*kept, *bad]) + "\n")
    failed = connect("try", source, expect=1)
    assert "Record 1: transform bad failed" in failed.stderr


def test_secrets_are_resolved_and_stay_references_on_the_screen(tmp_path: Path, home: Path) -> None:
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=nowhere:1\nkey.converter=StringConverter\nvalue.converter=StringConverter\n"
        "config.providers=env\nconfig.providers.env.class=EnvVarConfigProvider\n"
    )
    (tmp_path / "in.txt").write_text("hello\n")
    connector = write(
        tmp_path / "s.properties",
        connector__class="FileStreamSource",
        file=str(tmp_path / "in.txt"),
        topic="lines",
        transforms="stamp",
        transforms__stamp__type="HoistField$Value",
        transforms__stamp__field="${env:FIELD_NAME}",
    )
    worker = str(tmp_path / "worker.properties")
    done = cli_run(
        "try", connector, "--worker", worker, "--limit", "1", home=home, env={"FIELD_NAME": "s3cr3t-name"}, expect=0
    )
    assert "${env:FIELD_NAME}" in done.stdout
    assert "s3cr3t-name" not in done.stdout + done.stderr


_LEAKY = """
from kconnect.api import ConfigDef, SinkConnector, SinkTask


class LeakyTask(SinkTask):
    def start(self, props):
        self.props = props
        if props["fails.in"] == "start":
            raise ValueError(f"no login with {props['pin']} and {props['name.of.file']}")

    def put(self, records):
        raise ValueError(f"no put with {self.props['pin']} and {self.props['name.of.file']}")

    def stop(self): ...


class LeakySink(SinkConnector):
    def config(self):
        return ConfigDef().define("pin", ConfigDef.Type.PASSWORD)

    def start(self, props):
        self.props = dict(props)

    def stop(self): ...
    def task_class(self): return LeakyTask
    def task_configs(self, max_tasks): return [self.props]
"""


@pytest.mark.parametrize(("fails_in", "output"), [("start", "table"), ("put", "table"), ("put", "json")])
def test_errors_of_a_plugin_show_neither_passwords_nor_what_was_referred_to(
    tmp_path: Path, home: Path, fails_in: str, output: str
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "leaky_of_try.py").write_text(_LEAKY)
    (tmp_path / "worker.properties").write_text(
        "bootstrap.servers=nowhere:1\nkey.converter=StringConverter\nvalue.converter=StringConverter\n"
        "config.providers=env\nconfig.providers.env.class=EnvVarConfigProvider\n"
    )
    config = {"connector.class": "leaky_of_try.LeakySink", "topics": "t", "pin": "hunter-2", "fails.in": fails_in}
    config["name.of.file"] = "${env:FILE_NAME}"
    connector = tmp_path / "s.properties"
    connector.write_text("name=leaky\n" + "".join(f"{key}={value}\n" for key, value in config.items()))
    words = ("try", str(connector), "--worker", str(tmp_path / "worker.properties"), "--input", "-", "-o", output)
    plugins = ("--plugin-path", str(tmp_path / "plugins"), "--verbose")
    done = cli_run(*words, *plugins, home=home, stdin="a\n", env={"FILE_NAME": "s3cr3t-name"}, expect=1)
    reported = done.stdout + done.stderr
    assert "ValueError: no " in reported
    assert "[hidden]" in reported
    assert "hunter-2" not in reported
    assert "s3cr3t-name" not in reported


def test_calls_that_can_not_work_are_reported(source: str, sink: str, connect: Command, tmp_path: Path) -> None:
    assert "--input" in connect("try", sink, expect=2).stderr
    assert "is a source" in connect("try", source, "--input", "x", expect=2).stderr
    connect("try", sink, "--input", str(tmp_path / "missing"), expect=3)
    bad = connect("try", sink, "--input", "-", "--format", "records", stdin='{"vale": 1}', expect=1)
    assert "record 1 of stdin has unknown fields: vale" in bad.stderr
    wrong = write(tmp_path / "w.properties", connector__class="SqlSink", topics="t")
    assert "connection.driver" in connect("try", wrong, "--input", "-", expect=1).stderr


def test_a_new_project_passes_its_tests_and_checks_as_made(tmp_path: Path, home: Path) -> None:
    done = cli_run("plugins", "new", "kconnect-Weather_now", home=home, cwd=tmp_path, expect=0)
    folder = tmp_path / "kconnect-Weather_now"
    assert done.stdout == "kconnect-Weather_now\n"
    python = [sys.executable, "-m"]
    for command in (
        [*python, "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        [*python, "ruff", "check", "--no-cache", "."],
        [*python, "ruff", "format", "--no-cache", "--check", "."],
    ):
        env = cli_env(home, {"PYTHONPATH": "src"})
        ran = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=ample_s(60), check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    tried = cli_run(
        "try",
        "source.properties",
        "--plugin-path",
        "src",
        "--limit",
        "3",
        "-o",
        "json",
        home=home,
        cwd=folder,
        expect=0,
    )
    values = [json.loads(row["stages"][-1]["record"]["value"]) for row in tried.json]
    assert values[2] == {"number": 3, "square": 9}
    cli_run(
        "try",
        "sink.properties",
        "--plugin-path",
        "src",
        "--input",
        "tests/records.jsonl",
        home=home,
        cwd=folder,
        expect=0,
    )
    assert (folder / "numbers.jsonl").read_text().splitlines() == ['{"number": 1}', '{"number": 2}']


def test_a_project_is_not_made_over_another_or_with_a_name_that_is_none(tmp_path: Path, home: Path) -> None:
    cli_run("plugins", "new", "mine", home=home, cwd=tmp_path, expect=0)
    taken = cli_run("plugins", "new", "mine", home=home, cwd=tmp_path, expect=4)
    assert "not empty" in taken.stderr
    cli_run("plugins", "new", "../evil", home=home, cwd=tmp_path, expect=2)
