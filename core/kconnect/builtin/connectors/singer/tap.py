"""A running tap: its lines, what it says on stderr, and its end; and what its lines mean.

`Messages` takes a message a line: schemas are kept, records become records of Connect, states are given.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import IO, Any

from kconnect.api import ConnectError, DataError, SchemaBuilder, SourceRecord, Struct
from kconnect.builtin.connectors.singer import guard
from kconnect.builtin.connectors.singer.shapes import StructShape, json_text, stream_shape
from kconnect.builtin.types.exact_numbers import exact_json
from kconnect.builtin.types.iso_text import moment_of_iso

log = logging.getLogger(__name__)

_SECRET = re.compile(r"(?i)pass|secret|token|key|credential|auth|private|signature|dsn|connection")
_SHORTEST_SECRET = 4
_MOST_WAITING = 10_000
_TAIL_LINES = 8
# Above the grace that the guard gives the tap
_STOP_S = 4.0


class Tap:
    """One run of a tap. States: start() -> take()* -> ended -> stop().

    Threads: the caller's, and two that read its output. It must be started on a thread that lives as long as it should:
    when that thread ends, the tap is ended.
    """

    def __init__(
        self, command: Sequence[str], files: Mapping[str, str], secrets: Sequence[str], wake: Callable[[], None]
    ) -> None:
        """`files`: options that name a file, with the text that goes into it."""
        self.name = os.path.basename(command[0])
        self._command, self._files, self._wake = list(command), dict(files), wake
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: deque[bytes] = deque()
        self._room = threading.Condition()  # notified when lines were taken, and by stop()
        self._is_stopping = False
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._threads: list[threading.Thread] = []
        self._last_s = time.monotonic()

    def start(self) -> None:
        """Errors: ConnectError when the settings cannot be written."""
        try:
            folder = Path(tempfile.mkdtemp(prefix="kconnect-singer-"))  # for its owner alone
            options: list[str] = []
            for option, text in self._files.items():
                file = folder / f"{option.lstrip('-')}.json"
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                    out.write(text)
                options += [option, str(file)]
        except OSError as err:
            raise ConnectError(f"The settings of {self.name} cannot be written: {err}") from err
        watch = [sys.executable, "-I", "-S", str(guard.__file__), str(folder), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [*watch, *self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as err:
            shutil.rmtree(folder, ignore_errors=True)
            raise ConnectError(f"{self.name} cannot be run: {err}") from err
        for title, read, stream in (
            ("out", self._read_lines, self._process.stdout),
            ("log", self._read_log, self._process.stderr),
        ):
            thread = threading.Thread(target=read, args=(stream,), name=f"singer-{title}-{self.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self, most: int) -> list[bytes]:
        """Lines that it wrote since."""
        lines = self._lines
        found = [lines.popleft() for _ in range(min(most, len(lines)))]
        if found:
            with self._room:
                self._room.notify_all()
        return found

    def silent_s(self) -> float:
        """How long it has not written a line, though it could."""
        return 0.0 if self._lines else time.monotonic() - self._last_s

    def ended(self) -> int | None:
        """Its exit code, once all its lines were taken; None before."""
        assert self._process is not None
        if self._threads[0].is_alive() or self._lines:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_STOP_S)
        return None

    def tail(self) -> str:
        """The last that it said on stderr, without secrets."""
        self._threads[1].join(1.0)
        return "\n".join(self._tail)

    def stop(self) -> None:
        """End it, with what it has started, and remove its settings."""
        with self._room:
            self._is_stopping = True
            self._room.notify_all()
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                log.warning("%s does not end, and is killed", self.name)
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join(_STOP_S)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _read_lines(self, stream: IO[bytes]) -> None:
        for line in stream:
            if len(self._lines) >= _MOST_WAITING:
                with self._room:
                    self._room.wait_for(lambda: self._is_stopping or len(self._lines) < _MOST_WAITING)
            if self._is_stopping:
                break
            self._last_s = time.monotonic()
            self._lines.append(line)
            if len(self._lines) == 1:
                self._wake()
        self._last_s = time.monotonic()
        self._wake()

    def _read_log(self, stream: IO[bytes]) -> None:
        for raw in stream:
            line = raw.decode(errors="replace").rstrip()
            for secret in self._secrets:
                line = line.replace(secret, "[hidden]")
            if line:
                self._tail.append(line)
                log.info("%s: %s", self.name, line)


def secrets_of(config: Any) -> list[str]:
    """The texts in a tap's settings that may be secret, by the names of their fields."""
    found: list[str] = []

    def look(value: Any, is_secret: bool) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                look(part, is_secret or bool(_SECRET.search(name)))
        elif isinstance(value, list):
            for part in value:
                look(part, is_secret)
        elif is_secret and isinstance(value, str) and len(value) >= _SHORTEST_SECRET:
            found.extend({value, json.dumps(value)[1:-1]})

    look(config, False)
    return found


