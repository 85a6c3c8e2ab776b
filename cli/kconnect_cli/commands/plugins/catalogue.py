"""`connect plugins list`, `show`, `validate`: what a worker can run, and whether it would take a config, over REST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from kconnect.client.masks import unmasked
from kconnect.errors import NotFoundError, UnreachableError
from kconnect.logs.java_messages import setting_problem
from kconnect.logs.log_context import mask
from kconnect.logs.redaction import HIDDEN
from kconnect_cli.exits import FOUND, UsageProblem
from kconnect_cli.screen.output import Column, Format, Row, table_text, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, session_of
from kconnect_cli.settings.spelling import unknown_settings_of

_TYPES = ("source", "sink", "converter", "header_converter", "transformation", "predicate")
_PLUGINS = (
    Column("CLASS", lambda row: row.get("named") or row["class"]),
    Column("TYPE", lambda row: row["type"]),
    Column("VERSION", lambda row: row.get("version") or "-"),
)
_LOCATION = Column("LOCATION", lambda row: row.get("location") or "-")
_SETTINGS = (
    Column("SETTING", lambda row: row["name"]),
    Column("TYPE", lambda row: str(row["type"]).lower()),
    Column("DEFAULT", lambda row: "required" if row["required"] else _default(row["default_value"])),
    Column("IMPORTANCE", lambda row: str(row["importance"]).lower()),
    Column("WHAT IT DOES", lambda row: row["documentation"]),
)
_ERRORS = (
    Column("SETTING", lambda row: row["setting"]),
    Column("VALUE", lambda row: "-" if row["value"] is None else str(row["value"])),
    Column("WHAT IS WRONG", lambda row: _plain(row)),
)


def list_(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help=", ".join(_TYPES))] = None,
    all_: Annotated[bool, typer.Option("--all", help="Converters, transformations and predicates too.")] = False,
) -> None:
    """List the connectors, or all plugins, of the worker; without a worker, those installed here.

    LOCATION is the folder or jar on the worker's plugin.path, or classpath for what is included; a class of Java's that
    has the name of an included one is listed by the name that means it, java:CLASS. Java's workers tell no location:
    connect plugins path list does, on their machine.
    """
    session = session_of(ctx)
    if kind is not None and kind not in _TYPES:
        raise UsageProblem(f"Unknown plugin type: {kind}", hint=f"Valid values: {', '.join(_TYPES)}.")
    connectors_only = not all_ and kind in (None, "source", "sink")
    try:
        found = session.client.plugins(connectors_only=connectors_only, locations=True)
    except UnreachableError as err:
        found = _installed_here(session, err, all_types=not connectors_only)
    rows = [row for row in found if kind in (None, row["type"])]
    columns = (*_PLUGINS, _LOCATION) if any("location" in row for row in rows) else _PLUGINS
    write_rows(rows, columns, session.output, name="class")


def show(
    ctx: typer.Context,
    plugin: Annotated[str, typer.Argument(metavar="PLUGIN", help="Class or short name.", show_default=False)],
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="A version, or a range of versions.")
    ] = None,
) -> None:
    """Show the settings of a plugin: type, default, importance, description; without a worker, as installed here."""
    session = session_of(ctx)
    table = _settings_of(session, plugin, version)
    if session.output is Format.TABLE:
        write_text(table_text(_SETTINGS, table))
    else:
        write_rows(table, _SETTINGS, session.output)


def validate(
    ctx: typer.Context,
    paths: Annotated[list[str], typer.Argument(metavar="FILE|DIR", help="Connector files; - reads stdin.")],
) -> None:
    """Validate connector files on the worker, without creating anything. Exit code 7 if there are errors."""
    session = session_of(ctx)
    from kconnect_cli.files.connector_files import read_connector_files

    files = read_connector_files(paths)
    problems: list[dict[str, Any]] = []
    for file in files:
        plugin = file.config.get("connector.class")
        if plugin is None:
            problems.append(_problem(file.name, "connector.class", None, "It is missing."))
            continue
        live = session.reader.connector_infos().get(file.name) if HIDDEN in file.config.values() else None
        config = unmasked(file.config, live.config if live else {}, file.name, str(file.path))
        answer = session.reader.validate(plugin, config)
        problems += _problems(file.name, answer)
        for reported in unknown_settings_of(config, answer).values():
            session.say(f"{file.name}: {reported}")
    if session.output is Format.TABLE:
        for name in dict.fromkeys(problem["connector"] for problem in problems):
            write_text(f"{name}\n")
            write_text(table_text(_ERRORS, [problem for problem in problems if problem["connector"] == name]))
        for file in files:
            if not any(problem["connector"] == file.name for problem in problems):
                session.say(f"{file.name} is valid")
    else:
        _write(problems, session.output)
    if problems:
        raise typer.Exit(FOUND)


def _settings_of(session: CliSession, plugin: str, version: str | None) -> list[dict[str, Any]]:
    """The plugin's settings as the worker has them or, if none is reachable, as it is installed here.

    Errors: NotFoundError with a hint.
    """
    client = session.client
    try:
        return _by_any_name(plugin, version, client.plugin_config, lambda: client.plugins(connectors_only=False))
    except UnreachableError as err:
        known = _installed_here(session, err, all_types=True)
    return _by_any_name(plugin, version, _local_settings, lambda: known)


def _by_any_name(
    plugin: str,
    version: str | None,
    settings_of: Callable[[str, str | None], list[dict[str, Any]]],
    known: Callable[[], Sequence[Row]],
) -> list[dict[str, Any]]:
    """The result of `settings_of` for the plugin; nested classes, such as HoistField$Value, may be named as in
    configs.
    """
    try:
        return settings_of(plugin, version)
    except NotFoundError as err:
        found = known()
        named = [str(row["class"]) for row in found if str(row["class"]).rpartition(".")[2] == plugin]
        if len(named) != 1 or named == [plugin]:
            err.hint = _alike(plugin, found) or err.hint
            raise
    return settings_of(named[0], version)


def _installed_here(session: CliSession, why: UnreachableError, *, all_types: bool) -> list[dict[str, Any]]:
    """The plugins installed here, and a note that says so."""
    session.say(f"{why}: this is what is installed here.")
    return [row for row in _local_plugins() if all_types or row["type"] in ("source", "sink")]


def _write(problems: Sequence[Row], form: Format) -> None:
    if form is Format.NAME:
        write_text("".join(f"{name}\n" for name in dict.fromkeys(row["connector"] for row in problems)))
    else:
        write_object([dict(row) for row in problems], form)


def _problems(name: str, answer: Row) -> list[dict[str, Any]]:
    values = [info["value"] for info in answer["configs"] if info.get("value")]
    return [_problem(name, value["name"], value["value"], error) for value in values for error in value["errors"]]


def _problem(name: str, setting: str, value: object, error: str) -> dict[str, Any]:
    """Shape: connector, setting, value, error. A secret's value is masked."""
    return {"connector": name, "setting": setting, "value": mask({setting: value})[setting], "error": error}


