"""Bytes of the `connect` group protocol: a worker's metadata when it joins, and the leader's assignments.

Sub-protocols by version: 0 `default` (eager), 1 `compatible`, 2 `sessioned`. 1 and 2 have one form: a member sends its
current assignment when it joins, and an assignment may revoke work or delay it.
Source: ConnectProtocol, IncrementalCooperativeConnectProtocol, ExtendedAssignment (Kafka 4.3), KIP-415, KIP-507.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlsplit

from kconnect.errors import DataError
from kconnect.model import TaskId

PROTOCOL_TYPE = "connect"
"""The protocol type of a group of workers; that of consumers is `consumer`."""
PROTOCOL_NAMES = {0: "default", 1: "compatible", 2: "sessioned"}
"""Names of the sub-protocols on the wire; the setting `connect.protocol` calls the first one `eager`."""
NO_ERROR, CONFIG_MISMATCH = 0, 1
_OURS = "kconnect"
T = TypeVar("T")
_CONNECTOR_ITSELF = -1  # takes the place of a task's number


@dataclass(frozen=True, slots=True)
class Work:
    """Connectors and tasks, in the order given."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's answer to one member. From version 1 on, `work` is in addition to what the member keeps."""

    version: int
    leader: str
    leader_url: str
    offset: int
    """The config offset the assignment was made with: a member must have read up to it; -1 for an empty topic."""
    work: Work = Work()
    revoked: Work = Work()
    delay_ms: int = 0
    """How long the work of lost workers is delayed, in case they return."""
    error: int = NO_ERROR
    javas: tuple[str, ...] | None = None
    """Ids of the workers of the group that are not ours, as a leader of ours says behind what Java's workers read; None
    from Java's."""
    held: Work = Work()
    """What nobody runs while that delay lasts, as a leader of ours says behind that."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member's metadata when it joins: its URL, the offset up to which it has read the configs, and what it runs."""

    version: int
    url: str
    offset: int
    assignment: Assignment | None = None
    is_kconnect: bool = False
    """Whether the member is one of ours: said behind what Java's workers read."""


def worker_id_of(url: str) -> str:
    """Gives the id by which statuses name the worker that is reached there."""
    return urlsplit(url).netloc


def owned_work(state: MemberState | None, assignment: Assignment | None) -> Work:
    """What a member runs, from its metadata when it joined and its assignment after that."""
    before = state.assignment.work if state is not None and state.assignment is not None else Work()
    if assignment is None:
        return before
    if assignment.version == 0:
        return assignment.work
    revoked_connectors, revoked_tasks = set(assignment.revoked.connectors), set(assignment.revoked.tasks)
    connectors = [name for name in before.connectors if name not in revoked_connectors]
    tasks = [task for task in before.tasks if task not in revoked_tasks]
    return Work(
        tuple(dict.fromkeys([*connectors, *assignment.work.connectors])),
        tuple(dict.fromkeys([*tasks, *assignment.work.tasks])),
    )


def encode_metadata(state: MemberState) -> bytes:
    """The bytes of a JoinGroup's metadata."""
    start = struct.pack(">h", state.version) + _string(state.url) + struct.pack(">q", state.offset)
    end = _string(_OURS) if state.is_kconnect else b""
    if state.version == 0:
        return start + (struct.pack(">i", -1) + end if end else b"")
    if state.assignment is None:
        return start + struct.pack(">i", -1) + end
    current = encode_assignment(replace(state.assignment, javas=None, held=Work()))
    return start + struct.pack(">i", len(current)) + current + end


def encode_assignment(assignment: Assignment) -> bytes:
    """The bytes of a SyncGroup's assignment."""
    start = (
        struct.pack(">hh", assignment.version, assignment.error)
        + _string(assignment.leader)
        + _string(assignment.leader_url)
        + struct.pack(">q", assignment.offset)
        + _work(assignment.work)
    )
    end = b""
    if assignment.javas is not None:
        end = b"".join((_string(_OURS), struct.pack(">i", len(assignment.javas)), *map(_string, assignment.javas)))
        end += _work(assignment.held) if assignment.held else b""
    if assignment.version == 0 and not end:
        return start
    return start + _work(assignment.revoked) + struct.pack(">i", assignment.delay_ms) + end


def decode_metadata(data: bytes) -> MemberState:
    """Errors: DataError for other bytes, such as those of a consumer group of the same name."""
    return _read(data, _Reader.metadata)


def decode_assignment(data: bytes | None) -> Assignment | None:
    """Returns None for empty bytes: the member has no assignment yet. Errors: DataError as `decode_metadata`."""
    return _read(data, _Reader.assignment) if data else None


def _read(data: bytes, part: Callable[[_Reader], T]) -> T:
    try:
        return part(_Reader(data))
    except (struct.error, UnicodeDecodeError) as err:
        raise DataError(f"Not a message of the connect group protocol: {data[:60]!r}") from err


class _Reader:
    """Reads values in order. Errors: struct.error when the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def metadata(self) -> MemberState:
        version, url, offset = self.number(">h"), self.string(), self.number(">q")
        current = self.block(self.number(">i")) if self.has_more() else None
        is_kconnect = self.has_more() and self.string() == _OURS
        return MemberState(version, url, offset, _Reader(current).assignment() if current else None, is_kconnect)

    def assignment(self) -> Assignment:
        version, error, leader, url = self.number(">h"), self.number(">h"), self.string(), self.string()
        offset = self.number(">q")
        # Later fields may be missing, as Java's reader allows
        work = self.work() if self.has_more() else Work()
        revoked = self.work() if self.has_more() else Work()
        delay_ms = self.number(">i") if self.has_more() else 0
        is_ours = self.has_more() and self.string() == _OURS
        javas = tuple(self.string() for _ in range(self.number(">i"))) if is_ours else None
        held = self.work() if is_ours and self.has_more() else Work()
        return Assignment(version, leader, url, offset, work, revoked, delay_ms, error, javas, held)

    def work(self) -> Work:
        connectors: list[str] = []
        tasks: list[TaskId] = []
        for _ in range(self.number(">i")):  # -1 is an absent list
            name = self.string()
            for number in self.numbers(self.number(">i")):
                if number == _CONNECTOR_ITSELF:
                    connectors.append(name)
                else:
                    tasks.append(TaskId(name, number))
        return Work(tuple(connectors), tuple(tasks))

    def has_more(self) -> bool:
        return self._at < len(self._data)

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def numbers(self, count: int) -> Sequence[int]:
        """Reads that many, of four bytes each; none where the count is that of an absent list."""
        values = struct.unpack_from(f">{max(count, 0)}i", self._data, self._at)
        self._at += 4 * len(values)
        return values

    def string(self) -> str:
        block = self.block(self.number(">h"))
        return block.decode() if block is not None else ""

    def block(self, size: int) -> bytes | None:
        if size < 0:
            return None
        if self._at + size > len(self._data):
            raise struct.error(f"{size} bytes wanted, {len(self._data) - self._at} there")
        self._at += size
        return self._data[self._at - size : self._at]


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _work(work: Work) -> bytes:
    by_connector: dict[str, list[int]] = {}
    for name in work.connectors:
        by_connector.setdefault(name, []).append(_CONNECTOR_ITSELF)
    for task in work.tasks:
        by_connector.setdefault(task.connector, []).append(task.task)
    parts = [struct.pack(">i", len(by_connector))]
    for name, numbers in by_connector.items():
        parts += [_string(name), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)
