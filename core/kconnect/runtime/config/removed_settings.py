"""Settings that Kafka has removed, with what to write instead. Pure.

A removed setting is one that Java ignores with a line in its log. Where that lets fields or topics pass that the
setting kept back, it is an error here; any other is a warning.

Source: Kafka's upgrade notes (3.0, 4.0): KIP-629, KIP-174, KIP-606, KIP-830, KIP-1013.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

Removed = tuple[str, str]
"""A setting, and what is wrong with it."""

_REPLACE_FIELD: Final = re.compile(
    r"(?:org\.apache\.kafka\.connect\.transforms\.|kconnect\.builtin\.transforms\.replace_field[.:])?"
    r"ReplaceField(?:\$?(?:Key|Value))?"
)
_OF_REPLACE_FIELD: Final = {"blacklist": "exclude", "whitelist": "include"}
_MIRROR: Final = re.compile(r"(?:org\.apache\.kafka\.connect\.mirror\.)?Mirror(?:Source|Checkpoint)(?:Connector)?")
_OF_MIRRORS: Final = {
    "config.properties.blacklist": "config.properties.exclude",
    "groups.blacklist": "groups.exclude",
    "topics.blacklist": "topics.exclude",
}
_WORKER: Final = {
    "auto.include.jmx.reporter": "Leave it out.",
    "internal.key.converter": "Leave it out: internal topics hold JSON without schemas.",
    "internal.value.converter": "Leave it out: internal topics hold JSON without schemas.",
    "metrics.jmx.blacklist": "Leave it out: metrics are at /metrics.",
    "metrics.jmx.whitelist": "Leave it out: metrics are at /metrics.",
    "rest.host.name": "Use listeners, such as listeners=http://HOST:8083.",
    "rest.port": "Use listeners, such as listeners=http://:PORT.",
}
_WORKER_ROOMS: Final = ("internal.key.converter.", "internal.value.converter.")
_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::", "[::]"})


def removed_problems(connector: Mapping[str, str | None]) -> list[Removed]:
    """Errors of a connector's config: what it means to keep back would pass.

    One whose successor is set too is none: such a config is for workers before and after the change.
    """
    return [*_of_steps(connector), *_of_mirror(connector)]


def removed_of_mirror(names: Mapping[str, str], prefix: str = "") -> list[Removed]:
    """Errors of settings of MirrorMaker, which stand under a prefix such as `A->B.`."""
    return [
        (prefix + old, _reported(prefix + old, prefix + new, "4.0"))
        for old, new in _OF_MIRRORS.items()
        if prefix + old in names and prefix + new not in names
    ]


def removed_of_worker(key: str) -> str | None:
    """What to do with a worker's setting that is no longer there; None for any other."""
    if key.startswith(_WORKER_ROOMS):
        return _WORKER[key.rpartition("converter.")[0] + "converter"]
    return _WORKER.get(key)


def opens_rest(worker: Mapping[str, str]) -> str | None:
    """Why REST would listen on more addresses than `rest.host.name` says, which Java ignores; None if not."""
    host = worker.get("rest.host.name", "").strip()
    if host in _ANY_HOST or "listeners" in worker:
        return None
    port = worker.get("rest.port", "").strip() or "8083"
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    instead = f"use listeners=http://{host}:{port}"
    return f"rest.host.name was removed in Kafka 3.0, and REST would listen on all addresses: {instead}"


def _of_steps(connector: Mapping[str, str | None]) -> Iterator[Removed]:
    for key, name in connector.items():
        found = re.fullmatch(r"(transforms\.[^.]+\.)type", key)
        if found is None or _REPLACE_FIELD.fullmatch((name or "").strip()) is None:
            continue
        for old, new in _OF_REPLACE_FIELD.items():
            if connector.get(found[1] + old) is not None and connector.get(found[1] + new) is None:
                yield found[1] + old, _reported(found[1] + old, found[1] + new, "4.0")


def _of_mirror(connector: Mapping[str, str | None]) -> list[Removed]:
    if _MIRROR.fullmatch((connector.get("connector.class") or "").strip()) is None:
        return []
    return removed_of_mirror({key: value for key, value in connector.items() if value is not None})


def _reported(old: str, new: str, version: str) -> str:
    return f"{old} was removed in Kafka {version}: use {new}"