def _plain(problem: Row) -> str:
    """The error in plain words, without the setting's name, which has its own column."""
    setting = str(problem["setting"])
    return setting_problem(problem["error"], setting).removeprefix(f"{setting}: ")


def _default(value: object) -> str:
    return "-" if value is None else str(value) or '""'


def _alike(plugin: str, found: Sequence[Row]) -> str | None:
    """Plugins with a similar short name."""
    from difflib import get_close_matches

    short = {str(row["class"]).rpartition(".")[2]: str(row["class"]) for row in found}
    short |= {name.removesuffix("Connector"): class_name for name, class_name in short.items()}
    near = get_close_matches(plugin.rpartition(".")[2], short, n=3)
    return (
        f"Did you mean {' or '.join(dict.fromkeys(short[name] for name in near))}?"
        if near
        else "connect plugins list --all"
    )


def _local_plugins() -> list[dict[str, Any]]:
    """Plugins installed with the command, in the form of `ConnectClient.plugins`."""
    from kconnect.runtime.plugins import PluginRegistry

    rows = []
    for info in PluginRegistry.load(tells_skipped=False).describe():
        row = {"class": info.class_name, "type": str(info.type), "location": info.location}
        rows.append(row if info.version in (None, "undefined") else row | {"version": info.version})
    return rows


def _local_settings(plugin: str, version: str | None) -> list[dict[str, Any]]:
    """Works as `ConnectClient.plugin_config`. Errors: NotFoundError, BadRequestError for a version that is not here."""
    from kconnect.runtime.herder.validation.config_infos import key_info
    from kconnect.runtime.herder.validation.plugin_config import plugin_config_keys
    from kconnect.runtime.plugins import PluginRegistry

    keys = plugin_config_keys(PluginRegistry.load(tells_skipped=False), plugin, version)
    return [key_info(key) for key in keys]
