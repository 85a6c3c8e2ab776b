"""`connect loggers`: list, get, set levels of a worker's loggers, over REST."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kconnect.errors import NotFoundError, did_you_mean
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, write_object, write_rows
from kconnect_cli.session import session_of

app = command_group("List, get, set levels of a worker's loggers.")

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
_Logger = Annotated[str, typer.Argument(metavar="LOGGER", help="A logger's name, or root.", show_default=False)]

_COLUMNS = (
    Column("LOGGER", lambda row: row["name"]),
    Column("LEVEL", lambda row: row["level"]),
    Column("CHANGED", lambda row: _when(row["last_modified"])),
)


@app.command("list", cls=takes())
def list_(ctx: typer.Context) -> None:
    """List loggers that have their own level."""
    session = session_of(ctx)
    found = session.client.loggers()
    write_rows([_row(name, found[name]) for name in sorted(found)], _COLUMNS, session.output)


@app.command(cls=takes())
def get(ctx: typer.Context, logger: _Logger) -> None:
    """Show the level of one logger."""
    session = session_of(ctx)
    try:
        row = _row(logger, session.client.logger(logger))
    except NotFoundError as err:
        found = did_you_mean(logger, session.client.loggers())
        err.hint = found or "connect loggers list shows those that have a level."
        raise
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
    else:
        write_rows([row], _COLUMNS, session.output)


@app.command("set", cls=takes())
def set_(
    ctx: typer.Context,
    logger: _Logger,
    level: Annotated[str, typer.Argument(metavar="LEVEL", help=", ".join(_LEVELS), show_default=False)],
    scope: Annotated[
        str, typer.Option("--scope", metavar="SCOPE", help="worker, or cluster for every worker.")
    ] = "worker",
) -> None:
    """Set the level of a logger and of those below it, until the worker ends. Prints the changed loggers."""
    session = session_of(ctx)
    if level.upper() not in _LEVELS:
        raise UsageProblem(f"Unknown log level: {level}", hint=f"Valid values: {', '.join(_LEVELS)}.")
    if scope not in ("worker", "cluster"):
        raise UsageProblem(f"Unknown scope: {scope}. --scope takes worker or cluster")
    changed = session.client.set_logger(logger, level.upper(), scope=scope)
    if session.output is not Format.TABLE:
        write_rows([{"name": name} for name in changed], (), session.output)
    where = "every worker of the cluster" if scope == "cluster" else session.url
    session.say(f"{logger} logs {level.upper()} at {where}")


def _row(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Shape: name, level, last_modified (epoch ms, or null)."""
    return {"name": name, "level": found.get("level"), "last_modified": found.get("last_modified")}


def _when(millis: int | None) -> str:
    return "-" if millis is None else datetime.fromtimestamp(millis / 1000, UTC).astimezone().isoformat(" ", "seconds")
