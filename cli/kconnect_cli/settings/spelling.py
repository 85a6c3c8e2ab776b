"""Misspelt settings of connectors, found by the worker's own validation before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import typer

from kconnect.errors import ConfigError, ConfigProblem, ConnectError, UnreachableError
from kconnect.runtime.config.labels import LABELS, parse_labels
from kconnect_cli.screen.output import Row
from kconnect_cli.session import CliSession

Strict = Annotated[bool, typer.Option("--strict", help="Write nothing when a setting is unknown.")]


def check_settings(
    session: CliSession,
    configs: Mapping[str, Mapping[str, str]],
    *,
    strict: bool,
    only: Collection[str] | None = None,
) -> None:
    """Warn of settings of these connectors that mean nothing; `only` of those, where it is given.

    With `strict` of every one that is not known, without it of those that are surely none: misspelt ones, and those of
    steps and converters.

    Also of labels that cannot be read: Java's workers accept them, and no selector would match.

    The worker, ours or Java's, says which settings it knows, with --direct the plugin that is installed here; the write
    itself reports what it refuses.
    Errors: ConfigError with `strict`, and then whatever validation raises; UnreachableError.
    """
    problems: list[ConfigProblem] = []
    for name, config in configs.items():
        for key, reported in _unknown(session, config, strict=strict).items():
            if only is None or key in only:
                problems.append(ConfigProblem(key, config[key], f"{name}: {reported}"))
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


def unknown_settings_of(config: Mapping[str, str], answer: Row, *, strict: bool = False) -> Mapping[str, str]:
    """What an answer of validate does not know, with a sentence on each.

    Without `strict` a connector's own settings are left out that resemble none that it lists: it may read them.
    """
    from kconnect.runtime.config.misspelt import is_surely_unknown, misspelt_settings, unknown_settings

    known = known_settings(answer)
    found = unknown_settings(config, known, of_clients=strict)
    if strict and "name" in known:  # an answer without it lists no settings of connectors
        return found
    meant = misspelt_settings(config, known)
    return {key: reported for key, reported in found.items() if key in meant or is_surely_unknown(key)}


def known_settings(answer: Row) -> list[str]:
    """The names that an answer of validate lists, and those of kconnect's own that no table has."""
    from kconnect.runtime.config.connector_keys import DEAD_LETTER_KEYS
    from kconnect.runtime.config.own_worker_keys import OWN_OF_CONNECTORS

    return [
        *OWN_OF_CONNECTORS,
        *DEAD_LETTER_KEYS,
        *(info["value"]["name"] for info in answer["configs"] if info.get("value") and _is_known(info)),
    ]


def _is_known(info: Row) -> bool:
    """Overrides of clients are all listed, those that clients do not know without a definition."""
    _, is_override, name = info["value"]["name"].partition(".override.")
    return bool(info.get("definition")) or not is_override or name.startswith("librdkafka.")


def _labels_problem(config: Mapping[str, str]) -> str:
    try:
        parse_labels(config.get(LABELS, ""))
    except ConfigError as err:
        return f"{err}. {err.hint}"
    return ""


def _unknown(session: CliSession, config: Mapping[str, str], *, strict: bool) -> Mapping[str, str]:
    plugin = config.get("connector.class")
    if not plugin:
        return {}
    try:
        answer = session.reader.validate(plugin, config)
    except ConnectError as err:
        if strict or isinstance(err, UnreachableError):
            raise
        return {}  # whatever is wrong with it, the write that follows tells it
    return unknown_settings_of(config, answer, strict=strict)