_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class State:
    """How far the tap has got, as it wants to have it at its next start; `text` is JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that does not fit its stream's schema. `record` has what it holds, without a schema."""

    record: SourceRecord
    error: DataError


class _Stream:
    """What is known of a stream: its shape, and the schema of its keys, which are fields of it."""

    def __init__(self, name: str, described: str, shape: StructShape, keys: Sequence[str]) -> None:
        self.described, self.shape = described, shape
        self._name, self._keys = name, keys
        self._build()

    def learn(self, record: Any) -> None:
        """Take in fields that the tap did not describe. Errors: DataError for a member without a name."""
        before = self.shape.schema
        try:
            self.shape.learn(record)
        finally:
            if self.shape.schema is not before:
                self._build()

    def key_of(self, value: Struct) -> Struct | None:
        if self.key_schema is None:
            return None
        key = Struct(self.key_schema)
        for field in self.key_schema.fields:
            key.put(field, value.get(field.name))
        return key

    def _build(self) -> None:
        fields = [field for name in self._keys if (field := self.shape.schema.field(name)) is not None]
        builder = SchemaBuilder.struct().name(f"{self._name}.Key")
        for field in fields:
            builder.field(field.name, field.schema)
        self.key_schema = builder.build() if fields else None


class Messages:
    """Reads the lines of one tap. `partition` is the source partition of its records.

    Errors: DataError for a line that is no message, with its number and text.
    """

    def __init__(self, name: str, topic_prefix: str, partition: Mapping[str, str]) -> None:
        self._name, self._prefix, self._partition = name, topic_prefix, dict(partition)
        self._streams: dict[str, _Stream] = {}
        self._unknown: set[str] = set()
        self._lines = 0

    def read(self, line: bytes) -> SourceRecord | BadRecord | State | None:
        """What a line says; None for one that says nothing to us."""
        self._lines += 1
        if not line.strip():
            return None
        message = self._parsed(line)
        kind = message.get("type")
        if kind == "RECORD":
            return self._record(message, line)
        if kind == "STATE":  # of nothing, it would take the place of the last one, and no tap begins at null
            return None if message.get("value") is None else State(json_text(message["value"]))
        if kind == "SCHEMA":
            self._schema(message, line)
        elif kind == "BATCH":
            raise DataError(
                f"{self._name} writes batches to files (line {self._lines}), which cannot be read",
                hint="Take batch_config out of singer.config.",
            )
        elif kind not in ("ACTIVATE_VERSION", *self._unknown):
            self._unknown.add(str(kind))
            log.warning("%s writes messages of type %s, which have no effect", self._name, kind)
        return None

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            message = exact_json(line)
        except ValueError as err:
            raise self._no_message(line, "it is not JSON") from err
        if not isinstance(message, dict) or "type" not in message:
            raise self._no_message(line, "it has no type")
        return message

    def _schema(self, message: Mapping[str, Any], line: bytes) -> None:
        name, node = message.get("stream"), message.get("schema")
        if not isinstance(name, str) or not isinstance(node, dict):
            raise self._no_message(line, "a SCHEMA has a stream and a schema")
        keys = message.get("key_properties") or []
        keys = [keys] if isinstance(keys, str) else keys
        described = json.dumps([node, keys], sort_keys=True, default=str)
        known = self._streams.get(name)
        if known is not None and known.described == described:
            return
        if known is not None:
            log.info("The schema of stream %s of %s has changed", name, self._name)
        shape = stream_shape(node, name)
        if known is not None:
            shape.add(known.shape.added)
        self._streams[name] = _Stream(name, described, shape, keys)

    def _record(self, message: Mapping[str, Any], line: bytes) -> SourceRecord | BadRecord:
        name, held = message.get("stream"), message.get("record")
        stream = self._streams.get(str(name))
        if stream is None:
            raise self._no_message(line, f"no SCHEMA of stream {name} came before it")
        topic = f"{self._prefix}{name}"
        try:
            stream.learn(held)
            value = stream.shape.convert(held)
        except DataError as err:
            reported = DataError(f"A record of stream {name} (line {self._lines} of {self._name}) does not fit: {err}")
            reported.__cause__ = err
            return BadRecord(SourceRecord(self._partition, None, topic, held), reported)
        return SourceRecord(
            self._partition,
            None,
            topic,
            value,
            value_schema=stream.shape.schema,
            key=stream.key_of(value),
            key_schema=stream.key_schema,
            timestamp=_extracted_ms(message.get("time_extracted")),
        )

    def _no_message(self, line: bytes, why: str) -> DataError:
        text = line.decode(errors="replace").strip()
        shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + ".."
        return DataError(
            f"Line {self._lines} of {self._name} is not a message of Singer, {why}: {shown}",
            hint="A tap writes messages to its standard output, and what it has to say to stderr.",
        )


def _extracted_ms(text: Any) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        moment = moment_of_iso(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
