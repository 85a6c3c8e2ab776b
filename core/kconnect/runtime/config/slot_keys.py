"""How many slots a worker has, and the settings with which a connector gets slots of its own: `kconnect.slot*`.

Differs: Java's workers have no slots, and keep them as any unknown settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kconnect.api.config_key import Importance
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.runtime.config.key_table import Rows, define_rows

SLOT: Final = "kconnect.slot"
MEMORY: Final = "kconnect.slot.memory"
CORES: Final = "kconnect.slot.cores"
SLOT_KEYS: Final = (SLOT, MEMORY, CORES)

SHARED_SLOTS: Final = "shared"
_OWN: Final = "own"
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
# An idle slot has 61 MB, most of it shared with the others, and the first batches of a task need as much again
_LEAST_BYTES: Final = 128 * 2**20


class SlotBounds(NamedTuple):
    """How many slots connectors share; the two are equal where their number is fixed."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> SlotBounds:
        """Gives those of `4` and of `2..8`. Errors: ConfigError for anything else."""
        found = re.fullmatch(r"(\d{1,6})(?:\s*\.\.\s*(\d{1,6}))?", text.strip(), re.ASCII)
        if found is None:
            raise ConfigError("Expected a number such as 4, or bounds such as 2..8")
        bounds = cls(int(found[1]), int(found[2] or found[1]))
        if bounds.least < 1:
            raise ConfigError("At least one slot is needed")
        if bounds.least > bounds.most:
            raise ConfigError("The lower bound comes first, as in 2..8")
        return bounds


def check_slots(name: str, value: Any) -> None:
    """Whether kconnect.slots can be read. Errors: ConfigError with the key, the value and what is wrong."""
    if value is None:
        return
    try:
        SlotBounds.parse(value)
    except ConfigError as error:
        raise ConfigError.invalid(name, value, str(error)) from error


def memory_bytes(text: str) -> int:
    """Bytes of `512m`, with k, m, g or nothing behind the number. Errors: ConfigError for anything else."""
    found = re.fullmatch(r"(\d{1,18})([kmg]?)", text.strip().lower())
    if found is None:
        raise ConfigError("A number with k, m or g behind it is expected, as in 512m")
    return int(found[1]) * _UNITS[found[2]]


def _check_memory(name: str, value: Any) -> None:  # what the type parses to
    if value is None:
        return
    try:
        size = memory_bytes(value)
    except ConfigError as error:
        raise ConfigError.invalid(name, value, str(error)) from error
    if size < _LEAST_BYTES:
        raise ConfigError.invalid(name, value, f"An idle slot takes 61m: at least {_LEAST_BYTES // 2**20}m is needed")


def _check_cores(name: str, value: Any) -> None:
    if value is not None:
        ConfigDef.Range.at_least(1).ensure_valid(name, value)


_ROWS: Final[Rows] = (
    (
        SLOT,
        ConfigDef.Type.STRING,
        SHARED_SLOTS,
        ConfigDef.ValidString.in_(SHARED_SLOTS, _OWN),
        Importance.MEDIUM,
        "own: the tasks run in slots that no other connector uses, beside those of kconnect.slots: one for each task, "
        "at most as many as these. Plain text, no reference, as for the two below. Refused for SparkSink and "
        "SparkSource, which run in the driver.",
    ),
    (
        MEMORY,
        ConfigDef.Type.STRING,
        None,
        ConfigDef.LambdaValidator(_check_memory, "bytes, as 512m"),
        Importance.LOW,
        "How much memory a slot of the connector's own may take, as 512m: resident memory of its process, without JVMs "
        "of Java's plugins, which kconnect.java.heap bounds. Beyond it the process is killed and its tasks fail.",
    ),
    (
        CORES,
        ConfigDef.Type.INT,
        None,
        ConfigDef.LambdaValidator(_check_cores, "[1,...]"),
        Importance.LOW,
        "How many of the machine's cores a slot of the connector's own may use; on Linux.",
    ),
)
SLOT_CONFIG: Final = define_rows(None, _ROWS)
"""Ours alone, so it is not in the answers of validate, which are Java's."""


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """Which slots a connector's tasks run in, and the bounds of such a slot; None: no bound."""

    is_own: bool = False
    memory_bytes: int | None = None
    cores: int | None = None

    @classmethod
    def of_connector(cls, config: Mapping[str, str]) -> SlotSettings:
        """Gives those of a config; invalid values, which validation refuses, are as if nothing was set."""
        if SLOT not in config or slot_problems(config):
            return SHARED
        values = SLOT_CONFIG.parse({key: config[key] for key in SLOT_KEYS if key in config})
        if values[SLOT] != _OWN:
            return SHARED
        return cls(True, None if values[MEMORY] is None else memory_bytes(values[MEMORY]), values[CORES])


SHARED: Final = SlotSettings()


def slot_problems(config: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """What is wrong with a connector's slot settings: pairs of key and message."""
    problems = []
    for key in SLOT_KEYS:
        value = config.get(key)
        if not isinstance(value, str):
            continue
        try:
            SLOT_CONFIG.parse({key: value})
        except ConfigError as error:
            problems.append((key, str(error)))
        else:
            if key != SLOT and config.get(SLOT, SHARED_SLOTS) == SHARED_SLOTS:
                problems.append((key, f"{key} bounds a slot of the connector's own: set {SLOT}={_OWN} too"))
    return problems
