"""Names that rooms and values had before: loggers, classes and settings in people's files keep working. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FLOORS: Final = {
    "admin": ("console", "dead_letters", "direct", "preflight", "records"),
    "builtin": ("schema_registry",),
    "runtime": ("config", "herder", "kafka", "metrics", "pipeline", "plugins", "rest", "storage", "webhooks"),
    "worker": ("mirror",),
}
_SQL: Final = ("jdbc", "sql_sink", "sql_source")
FORMER_ROOMS: Final[Mapping[str, str]] = {
    **{f"kconnect.{room}": f"kconnect.{floor}.{room}" for floor, rooms in _FLOORS.items() for room in rooms},
    "kconnect.devbroker": "kconnect.java.devbroker",
    "kconnect.java_plugins": "kconnect.java.plugins",
    **{f"kconnect.builtin.connectors.{name}": f"kconnect.builtin.connectors.sql.{name}" for name in _SQL},
}
"""Former name -> the name since."""
FORMER_EVENTS: Final[Mapping[str, str]] = {"mended": "recovered"}
"""Former names of `kconnect.webhook.events`."""


def present_name(module: str) -> str:
    """The name that a module has now: `kconnect.schema_registry.avro` is `kconnect.builtin.schema_registry.avro`."""
    if module in FORMER_ROOMS:
        return FORMER_ROOMS[module]
    first, second, *rest = [*module.split("."), ""]
    room = FORMER_ROOMS.get(f"{first}.{second}")
    return module if room is None else ".".join([room, *rest[:-1]])
