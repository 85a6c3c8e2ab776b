"""`connect dlq export`: dead letters as lines of JSON, which replay --file takes back."""

from __future__ import annotations

import typer

from kconnect.logs.wording import counted
from kconnect_cli.admin.dead_letters import LetterDesk
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.dead_letters import LetterOptions, Limit
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import Name, session_of


def add_to(app: typer.Typer) -> None:
    app.command("export", cls=takes(LetterOptions, DirectOrChecked, ClusterArguments))(export)


def export(ctx: typer.Context, name: Name, limit: Limit = None) -> None:
    """Write dead letters to stdout, one a line.

    Edit `record` in the lines, and replay --file sends what they say.

    \b
    connect dlq export orders-out > letters.jsonl
    connect dlq replay orders-out --file letters.jsonl

    Each line has letter (the bytes in base64: the file is complete without the topic), failure, and record: topic,
    partition, timestamp, key, value, headers as the connector's converters read them, else text or {"base64": ..}.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    import json

    from kconnect.admin.dead_letters.archive import archived

    session = session_of(ctx)
    count = 0
    with signals_raise(), LetterDesk(session, name) as desk:
        for letter in desk.letters():
            if count == limit:
                break
            line = archived(letter, desk.documents.document(letter.as_read()).body)
            write_text(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    session.say(f"{counted(count, 'dead letter')} of {name} exported from {desk.settings.topic}.")
