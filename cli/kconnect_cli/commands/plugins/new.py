"""`connect plugins new`: a project with a source, a sink, tests and entry points; it passes its tests as made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from kconnect.errors import AlreadyExistsError
from kconnect_cli.commands.plugins.templates import TEMPLATES
from kconnect_cli.exits import UsageProblem
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import Verbose, session_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the project, such as kconnect-weather.")],
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Folder to create it in. [default: ./NAME]", show_default=False),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Make a project for a source and a sink of your own: code, tests, entry point, connector files."""
    session = session_of(ctx)
    session.choose(None, None, verbose)
    if not _NAME.fullmatch(name):
        raise UsageProblem(
            f"{name!r} is not a valid name for a project.",
            hint="Use letters, digits and single dashes, starting with a letter: my-connector.",
        )
    target = folder or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise AlreadyExistsError(f"{target} exists and is not empty.", hint="Choose another name, or --dir.")
    for path, text in project_files(name).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    write_text(f"{target}\n")
    session.say(f"Next: cd {target} && python -m pytest && connect try source.properties --plugin-path src")


def project_files(name: str) -> dict[str, str]:
    """Every file of a new project by its path."""
    package = re.sub(r"[-_]+", "_", name).lower()
    words = {
        "PROJECT": re.sub(r"[-_]+", "-", name).lower(),
        "PACKAGE": package,
        "CLASS": "".join(word.capitalize() for word in package.split("_")),
        "PYTHON": "3.11",
    }
    found = {}
    for path, text in TEMPLATES.items():
        for word, value in words.items():
            path, text = path.replace(f"@{word}@", value), text.replace(f"@{word}@", value)
        found[path] = text
    return found
