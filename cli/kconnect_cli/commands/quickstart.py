"""`connect quickstart`: broker, worker, a file source and a file sink in a folder; seen at work, then removed."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from kconnect.errors import TimedOutError
from kconnect_cli.processes.broker_progress import FetchTalk, tell_preparation
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import CliSession, Verbose, session_of

if TYPE_CHECKING:
    from kconnect.java.devbroker import DevBroker
    from kconnect.runtime.config import ConnectorFile

T = TypeVar("T")

_LINES = (
    "Hello, Connect!",
    "These lines were written to a file,",
    "read by a source task in a Spark slot,",
    "kept in a Kafka topic,",
    "and written to a second file by a sink task.",
)
_BURST = 500_000
_FILLING = b"." * 91  # with number, space and line end: 101 bytes, 100 of them the record
# A cold machine downloads nothing here any more, but may need 20 s for Spark's first start
_WITHIN_S = 90.0
_SOURCE, _SINK, _TOPIC = "quickstart-in", "quickstart-out", "quickstart"


@dataclass(frozen=True, slots=True)
class _Places:
    """The quickstart's folder; it is removed at the end."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "in.txt"

    @property
    def sink(self) -> Path:
        return self.folder / "out.txt"


def quickstart(ctx: typer.Context, verbose: Verbose = False) -> None:
    """Run the whole path once: a file, through Spark, into a real Kafka topic, into a second file.

    Uses free ports and its own folder, and cleans up everything at the end.
    """
    from kconnect.logs import log_context as logs

    session = session_of(ctx)
    session.choose(None, None, verbose)
    logs.configure(logging.INFO if verbose else logging.WARNING, sys.stderr)
    began = time.monotonic()
    with signals_raise(), ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="kconnect-quickstart-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _tour(session, stack, _Places(folder))
        session.say("\nStopping worker, slots and broker ..")
    session.say(f"Done in {time.monotonic() - began:.0f} s; {_left_running()}.\n\n{_path_hint()}{_NEXT}")


def _left_running() -> str:
    from kconnect.java.archives import has_started_makers

    if has_started_makers():
        return "a background job runs for about half a minute more, to make the next starts faster"
    return "nothing is left running"


def _tour(session: CliSession, stack: ExitStack, places: _Places) -> None:
    from kconnect.worker import StandaloneWorker

    step = _Steps(session)
    broker = step("Starting a real Kafka broker", lambda: _start_broker(session, stack, places))
    places.source.touch()
    worker = StandaloneWorker(_worker_properties(broker.bootstrap, places), _connectors(places))
    stack.callback(worker.stop)
    step("Starting a worker with two connectors", worker.start)
    session.say(f"     REST answers at {worker.rest_url}")
    step(
        "Starting Spark and its slots, where the tasks run",
        lambda: _until(lambda: worker.wait_until_running(1.0), "the tasks run"),
    )
    _show_lines(session, places)
    _show_burst(session, places)
    for status in worker.statuses():
        tasks = ", ".join(f"task {task.id} {task.state}" for task in status.tasks)
        session.say(f"     {status.name}: {status.type}, {status.connector.state}, {tasks}")


def _show_lines(session: CliSession, places: _Places) -> None:
    """Append the lines one by one, and print each as it arrives at the other end."""
    session.say("\nEach line goes into the file, and comes out of the second file:\n")
    with places.source.open("a") as source:
        for line in _LINES:
            wrote = time.monotonic()
            source.write(line + "\n")
            source.flush()
            _until(lambda: _lines(places.sink)[-1:] == [line], f"{line!r} arrives in {places.sink}")  # noqa: B023 - called at once
            write_text(f"{line}\n")
            session.say(f"     {(time.monotonic() - wrote) * 1000:.0f} ms")


def _show_burst(session: CliSession, places: _Places) -> None:
    session.say(f"\nNow {_BURST:,} lines of 100 bytes at once:")
    size_before = places.sink.stat().st_size
    burst = b"".join(b"%08d %s\n" % (number, _FILLING) for number in range(_BURST))
    wrote = time.monotonic()
    with places.source.open("ab") as source:
        source.write(burst)
    _until(lambda: places.sink.stat().st_size >= size_before + len(burst), "the burst arrives")
    took = time.monotonic() - wrote
    session.say(
        f"     all in the second file after {took:.1f} s: {_BURST / took:,.0f} records a second, through Kafka\n"
    )


def _start_broker(session: CliSession, stack: ExitStack, places: _Places) -> DevBroker:
    from kconnect.java.devbroker import DevBroker, free_port
    from kconnect.runtime.kafka import KafkaAdmin, TopicInfo

    broker = stack.enter_context(DevBroker(free_port(), places.folder / "broker", progress=FetchTalk(session)))
    tell_preparation(session, broker)
    # Without it both connectors warn that their topic does not exist, and the sink looks for it 2 s later
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "quickstart") as admin:
        admin.create_topic(TopicInfo(_TOPIC, partitions=1, replication_factor=1), _WITHIN_S)
    return broker


def _worker_properties(bootstrap: str, places: _Places) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "listeners": "http://127.0.0.1:0",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": str(places.folder / "connect.offsets"),
    }


def _connectors(places: _Places) -> list[ConnectorFile]:
    from kconnect.runtime.config import ConnectorFile

    source = {"connector.class": "FileStreamSource", "file": str(places.source), "topic": _TOPIC}
    sink = {"connector.class": "FileStreamSink", "file": str(places.sink), "topics": _TOPIC}
    return [
        ConnectorFile(places.folder / f"{name}.properties", name, {"name": name, **config}, None)
        for name, config in ((_SOURCE, source), (_SINK, sink))
    ]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _until(check: Callable[[], T], what: str) -> T:
    """The first truthy answer. Errors: TimedOutError naming what it waited for."""
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        if answer := check():
            return answer
        time.sleep(0.002)
    raise TimedOutError(f"Gave up after {_WITHIN_S:g} s waiting until {what}", hint="Run it with --verbose.")


class _Steps:
    """Prints each step and how long it took."""

    def __init__(self, session: CliSession) -> None:
        self._session = session

    def __call__(self, what: str, action: Callable[[], T]) -> T:
        began = time.monotonic()
        self._session.say(f"{what} ..")
        answer = action()
        self._session.say(f"     {time.monotonic() - began:.1f} s")
        return answer


def _path_hint() -> str:
    """How to find `connect` in the shell, if it was started by its path, as `make quickstart` does."""
    folder = Path(sys.argv[0]).absolute().parent
    if shutil.which("connect") or not (folder / "connect").exists():
        return ""
    return f'The command is in {folder}:\n  export PATH="{folder}:$PATH"\n\n'


_NEXT = """What to try next:
  connect standalone --broker            a worker on port 8083 with connectors.d/, a broker on 9092
  echo hello >> lines.txt                .. in the same folder: it comes out in lines.sink.txt
  connect connectors list                what runs, and how it is
  connect offsets show local-file-source where the source stands
  connect standalone YOUR-worker.properties YOUR-connector.properties"""
