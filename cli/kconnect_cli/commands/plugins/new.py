"""`connect plugins new`: a project with a source, a sink, tests and entry points; it passes its tests as made.

TEMPLATES are its files; @PACKAGE@ and the like stand for its names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from kconnect.errors import AlreadyExistsError
from kconnect.files.durable_file import replace_file
from kconnect_cli.exits import UsageProblem
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import Verbose, session_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the project, such as kconnect-weather.")],
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Folder to create it in. [default: ./NAME]", show_default=False),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Make a project for a source and a sink of your own: code, tests, entry point, connector files."""
    session = session_of(ctx)
    session.choose(None, None, verbose)
    if not _NAME.fullmatch(name):
        raise UsageProblem(
            f"{name!r} is not a valid name for a project.",
            hint="Use letters, digits and single dashes, starting with a letter: my-connector.",
        )
    target = folder or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise AlreadyExistsError(f"{target} exists and is not empty.", hint="Choose another name, or --dir.")
    for path, text in project_files(name).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text)
    write_text(f"{target}\n")
    session.say(f"Next: cd {target} && python -m pytest && connect try source.properties --plugin-path src")


def project_files(name: str) -> dict[str, str]:
    """Every file of a new project by its path."""
    package = re.sub(r"[-_]+", "_", name).lower()
    words = {
        "PROJECT": re.sub(r"[-_]+", "-", name).lower(),
        "PACKAGE": package,
        "CLASS": "".join(word.capitalize() for word in package.split("_")),
        "PYTHON": "3.11",
    }
    found = {}
    for path, text in TEMPLATES.items():
        for word, value in words.items():
            path, text = path.replace(f"@{word}@", value), text.replace(f"@{word}@", value)
        found[path] = text
    return found


_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "@PROJECT@"
version = "0.1.0"
description = "A source and a sink for Kafka Connect, written with kconnect"
readme = "README.md"
requires-python = ">=@PYTHON@"
dependencies = ["kconnect"]

# By these names connector.class finds the connectors once the project is installed beside kconnect.
[project.entry-points."kconnect.plugins"]
@CLASS@Source = "@PACKAGE@.source:@CLASS@SourceConnector"
@CLASS@Sink = "@PACKAGE@.sink:@CLASS@SinkConnector"

[dependency-groups]
dev = ["pytest", "ruff"]

[tool.hatch.build.targets.wheel]
packages = ["src/@PACKAGE@"]

[tool.pytest.ini_options]
pythonpath = ["src"]
testpaths = ["tests"]

[tool.ruff]
line-length = 120
src = ["src", "tests"]

[tool.ruff.lint]
select = ["E", "F", "W", "I", "B", "UP", "SIM", "RUF", "ANN"]

[tool.ruff.lint.per-file-ignores]
"tests/**" = ["ANN"]
"""

_README = """\
# @PROJECT@

