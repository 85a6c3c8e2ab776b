"""Options that many commands share: each set of them is a dataclass, and a command says which sets it takes.

    @app.command(cls=takes(SelectionOptions, *DIRECT))
    def pause(ctx: typer.Context, dry_run: DryRun = False) -> None:
        session = session_of(ctx)

What was given is in the session when the command runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import typer
from typer.core import TyperCommand
from typer.main import get_command

from kconnect.errors import ConnectError
from kconnect_cli.session import (
    CliSession,
    Context,
    HiddenCa,
    HiddenCert,
    HiddenKey,
    HiddenUser,
    HiddenWait,
    Output,
    Retry,
    Url,
    Verbose,
    session_of,
)


class SharedOptions(Protocol):
    """A set of options: a dataclass whose fields are annotated as parameters of a command are."""

    def apply(self, session: CliSession) -> None:
        """Called before the command. Errors: UsageProblem."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What every command takes, before the noun or behind the verb."""

    url: Url = None
    context: Context = None
    user: HiddenUser = None
    ca_file: HiddenCa = None
    cert_file: HiddenCert = None
    key_file: HiddenKey = None
    retry: Retry = None
    wait: HiddenWait = None
    output: Output = None
    verbose: Verbose = False

    def apply(self, session: CliSession) -> None:
        session.choose(
            self.url,
            self.output,
            self.verbose,
            context=self.context,
            retry=self.retry,
            wait=self.wait,
            user=self.user,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
        )


@cache
def takes(*shared: type[SharedOptions]) -> type[TyperCommand]:
    """The class of a command that takes these options and those of all commands.

    They are applied last to first, those of all commands before the others. A command with a parameter of its own by
    the name of an option, as `contexts add --user` or `records --key`, keeps that to itself.
    """

    class Command(TyperCommand):
        def __init__(self, name: str | None, *, params: Sequence[Any] | None = None, **settings: Any) -> None:
            own = list(params or ())  # typer's own click types are private
            taken = {word for param in own for word in (param.name, *param.opts)}
            self._shared = [
                (kind, [param for param in _parameters(kind) if taken.isdisjoint((param.name, *param.opts))])
                for kind in (*shared, SessionOptions)
            ]
            more = [param for _, found in self._shared for param in found]
            arguments = [param for param in more if param.param_type_name == "argument"]
            options = [param for param in more if param.param_type_name != "argument"]
            super().__init__(name, params=[*arguments, *own, *options], **settings)

        def invoke(self, ctx: Any) -> Any:  # as above
            session = session_of(ctx)
            for kind, params in reversed(self._shared):
                given: dict[str, Any] = {param.name: ctx.params.pop(param.name) for param in params}
                kind(**given).apply(session)
            said = ""
            try:
                return super().invoke(ctx)
            except ConnectError as err:
                said = str(err)
                session.suggest(err)
                raise
            finally:
                session.tell_outage(said)

    return Command


@cache
def _parameters(options: type[SharedOptions]) -> Sequence[Any]:  # as above
    """A dataclass's fields as Typer reads the parameters of a function."""
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    holder.command()(options)
    return list(get_command(holder).params)
