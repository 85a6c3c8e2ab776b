"""Misspelt settings of connectors, found by the worker's own validation before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import typer

from kconnect.errors import ConfigError, ConfigProblem, ConnectError, UnreachableError
from kconnect.runtime.config.labels import LABELS, parse_labels
from kconnect_cli.screen.output import Row
from kconnect_cli.session import CliSession

Strict = Annotated[bool, typer.Option("--strict", help="Write nothing when a setting is unknown and looks misspelt.")]


def check_settings(
    session: CliSession,
    configs: Mapping[str, Mapping[str, str]],
    *,
    strict: bool,
    only: Collection[str] | None = None,
) -> None:
    """Warn of each misspelt setting of these connectors, by name; `only` those settings, where it is given.

    Also of labels that cannot be read: Java's workers accept them, and no selector would match.

    The worker, ours or Java's, says which settings it knows, with --direct the plugin that is installed here; the write
    itself reports what it refuses.
    Errors: ConfigError with `strict`, and then whatever validation raises; UnreachableError.
    """
    problems: list[ConfigProblem] = []
    for name, config in configs.items():
        for key, meant in _misspelt(session, config, strict=strict).items():
            if only is None or key in only:
                problems.append(ConfigProblem(key, config[key], f"{name}: {misspelt_text(key, meant)}"))
        if (wrong := _labels_problem(config)) and (only is None or LABELS in only):
            problems.append(ConfigProblem(LABELS, config[LABELS], f"{name}: {LABELS}: {wrong}"))
    if not problems:
        return
    if strict:
        raise ConfigError(
            "\n".join(problem.message for problem in problems),
            problems,
            hint="Nothing was written. Without --strict these are warnings.",
        )
    for problem in problems:
        session.say(f"Warning: {problem.message}")


def misspelt_text(key: str, meant: str) -> str:
    return f"Unknown setting: {key}. Did you mean {meant}?"


def known_settings(answer: Row) -> list[str]:
    """The names that an answer of validate lists, and those of kconnect's own that no table has."""
    from kconnect.runtime.config.connector_keys import DEAD_LETTER_KEYS
    from kconnect.runtime.config.own_worker_keys import OWN_OF_CONNECTORS

    return [
        *OWN_OF_CONNECTORS,
        *DEAD_LETTER_KEYS,
        *(info["value"]["name"] for info in answer["configs"] if info.get("value")),
    ]


def _labels_problem(config: Mapping[str, str]) -> str:
    try:
        parse_labels(config.get(LABELS, ""))
    except ConfigError as err:
        return f"{err}. {err.hint}"
    return ""


def _misspelt(session: CliSession, config: Mapping[str, str], *, strict: bool) -> Mapping[str, str]:
    from kconnect.runtime.config.misspelt import misspelt_settings

    plugin = config.get("connector.class")
    if not plugin:
        return {}
    try:
        answer = session.reader.validate(plugin, config)
    except ConnectError as err:
        if strict or isinstance(err, UnreachableError):
            raise
        return {}  # whatever is wrong with it, the write that follows tells it
    return misspelt_settings(config, known_settings(answer))