A source and a sink for Kafka Connect, run by [kconnect](https://pypi.org/project/kconnect/).
As made, the source counts and the sink writes lines of JSON to a file: change `poll` and `put` into what you need.

```bash
python -m pytest                                             # the harness of kconnect.testing: no Kafka, no Spark
connect try source.properties --plugin-path src --limit 3    # records of the source, stage by stage
connect try sink.properties --plugin-path src --input tests/records.jsonl
```

Then install it beside kconnect, and run it against Kafka:

```bash
pip install -e .
connect standalone worker.properties source.properties sink.properties
```

| file | what it is |
|---|---|
| `src/@PACKAGE@/source.py` | `@CLASS@Source`: settings, tasks, `poll` |
| `src/@PACKAGE@/sink.py` | `@CLASS@Sink`: settings, `put`, `flush` |
| `tests/` | restarts, crashes and bad records, in milliseconds |
| `pyproject.toml` | the entry points by which `connector.class` finds them |
"""

_SOURCE = '''\
"""@CLASS@Source: counts; replace `poll` by what reads your system."""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.api import ConfigDef, SourceConnector, SourceRecord, SourceTask

CONFIG = (
    ConfigDef()
    .define("topic", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.NonEmptyString(), doc="Where records go.")
    .define("interval.ms", ConfigDef.Type.INT, 1000, ConfigDef.Range.at_least(1), doc="Time between two records.")
)


class @CLASS@SourceTask(SourceTask):
    """Moves the data: one task object, one thread. It begins behind the offset that was committed last."""

    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self.topic: str = config["topic"]
        self.interval_s: float = config["interval.ms"] / 1000
        self.partition = {"source": "counter"}
        committed = self.context.offset_storage_reader().offset(self.partition)
        self.count: int = committed["count"] if committed else 0
        self.wait_s = 0.0

    def poll(self) -> list[SourceRecord] | None:
        if self.context.wait(self.wait_s):
            return None  # the task is to stop
        self.wait_s = self.interval_s
        self.count += 1
        value = {"number": self.count, "square": self.count**2}
        return [SourceRecord(self.partition, {"count": self.count}, self.topic, value, key=str(self.count))]

    def stop(self) -> None:
        """Let go of connections here."""


class @CLASS@SourceConnector(SourceConnector):
    """Checks the settings and cuts the work into tasks."""

    def start(self, props: Mapping[str, str]) -> None:
        self.props = dict(props)

    def task_class(self) -> type[SourceTask]:
        return @CLASS@SourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.props]

    def stop(self) -> None:
        """Nothing runs beside the task."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return "0.1.0"
'''

_SINK = '''\
"""@CLASS@Sink: appends values as lines of JSON; replace `put` and `flush` by what writes to your system."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TextIO

from kconnect.api import ConfigDef, ConnectError, SinkConnector, SinkRecord, SinkTask, TopicPartition

CONFIG = ConfigDef().define(
    "file", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.NonEmptyString(), doc="File the lines go to."
)


class @CLASS@SinkTask(SinkTask):
    """Writes the data. Offsets are committed after `flush`: what was put since then comes again after a crash."""

    out: TextIO | None = None

    def start(self, props: Mapping[str, str]) -> None:
        name = CONFIG.parse(props)["file"]
        try:
            self.out = open(name, "a", encoding="utf-8")  # noqa: SIM115 - closed in stop()
        except OSError as err:
            raise ConnectError(f"The file of @CLASS@Sink cannot be opened: {err}") from err

    def put(self, records: list[SinkRecord]) -> None:
        assert self.out is not None
        for record in records:
            try:
                line = json.dumps(record.value, ensure_ascii=False)
            except TypeError as err:
                self.report(record, err)
                continue
            self.out.write(line + "\\n")

    def report(self, record: SinkRecord, error: Exception) -> None:
        """A record that cannot be written: to the dead letter queue if there is one, else the task fails."""
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise ConnectError(f"Offset {record.kafka_offset} of {record.topic} cannot be written: {error}") from error
        reporter.report(record, error)

    def flush(self, current_offsets: Mapping[TopicPartition, int]) -> None:
        assert self.out is not None
        self.out.flush()
        os.fsync(self.out.fileno())

    def stop(self) -> None:
        if self.out is not None:
            self.out.close()


class @CLASS@SinkConnector(SinkConnector):
    """Checks the settings and cuts the work into tasks."""

    def start(self, props: Mapping[str, str]) -> None:
        self.props = dict(props)

    def task_class(self) -> type[SinkTask]:
        return @CLASS@SinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self.props] * max_tasks

    def stop(self) -> None:
        """Nothing runs beside the tasks."""

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return "0.1.0"
'''

_TEST_SOURCE = '''\
"""The source in the harness: no Kafka, no Spark, no waiting."""

import pytest
from kconnect.api import ConfigError
from kconnect.testing import ManualClock, SourceHarness

from @PACKAGE@.source import @CLASS@SourceConnector

CONFIG = {"topic": "numbers", "interval.ms": "60000"}


def test_records_are_counted_and_reach_their_topic():
    with SourceHarness(@CLASS@SourceConnector, CONFIG, clock=ManualClock()) as source:
        assert [record.value["number"] for record in source.poll(3)] == [1, 2, 3]
        assert source.written("numbers")[2].json == {"number": 3, "square": 9}


def test_it_waits_between_records():
    clock = ManualClock()
    with SourceHarness(@CLASS@SourceConnector, CONFIG, clock=clock) as source:
        source.poll(3)
    assert clock.waits == [0.0, 60.0, 60.0]


def test_a_restart_goes_on_and_a_crash_goes_back_to_the_commit():
    source = SourceHarness(@CLASS@SourceConnector, CONFIG, clock=ManualClock()).start()
    source.poll(2)
    source.restart()
    assert source.offset(source="counter") == {"count": 2}
    assert source.poll(1)[0].value["number"] == 3
    source.crash()
    with source:
        assert source.poll(1)[0].value["number"] == 3


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="topic"):
        SourceHarness(@CLASS@SourceConnector, {}).start()
'''

_TEST_SINK = '''\
"""The sink in the harness: records in, lines out, again after a crash."""

import pytest
from kconnect.api import ConfigError, ConnectError
from kconnect.testing import SinkHarness

from @PACKAGE@.sink import @CLASS@SinkConnector


def sink_into(file, **more):
    return SinkHarness(@CLASS@SinkConnector, {"topics": "numbers", "file": str(file), **more})


def test_values_become_lines(tmp_path):
    file = tmp_path / "out.jsonl"
    with sink_into(file) as sink:
        sink.put({"number": 1}, {"number": 2})
        sink.put_bytes(b'{"number": 3}', None)
        assert list(sink.commit().values()) == [4]
    assert file.read_text().splitlines() == ['{"number": 1}', '{"number": 2}', '{"number": 3}', "null"]


def test_what_was_not_committed_comes_again_after_a_crash(tmp_path):
    file = tmp_path / "out.jsonl"
    sink = sink_into(file).start()
    sink.put("a")
    sink.commit()
    sink.put("b")
    sink.crash()
    with sink:
        assert sink.deliver() == 1
    assert file.read_text().splitlines() == ['"a"', '"b"', '"b"']


def test_a_record_that_can_not_be_written_is_reported(tmp_path):
    with sink_into(tmp_path / "out.jsonl", **{"errors.tolerance": "all"}) as sink:
        sink.put(b"no JSON", "fine")
        assert [errant.record.kafka_offset for errant in sink.errant] == [0]
    assert (tmp_path / "out.jsonl").read_text() == '"fine"\\n'


def test_settings_are_checked(tmp_path):
    with pytest.raises(ConfigError, match="file"):
        SinkHarness(@CLASS@SinkConnector, {"topics": "numbers"}).start()
    with pytest.raises(ConnectError, match="cannot be opened"):
        sink_into(tmp_path / "missing" / "out.jsonl").start()
'''

_SOURCE_PROPERTIES = """\
name=@PROJECT@-source
connector.class=@PACKAGE@.source.@CLASS@SourceConnector
topic=numbers
interval.ms=100
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
key.converter=org.apache.kafka.connect.storage.StringConverter
"""

_SINK_PROPERTIES = """\
name=@PROJECT@-sink
connector.class=@PACKAGE@.sink.@CLASS@SinkConnector
topics=numbers
file=numbers.jsonl
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
key.converter=org.apache.kafka.connect.storage.StringConverter
"""

_WORKER_PROPERTIES = """\
bootstrap.servers=localhost:9092
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename=connect.offsets
"""

TEMPLATES: dict[str, str] = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    ".gitignore": "__pycache__/\n.venv/\ndist/\nconnect.offsets\nnumbers.jsonl\n",
    "source.properties": _SOURCE_PROPERTIES,
    "sink.properties": _SINK_PROPERTIES,
    "worker.properties": _WORKER_PROPERTIES,
    "src/@PACKAGE@/__init__.py": '"""A source and a sink for Kafka Connect."""\n',
    "src/@PACKAGE@/source.py": _SOURCE,
    "src/@PACKAGE@/sink.py": _SINK,
    "tests/test_source.py": _TEST_SOURCE,
    "tests/test_sink.py": _TEST_SINK,
    "tests/records.jsonl": '{"number": 1}\n{"number": 2}\n',
}
