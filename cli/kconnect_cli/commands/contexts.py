"""`connect contexts`: add, use, list, show, remove named workers with their URL, user and certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kconnect.errors import BadRequestError
from kconnect.logs import HIDDEN
from kconnect_cli.exits import UsageProblem
from kconnect_cli.output import Column, Format, write_object, write_rows, write_text
from kconnect_cli.profiles import Profile, Profiles, checked, contexts_path, load_profiles, save_profiles
from kconnect_cli.session import CliSession, with_session
from kconnect_cli.target import without_user

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Add, use, list, show, remove named workers: URL, user, certificates.",
)

_Name = Annotated[str, typer.Argument(metavar="CONTEXT", help="Name of the context.", show_default=False)]
_COLUMNS = (
    Column("CURRENT", lambda row: "*" if row["current"] else ""),
    Column("NAME", lambda row: row["name"]),
    Column("URL", lambda row: row["url"]),
    Column("USER", lambda row: row.get("user") or "-"),
)


@app.command()
@with_session
def add(
    session: CliSession,
    context_name: _Name,
    worker_url: Annotated[str | None, typer.Argument(metavar="URL", help="The same as --url.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="User for basic auth.")] = None,
    ask: Annotated[bool, typer.Option("--password", help="Ask for the password; it is kept in the file.")] = False,
    stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin and keep it.")] = False,
    env: Annotated[
        str | None, typer.Option("--password-env", metavar="VARIABLE", help="Where the password is each time.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--password-file", metavar="FILE", help="File with the password, read each time.")
    ] = None,
    ca_file: Annotated[str | None, typer.Option("--ca", metavar="FILE", help="CA certificates to trust, PEM.")] = None,
    cert_file: Annotated[str | None, typer.Option("--cert", metavar="FILE", help="Our certificate, PEM.")] = None,
    key_file: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Its private key, PEM.")] = None,
) -> None:
    """Add a context, or replace it. The first one becomes the current one."""
    url = worker_url or session.given_url
    if url is None:
        raise UsageProblem("No URL given", hint="connect contexts add NAME http://HOST:8083")
    if [ask, stdin, env is not None, file is not None].count(True) > 1:
        raise UsageProblem("Only one of --password, --password-stdin, --password-env, --password-file can be given")
    bare, userinfo = without_user(url)
    if userinfo is not None:
        raise UsageProblem("The URL has a user in it", hint="Leave it out of the URL: --user USER --password asks.")
    profile = Profile(
        url=_checked_url(bare),
        user=user,
        password=_password(user, ask=ask, stdin=stdin),
        password_env=env,
        password_file=_absolute(file),
        ca=_absolute(ca_file),
        cert=_absolute(cert_file),
        key=_absolute(key_file),
    )
    path = contexts_path()
    profiles = load_profiles(path).with_profile(context_name, checked(context_name, profile))
    save_profiles(path, profiles)
    session.say(f"added {context_name}" + (", the current context" if profiles.current == context_name else ""))


@app.command()
@with_session
def use(session: CliSession, context_name: _Name) -> None:
    """Make a context the current one: commands without --url or --context go to its worker."""
    path = contexts_path()
    profiles = load_profiles(path).using(context_name)
    save_profiles(path, profiles)
    session.say(f"{context_name} is the current context: {profiles.known[context_name].url}")


@app.command("list")
@with_session
def list_(session: CliSession) -> None:
    """List contexts; a star marks the current one."""
    profiles = load_profiles(contexts_path())
    rows = [_shown(name, profiles) for name in sorted(profiles.known)]
    write_rows(rows, _COLUMNS, session.output)
    if not rows and session.output is Format.TABLE:
        session.say("No contexts: connect contexts add NAME URL")


@app.command()
@with_session
def show(
    session: CliSession,
    context_name: Annotated[
        str | None, typer.Argument(metavar="[CONTEXT]", help="By default the current one.", show_default=False)
    ] = None,
) -> None:
    """Show a context; its password is masked."""
    profiles = load_profiles(contexts_path())
    name = context_name or profiles.current
    if name is None:
        raise UsageProblem("No context is the current one", hint="connect contexts use NAME")
    row = _shown(name, profiles)
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
    elif session.output is Format.NAME:
        write_text(f"{name}\n")
    else:
        write_text("".join(f"{key} = {_plain(value)}\n" for key, value in row.items()))


@app.command()
@with_session
def remove(session: CliSession, context_name: _Name) -> None:
    """Remove a context."""
    path = contexts_path()
    save_profiles(path, load_profiles(path).without(context_name))
    session.say(f"removed {context_name}")


def _shown(name: str, profiles: Profiles) -> dict[str, Any]:
    """Shape: name, current, url and what else is given; a password is masked."""
    fields = profiles.get(name).to_toml()
    if "password" in fields:
        fields["password"] = HIDDEN
    return {"name": name, "current": profiles.current == name, **fields}


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _password(user: str | None, *, ask: bool, stdin: bool) -> str | None:
    """The password from the terminal, unseen, or from stdin; never from the command line, where `ps` shows it."""
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not ask:
        return None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageProblem("There is no terminal to ask for the password on", hint="--password-stdin reads it.")
    return str(typer.prompt(f"Password of {user}", hide_input=True, err=True))


def _absolute(path: str | None) -> str | None:
    """Commands are run from anywhere. Errors: UsageProblem when there is no such file."""
    if path is None:
        return None
    full = Path(path).expanduser().absolute()
    if not full.is_file():
        raise UsageProblem(f"{path} is not a file")
    return str(full)


def _checked_url(url: str) -> str:
    from kconnect.client import ConnectClient

    try:
        return ConnectClient(url).url
    except BadRequestError as err:
        raise UsageProblem(str(err), hint=err.hint) from err
