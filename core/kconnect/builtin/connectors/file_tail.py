"""Follow a growing byte stream and cut it into lines: the reading half of FileStreamSource."""

from __future__ import annotations

import logging
import os
import re
import select
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kconnect.api import ConnectError
from kconnect.api.wording import pluralize
from kconnect.java.compat.utf8 import decode_as_java

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# One read. Measured with tests/bench/micro_stages.py, from the file to StringConverter's bytes, a line of 100 B: 0.29
# us in chunks of 64 KiB, 0.10 us in 256 KiB, 0.06 us in 1 MiB, 0.13 us in 4 MiB (the processor's cache is too small).
CHUNK_BYTES = 1 << 20

# Half of what an Arrow string column can hold, so that a chunk behind the line fits too; no broker takes such a record.
MAX_LINE_BYTES = 1 << 30

LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(slots=True)
class Lines:
    """Complete lines without line ends, each with the position after it (None for a stream without positions)."""

    text: pa.StringArray
    positions: Callable[[], pa.Int64Array]


class Tail(Protocol):
    """Something that gives lines as they come."""

    def read_lines(self) -> Lines | None:
        """The next complete lines, or None if there are none yet. Never blocks."""
        ...

    def close(self) -> None: ...


class _Pending:
    """The line without an end so far, kept in pieces to avoid quadratic copying of a huge line."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.length = 0

    def take(self, chunk: bytes) -> bytes:
        """The lines that `chunk` completes, with line ends; the rest is kept. Empty if no line is complete."""
        cut = _end_of_last_line(chunk)
        if not cut and self._pieces and self._pieces[-1].endswith(b"\r"):
            whole = b"".join(self._pieces)  # no \n follows: the \r alone was a line end
            self._pieces, self.length = [chunk], len(chunk)
            return whole
        if not cut:
            self._pieces.append(chunk)
            self.length += len(chunk)
            if self.length > MAX_LINE_BYTES:
                raise ConnectError(
                    f"A line is longer than {MAX_LINE_BYTES} bytes",
                    hint="FileStreamSource reads text lines; is this a binary file?",
                )
            return b""
        # A view: a slice of the chunk would be a second copy of it, 0.1 us a line of 100 B (measured)
        whole = chunk if cut == len(chunk) and not self._pieces else b"".join([*self._pieces, memoryview(chunk)[:cut]])
        rest = chunk[cut:]
        self._pieces, self.length = ([rest], len(rest)) if rest else ([], 0)
        return whole

    def drain(self) -> bytes:
        rest = b"".join(self._pieces)
        self._pieces, self.length = [], 0
        return rest


def _end_of_last_line(chunk: bytes) -> int:
    r"""Index after the last line end in the chunk, 0 for none. A final \r may be half of \r\n and is not counted."""
    newline = chunk.rfind(b"\n") + 1
    carriage = chunk.rfind(b"\r", newline, len(chunk) - 1) + 1
    return max(newline, carriage)


class FileTail:
    """A file, followed by name: it may not exist yet, grow, be truncated or be replaced.

    Threads: one. States: no file -> open -> (truncated or replaced: open at 0) -> closed.
    Limits: a file that is truncated and has grown beyond the old position between two reads looks like one that grew.
    """

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._position = position  # of the first byte in _pending
        self._pending = _Pending()
        self._fd: int | None = None
        self._is_regular = True
        self._has_logged_missing = False

    def read_lines(self) -> Lines | None:
        if self._fd is None and not self._open():
            return None
        while True:
            chunk = self._read_chunk()
            if not chunk:
                return self._at_end()
            whole = self._pending.take(chunk)
            if whole:
                start = self._position
                self._position += len(whole)
                return split_lines(whole, start)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> bool:
        try:
            # a named pipe without a writer would block the open
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            if not self._has_logged_missing:
                log.warning("Couldn't find file %s for FileStreamSourceTask, waiting for it to be created", self._path)
                self._has_logged_missing = True
            return False
        except OSError as error:
            raise ConnectError(
                f"Cannot open file {self._path!r}: {error.strerror}",
                hint="Make the file readable for the user the worker runs as, or change `file`.",
            ) from error
        self._fd = fd
        self._has_logged_missing = False
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            self.close()
            raise ConnectError(f"{self._path!r} is a directory, not a file", hint="Set `file` to a file.")
        self._is_regular = stat.S_ISREG(info.st_mode)
        if self._is_regular and self._position > info.st_size:
            log.warning(
                "File %s has a size of %d B, but position %d is committed: it was truncated or replaced; "
                "starting at its beginning",
                self._path,
                info.st_size,
                self._position,
            )
            self._position = 0
        return True

    def _read_chunk(self) -> bytes:
        assert self._fd is not None
        try:
            if self._is_regular:
                return os.pread(self._fd, CHUNK_BYTES, self._position + self._pending.length)
            return os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise ConnectError(f"Cannot read file {self._path!r}: {error.strerror}") from error

    def _at_end(self) -> Lines | None:
        """At the end of the file: check whether the name now refers to another file, or the file was truncated."""
        assert self._fd is not None
        if not self._is_regular:
            return None
        read_to = self._position + self._pending.length
        now = os.fstat(self._fd)
        if now.st_size < read_to:
            log.warning(
                "File %s was truncated to %d B, below position %d; starting at its beginning",
                self._path,
                now.st_size,
                read_to,
            )
            return self._start_over()
        try:
            named = os.stat(self._path)
        except OSError:
            return None  # moved away and not replaced: its writer may still append to it
        if (named.st_dev, named.st_ino) == (now.st_dev, now.st_ino) or named.st_size == 0:
            return None  # an empty replacement means that the writer has not switched over yet
        if os.fstat(self._fd).st_size > read_to:
            return None  # the old file grew one last time; the next read gets it
        log.warning("File %s was replaced by another file; starting at its beginning", self._path)
        self.close()
        return self._start_over()

    def _start_over(self) -> Lines | None:
        """Restart at 0; a last line without an end is returned, since nothing will ever complete it."""
        rest = self._pending.drain()
        self._position = 0
        if not rest:
            return None
        log.warning(
            "The last line of the former %s had no end; giving it out as it is (%s)",
            self._path,
            pluralize(len(rest), "byte"),
        )
        return _lines_of([rest.removesuffix(b"\r")], [0])


class StreamTail:
    """A stream without positions: standard input."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pending = _Pending()

    def read_lines(self) -> Lines | None:
        while select.select([self._fd], [], [], 0)[0]:
            chunk = os.read(self._fd, CHUNK_BYTES)
            if not chunk:
                return None
            whole = self._pending.take(chunk)
            if whole:
                lines = split_lines(whole, 0)
                return Lines(lines.text, lambda: _nulls(len(lines.text)))  # noqa: B023 - returned at once
        return None

    def close(self) -> None:
        """The stream is not closed: it belongs to others."""


