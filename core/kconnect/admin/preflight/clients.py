"""The Kafka clients that a worker makes, by what they are to the brokers: their addresses, security and login."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kconnect.runtime.config.client_config import admin_settings
from kconnect.runtime.config.client_security import SECURITY_KEYS

_IDENTITY: Final = frozenset({*SECURITY_KEYS, "security.protocol", "bootstrap.servers"})
WORKER: Final = "worker"


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Clients of the worker that are one and the same to the brokers."""

    names: tuple[str, ...]
    """Names some of `worker` (its topics and its group), `admin`, `producer`, `consumer`."""
    java: Mapping[str, str] = field(repr=False)
    """Their settings in Java's names; secrets live here."""

    @property
    def title(self) -> str:
        return ", ".join(self.names)


def client_identities(worker: Mapping[str, str], *, is_distributed: bool) -> Sequence[ClientIdentity]:
    """Who the worker is to the brokers, the worker itself first; clients with equal settings are one.

    Tasks' clients do not take their security from the settings without a prefix.
    Source: Worker.baseProducerConfigs, baseConsumerConfigs, adminConfigs (Kafka 4.3).
    """
    own = {key: value for key, value in worker.items() if key in _IDENTITY}
    found: list[tuple[str, Mapping[str, str]]] = [(WORKER, own)] if is_distributed else []
    found.append(("admin", admin_settings(worker, {}, client_id="check")))
    for name in ("producer", "consumer"):
        prefix = f"{name}."
        given = {key.removeprefix(prefix): value for key, value in worker.items() if key.startswith(prefix)}
        found.append((name, {"bootstrap.servers": worker.get("bootstrap.servers", ""), **given}))
    names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    settings: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
    for name, java in found:
        relevant = {key: value for key, value in java.items() if key in _IDENTITY}
        if relevant.get("security.protocol", "PLAINTEXT").strip().upper() == "PLAINTEXT":
            relevant = {"bootstrap.servers": relevant.get("bootstrap.servers", "")}
        key = tuple(sorted(relevant.items()))
        names.setdefault(key, []).append(name)
        settings.setdefault(key, java)
    return [ClientIdentity(tuple(names[key]), settings[key]) for key in names]
