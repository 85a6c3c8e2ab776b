"""`connect offsets`: show, alter, reset, over REST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.output import Column, Format, Row, plain_table, write_object, write_rows
from kconnect_cli.session import CliSession, Yes, with_session

if TYPE_CHECKING:
    from kconnect.model import ConnectorOffset

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Show, alter, reset offsets of connectors."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Connector name.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, change nothing.")]


@app.command()
@with_session
def show(session: CliSession, name: Name) -> None:
    """Show the committed offsets of a connector. `-o json` is what `alter` takes."""
    from kconnect.model import offsets_to_json

    offsets = session.on_connector(name, session.client.connector_offsets)
    if session.output in (Format.JSON, Format.YAML):
        write_object(offsets_to_json(offsets), session.output)
        return
    rows: list[Row] = [{"partition": _compact(o.partition), "offset": _compact(o.offset)} for o in offsets]
    columns = [Column("PARTITION", lambda row: row["partition"]), Column("OFFSET", lambda row: row["offset"])]
    write_rows(rows, columns, session.output, name="partition")
    if not rows:
        session.say(f"{name} has no committed offsets.")


@app.command()
@with_session
def alter(
    session: CliSession,
    name: Name,
    file: Annotated[str, typer.Option("--file", "-f", help="JSON as `show -o json` prints it; - reads stdin.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Set offsets of a stopped connector; a null offset resets that partition. Others stay as they are."""
    from kconnect_cli.files import read_offsets

    new = read_offsets(file)
    old = session.on_connector(name, session.client.connector_offsets)
    _say_changes(session, old, new)
    if dry_run:
        session.say("Dry run: nothing was changed.")
        return
    session.confirm(f"Alter these offsets of {name}?", yes=yes)
    session.say(session.client.alter_connector_offsets(name, new))


@app.command()
@with_session
def reset(session: CliSession, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Forget all offsets of a stopped connector: it starts from the beginning."""
    from kconnect.model import ConnectorOffset

    old = session.on_connector(name, session.client.connector_offsets)
    _say_changes(session, old, [ConnectorOffset(offset.partition, None) for offset in old])
    if dry_run:
        session.say("Dry run: nothing was changed.")
        return
    session.confirm(f"Reset all offsets of {name}?", yes=yes)
    session.say(session.client.reset_connector_offsets(name))


def _say_changes(session: CliSession, old: Sequence[ConnectorOffset], new: Sequence[ConnectorOffset]) -> None:
    """Old and new value of every partition that is named, for people."""
    before = {_compact(offset.partition): _compact(offset.offset) for offset in old}
    rows = [
        (_compact(offset.partition), before.get(_compact(offset.partition), "-"), _compact(offset.offset))
        for offset in new
    ]
    if rows:
        session.say(plain_table(("PARTITION", "OLD", "NEW"), rows).rstrip("\n"))
    else:
        session.say("There are no committed offsets.")


def _compact(value: object) -> str:
    """One line of JSON with sorted keys, so that equal partitions read the same; a dash for none."""
    import orjson

    return "-" if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
