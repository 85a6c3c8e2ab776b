"""Rules that detect workers with mismatched topics, clocks or settings. Mismatches are reported, not fixed.

Differs: Java finds only the downgrade of `connect.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kconnect.runtime.herder.decisions.events import ConfigsChanged, Placed
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.instructions import Instruction, Tell
from kconnect.runtime.herder.decisions.mismatches import (
    ExactlyOnceElsewhere,
    KeyFromFuture,
    Mismatch,
    ProtocolDowngraded,
    WrittenByOther,
)
from kconnect.runtime.storage.config_topic import ForeignRecord
from kconnect.runtime.storage.snapshot import ClusterSnapshot

# The first sub-protocol with a session key (KIP-507)
_SIGNED = 2
# Clocks set over the network agree within a second; one that is off by this much is not synchronized
_CLOCKS_AGREE_MS = 10_000
# As often as a key is replaced by default: once in each log that an operator reads, not with each write
_LOG_AGAIN_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """Settings of this worker, compared with what its group shows."""

    exactly_once: str = "disabled"
    """exactly.once.source.support"""
    protocol_version: int = 2
    """The highest of connect.protocol."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    record: ForeignRecord
    generation: int
    noted_ms: int


class MismatchRules:
    """Part of a HerderState."""

    def __init__(self, facts: HerderFacts, own: OwnSettings) -> None:
        self._facts = facts
        self._has_exactly_once_off = own.exactly_once == "disabled"
        self._version = own.protocol_version
        self._seen_offset = -1
        self._suspect: _Suspect | None = None
        self._strangers_logged_ms: int | None = None
        self._key_ms = -1
        self._exactly_once: set[str] = set()

    def read(self, snapshot: ClusterSnapshot) -> list[Instruction]:
        """Findings from the configs themselves, whoever wrote them; task counts mean nothing to a herder by
        themselves.
        """
        found: list[Mismatch] = []
        key, now_ms = snapshot.session_key, self._facts.now_ms
        if key is not None and key.created_ms != self._key_ms:
            self._key_ms = key.created_ms
            if key.created_ms > now_ms + _CLOCKS_AGREE_MS:
                found.append(KeyFromFuture(key.created_ms, now_ms))
        if self._has_exactly_once_off:
            # Only a worker with exactly-once support has the leader write these
            others = [name for name, count in snapshot.task_count_records.items() if count and snapshot.contains(name)]
            if fresh := tuple(sorted(set(others) - self._exactly_once)):
                self._exactly_once.update(fresh)
                found.append(ExactlyOnceElsewhere(fresh))
        return [Tell(one) for one in found]

    def changed(self, event: ConfigsChanged) -> list[Instruction]:
        """Suspect any other worker that wrote as leader. A leader that lost its group does not know that at once."""
        facts, record = self._facts, event.foreign
        if record is not None and record.offset > self._seen_offset:
            self._seen_offset = record.offset
            logged_ms = self._strangers_logged_ms
            is_due = self._suspect is None and (logged_ms is None or logged_ms + _LOG_AGAIN_MS <= facts.now_ms)
            if is_due and facts.is_leader and record.offset >= facts.placed.offset:
                self._suspect = _Suspect(record, facts.generation, facts.now_ms)
        return self.read(event.snapshot)

    def lost(self) -> None:
        """Out of the group: another member may have led it meanwhile."""
        self._suspect = None

    def placed(self, event: Placed) -> list[Instruction]:
        if not self._facts.is_leader:
            self._suspect = None
        before, self._version = self._version, event.assignment.version
        instructions = self.read(event.snapshot)
        return (
            [*instructions, Tell(ProtocolDowngraded(before, self._version))]
            if before >= _SIGNED > self._version
            else instructions
        )

    def due(self) -> list[Instruction]:
        """Report another leader once it is certain that this worker led throughout: it is still the same member, in a
        later generation or after a session's time, within which it would have learned otherwise.
        """
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > self._facts.now_ms or self._suspect is None:
            return []
        record, self._suspect = self._suspect.record, None
        self._strangers_logged_ms = self._facts.now_ms
        return [Tell(WrittenByOther(record.key, record.offset))]

    def next_due_ms(self) -> int | None:
        suspect, facts = self._suspect, self._facts
        if suspect is None or not facts.is_leader:
            return None
        is_sure = facts.generation != suspect.generation
        return facts.now_ms if is_sure else suspect.noted_ms + facts.times.session_timeout_ms
