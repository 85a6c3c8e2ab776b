"""The key with which workers of a cluster sign their requests to each other (KIP-507)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Created by the leader, distributed through the config topic. Source: SessionKey (Kafka 4.3)."""

    key: bytes = field(repr=False)
    algorithm: str
    """Java's name of a MAC, such as HmacSHA256."""
    created_ms: int
