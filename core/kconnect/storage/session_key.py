"""The key with which workers of one cluster sign what they ask of each other (KIP-507)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Made by the leader, spread through the config topic. Source: SessionKey (Kafka 4.3)."""

    key: bytes = field(repr=False)
    algorithm: str
    """Java's name of a MAC, such as HmacSHA256."""
    created_ms: int
