"""`connect check`: everything that a start of a worker needs, tried beforehand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import FOUND
from kconnect_cli.options.shared import takes
from kconnect_cli.processes.worker_settings import FromEnvironmentFlag, any_worker_settings, source_of
from kconnect_cli.screen.output import Column, Format, Row, table_text, write_object, write_text
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kconnect.admin.preflight.results import Result

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("check", cls=takes())
def check(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[WORKER.properties]", help="The worker's properties.", show_default=False),
    ] = None,
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[CONNECTOR...]", help="Connector files: .properties, .json, .toml, .yaml.", show_default=False
        ),
    ] = None,
    from_environment: FromEnvironmentFlag = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="When to give up what is slow.")] = "5s",
) -> None:
    """Try everything that a worker needs for its start, side by side, and tell what will fail.

    Settings, config providers, brokers (name, port, TLS, login), topics, group, what principals may do, the clock,
    certificates, schema registries, connector files, plugin.path, Java, Spark, ports, folders, memory. Nothing is
    written, and no group is joined. Without a file the worker is the one that CONNECT_* variables describe. Ends with 7
    if a check failed, and with 0 if there are only warnings.
    """
    from kconnect.admin.preflight.checks import check_start
    from kconnect.admin.preflight.results import has_failed
    from kconnect.runtime.config import load_connector_file

    session = session_of(ctx)
    _quiet(session)
    properties = any_worker_settings(file, from_environment, os.environ)
    files = [load_connector_file(path) for path in connectors or ()]
    results = check_start(properties, source_of(file), seconds_of(timeout, "--timeout"), files)
    _show(session, results)

    if has_failed(results):
        raise typer.Exit(FOUND)


def _quiet(session: CliSession) -> None:
    """What the parts of a worker log on their way is in the results."""
    import logging

    if not session.verbose:
        logging.getLogger("kconnect").addHandler(logging.NullHandler())


def _show(session: CliSession, results: Sequence[Result]) -> None:
    from kconnect.admin.preflight.results import has_failed, verdict_counts
    from kconnect.logs.wording import pluralize

    counts = verdict_counts(results)
    if session.output is Format.NAME:
        write_text("".join(f"{result.check}\n" for result in results if str(result.verdict) == "failed"))
    elif session.output is not Format.TABLE:
        document: dict[str, Any] = {
            "ok": not has_failed(results),
            "counts": counts,
            "checks": [result.to_json() for result in results],
        }
        write_object(document, session.output)
    else:
        rows: list[Row] = [result.to_json() for result in results]
        write_text(table_text(_COLUMNS, rows))
        reported = [
            pluralize(count, name) if name == "warning" else f"{count} {name}"
            for name, count in counts.items()
            if count
        ]
        session.say(f"{', '.join(reported)}.")


def _message(row: Row) -> str:
    """What was found, and what to do about it."""
    is_reported = row["hint"] and row["result"] != "ok"
    return f"{row['message']}. {row['hint']}" if is_reported else str(row["message"])


_COLUMNS = (
    Column("RESULT", lambda row: str(row["result"]).upper()),
    Column("CHECK", lambda row: str(row["check"])),
    Column("WHERE", lambda row: str(row["where"])),
    Column("CLIENTS", lambda row: ", ".join(row["clients"]) or "-"),
    Column("MESSAGE", _message),
)
