"""`connect contexts`: add, use, list, show, remove named workers with their URL, user and certificates."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kconnect.logs.redaction import HIDDEN
from kconnect_cli.contexts.profiles import Profile, Profiles, checked, contexts_path, load_profiles, save_profiles
from kconnect_cli.contexts.target import urls_of, without_user
from kconnect_cli.exits import UsageProblem, refused_as_usage
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, session_of

app = command_group("Add, use, list, show, remove named clusters: URLs of workers, user, certificates.")

_Name = Annotated[str, typer.Argument(metavar="CONTEXT", help="Name of the context.", show_default=False)]
_URLS_HELP = "URLs of the cluster's workers: when one is down, the next is asked. The same as --url."
_WorkerUrls = Annotated[list[str] | None, typer.Argument(metavar="URL", help=_URLS_HELP, show_default=False)]
_User = Annotated[str | None, typer.Option("--user", metavar="USER", help="User for basic auth.")]
_Ask = Annotated[bool, typer.Option("--password", help="Ask for the password; it is kept in the file.")]
_Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin and keep it.")]
_Env = Annotated[
    str | None,
    typer.Option("--password-env", metavar="VARIABLE", help="Environment variable with the password, read each time."),
]
_File = Annotated[
    str | None, typer.Option("--password-file", metavar="FILE", help="File with the password, read each time.")
]
_CaFile = Annotated[str | None, typer.Option("--ca", metavar="FILE", help="CA certificates to trust, PEM.")]
_CertFile = Annotated[str | None, typer.Option("--cert", metavar="FILE", help="Client certificate, PEM.")]
_KeyFile = Annotated[str | None, typer.Option("--key", metavar="FILE", help="Private key of the certificate, PEM.")]
_AskKey = Annotated[
    bool, typer.Option("--key-password", help="Ask for the password of the key; it is kept in the file.")
]
_KeyStdin = Annotated[
    bool,
    typer.Option(
        "--key-password-stdin",
        help="Read the password of the key from stdin, after that of --password-stdin, and keep it.",
    ),
]
_KeyEnv = Annotated[
    str | None,
    typer.Option(
        "--key-password-env",
        metavar="VARIABLE",
        help="Environment variable with the password of the key, read each time.",
    ),
]
_KeySecretFile = Annotated[
    str | None,
    typer.Option("--key-password-file", metavar="FILE", help="File with the password of the key, read each time."),
]
_WorkerFile = Annotated[
    str | None, typer.Option("--worker", metavar="FILE", help="Properties file of its workers, for `connect topics`.")
]
_COLUMNS = (
    Column("CURRENT", lambda row: "*" if row["current"] else ""),
    Column("NAME", lambda row: row["name"]),
    Column("URL", lambda row: row["url"]),
    Column("USER", lambda row: row.get("user") or "-"),
)


@app.command(cls=takes())
def add(
    ctx: typer.Context,
    context_name: _Name,
    worker_urls: _WorkerUrls = None,
    user: _User = None,
    ask: _Ask = False,
    stdin: _Stdin = False,
    env: _Env = None,
    file: _File = None,
    ca_file: _CaFile = None,
    cert_file: _CertFile = None,
    key_file: _KeyFile = None,
    ask_key: _AskKey = False,
    key_stdin: _KeyStdin = False,
    key_env: _KeyEnv = None,
    key_secret_file: _KeySecretFile = None,
    worker_file: _WorkerFile = None,
) -> None:
    """Add a context, or replace it. The first one becomes the current one."""
    session = session_of(ctx)
    url = ",".join(worker_urls or ()) or session.given_url
    if not url:
        raise UsageProblem("No URL given", hint="connect contexts add NAME http://HOST:8083 [URL ..]")
    _refuse_two("--password", ask, stdin, env is not None, file is not None)
    _refuse_two("--key-password", ask_key, key_stdin, key_env is not None, key_secret_file is not None)
    bare, userinfo = without_user(url)
    if userinfo is not None:
        raise UsageProblem("The URL has a user in it", hint="Leave it out of the URL: --user USER --password asks.")
    options = session.options  # options before the noun
    user, cert = user or options.user, cert_file or options.cert
    profile = Profile(
        url=",".join(dict.fromkeys(map(_checked_url, urls_of(bare)))),
        user=user,
        password=_password(session, f"Password of {user}", ask=ask, stdin=stdin),
        password_env=env,
        password_file=_absolute(file),
        ca=_absolute(ca_file or options.ca),
        cert=_absolute(cert),
        key=_absolute(key_file or options.key),
        key_password=_password(session, f"Password of the key of {cert}", ask=ask_key, stdin=key_stdin),
        key_password_env=key_env,
        key_password_file=_absolute(key_secret_file),
        worker=_absolute(worker_file),
    )
    with refused_as_usage():
        profile = checked(profile, f"Context {context_name}")
    path = contexts_path()
    profiles = load_profiles(path).with_profile(context_name, profile)
    save_profiles(path, profiles)
    session.say(f"added {context_name}" + (", the current context" if profiles.current == context_name else ""))


@app.command(cls=takes())
def use(ctx: typer.Context, context_name: _Name) -> None:
    """Make a context the current one: commands without --url or --context go to its workers."""
    session = session_of(ctx)
    path = contexts_path()
    profiles = load_profiles(path).using(context_name)
    save_profiles(path, profiles)
    session.say(f"{context_name} is the current context: {without_user(profiles.known[context_name].url)[0]}")


@app.command("list", cls=takes())
def list_(ctx: typer.Context) -> None:
    """List contexts; a star marks the current one."""
    session = session_of(ctx)
    profiles = load_profiles(contexts_path())
    rows = [_shown(name, profiles) for name in sorted(profiles.known)]
    write_rows(rows, _COLUMNS, session.output)
    if not rows and session.output is Format.TABLE:
        session.say("No contexts: connect contexts add NAME URL")


@app.command(cls=takes())
def show(
    ctx: typer.Context,
    context_name: Annotated[
        str | None, typer.Argument(metavar="CONTEXT", help="By default the current one.", show_default=False)
    ] = None,
) -> None:
    """Show a context; its password is masked."""
    session = session_of(ctx)
    profiles = load_profiles(contexts_path())
    name = context_name or profiles.current
    if name is None:
        raise UsageProblem("There is no current context", hint="connect contexts use NAME")
    row = _shown(name, profiles)
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
    elif session.output is Format.NAME:
        write_text(f"{name}\n")
    else:
        write_text("".join(f"{key} = {_plain(value)}\n" for key, value in row.items()))


@app.command(cls=takes())
def remove(ctx: typer.Context, context_name: _Name) -> None:
    """Remove a context."""
    session = session_of(ctx)
    path = contexts_path()
    save_profiles(path, load_profiles(path).without(context_name))
    session.say(f"removed {context_name}")


def _shown(name: str, profiles: Profiles) -> dict[str, Any]:
    """Shape: name, current, url and the other settings; a password is masked."""
    profile = profiles.get(name)
    bare, login = without_user(profile.url)  # of a file edited by hand
    if login is not None:
        profile = replace(profile, url=bare, user=profile.user or login.user)
    fields = profile.to_toml()
    fields |= {key: HIDDEN for key in ("password", "key_password") if key in fields}
    return {"name": name, "current": profiles.current == name, **fields}


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_two(option: str, *given: bool) -> None:
    """Each password has one source. Errors: UsageProblem."""
    if given.count(True) > 1:
        raise UsageProblem(f"Only one of {option}, {option}-stdin, {option}-env, {option}-file can be given")


def _password(session: CliSession, question: str, *, ask: bool, stdin: bool = False) -> str | None:
    """The password from the terminal, unseen, or from stdin; never from the command line, where `ps` shows it."""
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not ask:
        return None
    found = session.ask_password(question)
    if found is None:
        raise UsageProblem(
            "Cannot ask for the password: there is no terminal",
            hint="--password-stdin and --key-password-stdin read it.",
        )
    return found


def _absolute(path: str | None) -> str | None:
    """Paths are made absolute, as commands run from anywhere. Errors: UsageProblem if the file does not exist."""
    if path is None:
        return None
    full = Path(path).expanduser().absolute()
    if not full.is_file():
        raise UsageProblem(f"{path} is not a file")
    return str(full)


def _checked_url(url: str) -> str:
    from kconnect.client.transport import checked_url

    with refused_as_usage():
        return checked_url(url)
