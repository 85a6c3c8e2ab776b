"""Rules of the session key: the leader makes one when there is none, when it is old, and when it has another form.

Source: DistributedHerder#checkForKeyRotation, #onSessionKeyUpdate (Kafka 4.3; KIP-507).
"""

from __future__ import annotations

from kconnect.herder.sessions import KeyForm
from kconnect.herder.state.facts import Facts
from kconnect.herder.state.instructions import Instruction, Write
from kconnect.herder.state.writes import ForKey, NewSessionKey

__all__ = ["KeyForm", "KeyRules"]


class KeyRules:
    """Part of a HerderState."""

    def __init__(self, facts: Facts, form: KeyForm) -> None:
        self._facts = facts
        self._form = form

    def due(self) -> list[Instruction]:
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > self._facts.now_ms or not self._facts.may_write:
            return []
        self._facts.is_writing = True
        return [Write(ForKey(), NewSessionKey(self._facts.now_ms))]

    def next_due_ms(self) -> int | None:
        """When a new key is to be written by this worker; None: not by this one, or never."""
        facts = self._facts
        if not facts.is_leader or not facts.signs_requests:
            return None
        key = facts.snapshot.session_key
        if key is None or key.algorithm != self._form.algorithm or len(key.key) != self._form.size_bytes:
            return facts.now_ms
        return key.created_ms + facts.times.key_ttl_ms if facts.times.key_ttl_ms > 0 else None
