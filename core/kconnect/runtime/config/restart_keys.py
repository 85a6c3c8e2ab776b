"""Settings of automatic restarts: those of a connector, `errors.restart.*`, and the worker's defaults for them, which
have the same names behind `kconnect.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api.config_key import Importance
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.runtime.config.key_table import Rows, define_rows

RESTARTS_BY_DEFAULT: Final = 5
"""errors.restart.max in a group without a member of Java's."""

_PREFIX: Final = "kconnect."
_MAX, _FIRST, _LONGEST, _WINDOW = (
    f"errors.restart.{key}" for key in ("max", "backoff.ms", "backoff.max.ms", "window.ms")
)
_INT, _LONG, _LOW, _MEDIUM = ConfigDef.Type.INT, ConfigDef.Type.LONG, Importance.LOW, Importance.MEDIUM
_ROWS: Final[Rows] = (
    (
        _MAX,
        _INT,
        None,
        ConfigDef.LambdaValidator(
            lambda name, value: None if value is None else ConfigDef.Range.at_least(0).ensure_valid(name, value),
            "[0,...]",
        ),
        _MEDIUM,
        "How often a FAILED connector or task is restarted by itself before it is given up; 0: never. "
        f"By default {RESTARTS_BY_DEFAULT}, and 0 while a worker of Java's is in the group.",
    ),
    (
        _FIRST,
        _LONG,
        # With the default of five restarts: after 10, 20, 40, 80 and 160 s, five minutes in all
        10_000,
        ConfigDef.Range.at_least(1),
        _LOW,
        "How long after a failure it is restarted the first time; doubles with each further restart.",
    ),
    (_LONGEST, _LONG, 300_000, ConfigDef.Range.at_least(1), _LOW, "The longest wait before a restart."),
    (
        _WINDOW,
        _LONG,
        3_600_000,
        ConfigDef.Range.at_least(1),
        _LOW,
        "How long after the last restart the earlier ones no longer count: what was given up is then tried again.",
    ),
)
RESTART_CONFIG: Final = define_rows(None, _ROWS)
"""The settings of a connector. None of them is in the answers of validate, which are Java's."""
RESTART_KEYS: Final = tuple(row[0] for row in _ROWS)
OF_WORKER: Final[Rows] = tuple((f"{_PREFIX}{row[0]}", *row[1:]) for row in _ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartSettings:
    """How a connector and its tasks are restarted; `max_restarts` None: as the group's members want it."""

    max_restarts: int | None = None
    backoff_ms: int = 10_000
    backoff_max_ms: int = 300_000
    window_ms: int = 3_600_000

    @classmethod
    def of_worker(cls, values: Mapping[str, str]) -> RestartSettings:
        """The defaults of a worker's properties. Errors: ConfigError."""
        return cls._read({key: values.get(f"{_PREFIX}{key}") for key in RESTART_KEYS}, cls())

    def of_connector(self, config: Mapping[str, str]) -> RestartSettings:
        """Gives the settings of a connector over these defaults; an invalid value, which validation refuses, counts as
        none.
        """
        wrong = {key for key, _ in restart_problems(config)}
        return self._read({key: None if key in wrong else config.get(key) for key in RESTART_KEYS}, self)

    @classmethod
    def _read(cls, given: Mapping[str, str | None], defaults: RestartSettings) -> RestartSettings:
        own = RESTART_CONFIG.parse({key: value for key, value in given.items() if value is not None})

        def value(key: str, default: int | None) -> Any:
            return own[key] if given.get(key) is not None else default

        return cls(
            max_restarts=value(_MAX, defaults.max_restarts),
            backoff_ms=value(_FIRST, defaults.backoff_ms),
            backoff_max_ms=value(_LONGEST, defaults.backoff_max_ms),
            window_ms=value(_WINDOW, defaults.window_ms),
        )


def restart_problems(config: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """What is wrong with a connector's restart settings: pairs of key and message."""
    problems = []
    for key in RESTART_KEYS:
        value = config.get(key)
        if not isinstance(value, str):
            continue
        try:
            RESTART_CONFIG.parse({key: value})
        except ConfigError as error:
            problems.append((key, str(error)))
    return problems