def split_lines(whole: bytes, start: int) -> Lines:
    """Split bytes that end with a line end into lines.

    Measured, 1 MiB of 100 B lines, a line: split_pattern on the chunk 0.02 us, bytes.split and a new array 0.10 us.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if b"\r" in whole:
        return _split_lines_with_carriage_returns(whole, start)
    offsets = pa.py_buffer((0).to_bytes(4, "little") + (len(whole) - 1).to_bytes(4, "little"))
    one = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(whole)])
    try:
        one.validate(full=True)  # 0.004 us a line: a split would not notice bad UTF-8, its consumers would
    except pa.ArrowInvalid:
        pieces = whole.split(b"\n")[:-1]
        ends, end = [], start
        for piece in pieces:
            end += len(piece) + 1
            ends.append(end)
        return _lines_of(pieces, ends)
    text = pc.split_pattern(one, "\n").values

    def positions() -> pa.Int64Array:
        lengths = pc.cast(pc.add(pc.binary_length(text), 1), pa.int64())
        return pc.cumulative_sum(lengths, start=start)

    return Lines(text, positions)


def _split_lines_with_carriage_returns(whole: bytes, start: int) -> Lines:
    pieces, ends, at = [], [], 0
    for match in LINE_END.finditer(whole):
        pieces.append(whole[at : match.start()])
        at = match.end()
        ends.append(start + at)
    return _lines_of(pieces, ends)


def _lines_of(pieces: list[bytes], ends: list[int]) -> Lines:
    import pyarrow as pa

    text = pa.array([decode_as_java(piece) for piece in pieces], pa.string())
    return Lines(text, lambda: pa.array(ends, pa.int64()))


def _nulls(count: int) -> pa.Int64Array:
    import pyarrow as pa

    return pa.nulls(count, pa.int64())
