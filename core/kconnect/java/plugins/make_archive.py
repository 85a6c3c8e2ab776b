"""A process that makes the class archive of host JVMs: has Java do once what connectors do, and write its classes.

`python -m kconnect.java.plugins.make_archive [--background] [FOLDER]`: FOLDER is the cache, the user's own by default.
Kafka's jars are fetched first if they are missing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from kconnect.api import MetricName
from kconnect.errors import ConnectError
from kconnect.files.folders import cache_folder
from kconnect.java.archives import ClassArchive, arguments, run_maker
from kconnect.java.installed import find_java
from kconnect.java.plugins.connectors import JavaSinkConnector, JavaSourceConnector
from kconnect.java.plugins.encoded import JavaChain, JavaPart, JavaStep
from kconnect.java.plugins.host import HostProcess, JavaSettings
from kconnect.java.plugins.hosting import java_class
from kconnect.java.plugins.index import JavaIndex
from kconnect.java.plugins.program import HostProgram
from kconnect.java.plugins.sink_task import JavaSinkTask, RawRun
from kconnect.java.plugins.source_task import JavaSourceTask
from kconnect.model import TopicPartition

# A JVM that writes an archive takes 2 s to end, and ten times that on a machine under load.
_STOP_TIMEOUT_S: Final = 40.0
_PACKAGE: Final = "org.apache.kafka.connect"
_STEPS: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("HoistField$Value", {"field": "line"}),
    ("InsertField$Value", {"static.field": "source", "static.value": "archive"}),
    ("RegexRouter", {"regex": "(.*)", "replacement": "$1"}),
)


def _part(name: str, config: Mapping[str, str]) -> JavaPart:
    return JavaPart(f"{_PACKAGE}.{name}", None, config)


_CONVERTERS: Final = (
    _part("storage.StringConverter", {}),
    _part("json.JsonConverter", {"schemas.enable": "true"}),
    _part("json.JsonConverter", {"schemas.enable": "false"}),
)
_HEADER: Final = _part("storage.SimpleHeaderConverter", {})


def main(given: Sequence[str]) -> int:
    """Make the archive, unless there is one or another process makes it; the exit code."""
    background, cache = arguments(given, cache_folder())
    try:
        making = HostMaking(cache)
    except ConnectError as error:
        sys.stderr.write(f"The class archive for Java's plugins was not made: {error}\n")
        return 1
    return run_maker(making, background=background)


class HostMaking:
    """The host's part of it; implements Making."""

    title = "The host's"

    def __init__(self, cache: Path) -> None:
        """Errors: EnvironmentProblemError (no Java), UnreachableError (Kafka cannot be fetched)."""
        self.archive: ClassArchive = HostProgram.find(find_java("Java's plugins"), cache).archive
        self._host = HostProcess(JavaIndex(), JavaSettings(), recorded=self.archive.unfinished)

    def make(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kconnect-host-archive-") as folder:
            file = Path(folder) / "lines.txt"
            file.write_text("one\ntwo\n")
            try:
                self._ask_connectors(file)
                for converter in _CONVERTERS:
                    self._poll(file, converter)
                    self._put(Path(folder) / "out.txt", converter)
            finally:
                self._host.stop(_STOP_TIMEOUT_S)

    def abort(self) -> None:
        self._host.stop(0.0)

    def _ask_connectors(self, file: Path) -> None:
        config = {"name": "archive", "file": str(file), "topic": "archive", "topics": "archive"}
        for kind, base in (("Source", JavaSourceConnector), ("Sink", JavaSinkConnector)):
            connector = java_class(f"{_PACKAGE}.file.FileStream{kind}Connector", None, base, self._host)()
            connector.validate(config)
            connector.task_class()
            connector.context = _Context()  # type: ignore[assignment]  # as below
            connector.start(config)
            connector.task_configs(1)
            connector.stop()

    def _poll(self, file: Path, converter: JavaPart) -> None:
        task = java_class(f"{_PACKAGE}.file.FileStreamSourceTask", None, JavaSourceTask, self._host)()
        task.context = _Context()  # type: ignore[assignment]  # what a task without a pipeline needs of it
        steps = tuple(JavaStep(_part(f"transforms.{name}", config)) for name, config in _STEPS)
        task.encode_with(JavaChain(steps, converter, converter, _HEADER))
        task.start({"file": str(file), "topic": "archive", "batch.size": "10"})
        task.poll()
        task.commit()
        task.stop()

    def _put(self, target: Path, converter: JavaPart) -> None:
        task = java_class(f"{_PACKAGE}.file.FileStreamSinkTask", None, JavaSinkTask, self._host)()
        task.context = _Context()  # type: ignore[assignment]  # what a task without a pipeline needs of it
        task.decode_with(JavaChain((), converter, converter, _HEADER))
        task.start({"file": str(target), "topics": "archive"})
        place = TopicPartition("archive", 0)
        task.open([place])
        batch = task.new_batch()
        task.take(batch, RawRun("archive", 0, [0], None, [b"1"], None, "CreateTime", None))
        task.put_soon(batch)
        task.settle(batch)
        task.pre_commit({place: 1})
        task.stop()


class _Context:
    """Has as much of a task's context as these tasks ask for."""

    def transaction_context(self) -> None:
        return None

    def errant_record_reporter(self) -> None:
        return None

    def assignment(self) -> set[TopicPartition]:
        return set()

    def plugin_metrics(self) -> _Context:
        return self

    def metric_name(self, name: str, description: str) -> MetricName:
        return MetricName(name, description, (("connector", "archive"),))

    def offset_storage_reader(self) -> _Context:
        return self

    def offsets(self, partitions: Collection[object]) -> list[None]:
        return [None for _ in partitions]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
