"""CliSession: what the options of one call chose, its client, and talk on stderr; and @with_session."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from kconnect.errors import ConnectError, NotFoundError, TimedOutError, UnreachableError
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem, explain
from kconnect_cli.output import Format
from kconnect_cli.target import DEFAULT_URL, Target, find_target

if TYPE_CHECKING:
    from types import FrameType

    from kconnect.client import ConnectClient

__all__ = [
    "DEFAULT_URL",
    "CliSession",
    "Context",
    "Name",
    "Names",
    "Yes",
    "session_of",
    "signals_raise",
    "with_session",
]

T = TypeVar("T")

# A rebalance of a quiet cluster takes 3 to 5 s
_RETRY_S = 10.0

_URL_HELP = f"REST URL of a worker. [env var: KCONNECT_URL] [default: {DEFAULT_URL}]"
_CONTEXT_HELP = "Named worker to use: connect contexts list. [env var: KCONNECT_CONTEXT]"
_RETRY_HELP = "How long to try again while a rebalance runs (409); 0 does not. [default: 10s]"
# The variables are read by the session, not by Typer: behind the verb they would win over what stands before the noun
Url = Annotated[str | None, typer.Option("--url", help=_URL_HELP, show_default=False)]
Context = Annotated[str | None, typer.Option("--context", help=_CONTEXT_HELP, show_default=False)]
Retry = Annotated[str | None, typer.Option("--retry", metavar="TIME", help=_RETRY_HELP, show_default=False)]
Output = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="table, json, yaml or name. [default: table]", show_default=False),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the trace of an error.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Connector names.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Connector name.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class CliSession:
    """One call of the command. The client connects when it is first used."""

    def __init__(self) -> None:
        self.output = Format.TABLE
        self.verbose = False
        self.retry_s = _RETRY_S
        self._url: str | None = None
        self._context: str | None = None
        self._target: Target | None = None
        self._client: ConnectClient | None = None

    def choose(
        self,
        url: str | None = None,
        output: Format | None = None,
        verbose: bool = False,
        *,
        context: str | None = None,
        retry: str | None = None,
    ) -> None:
        """Options of the root or of the command; what is None was not given here."""
        self._url = url or self._url
        self._context = context or self._context
        self._target = None
        self.output = output or self.output
        self.verbose = verbose or self.verbose
        if retry is not None:
            self.retry_s = seconds_of(retry, "--retry")

    @property
    def target(self) -> Target:
        """The worker that is meant, read from options, environment and contexts file when first asked for."""
        if self._target is None:
            self._target = find_target(self._url, self._context, os.environ, self.say)
        return self._target

    @property
    def given_url(self) -> str | None:
        """What --url says in this call."""
        return self._url

    @property
    def url(self) -> str:
        return self.target.url

    @property
    def client(self) -> ConnectClient:
        if self._client is None:
            from kconnect.client import ConnectClient

            access = self.target.access(os.environ)
            self._client = ConnectClient(self.url, retry_conflicts_s=self.retry_s, access=access)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def say(self, text: str) -> None:
        """Talk: to stderr."""
        typer.echo(text, err=True)

    def complain(self, error: BaseException) -> int:
        """One red sentence, one hint line, the trace with --verbose. Gives the exit code."""
        sentence, hint, code = explain(error)
        typer.secho(sentence, fg="red", err=True)
        if hint:
            typer.echo(f"Hint: {hint}", err=True)
        if self.verbose:
            import traceback

            typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        return code

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on the terminal unless --yes. Errors: UsageProblem without a terminal; exit 1 on no."""
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageProblem(
                f"This needs an answer, and there is no terminal to ask on: {question}", hint="Add --yes to do it."
            )
        if not typer.confirm(question, err=True):
            self.say("Nothing was changed.")
            raise typer.Exit(1)

    def each(self, names: Sequence[str], action: Callable[[str], None], *, connectors: bool = True) -> None:
        """Do it for every connector (or other name), though some fail; the exit code is that of the first failure."""
        failures: list[int] = []
        for name in dict.fromkeys(names):
            try:
                if connectors:
                    self.on_connector(name, action)
                else:
                    action(name)
            except (UnreachableError, TimedOutError):
                raise
            except ConnectError as err:
                if len(names) == 1:
                    raise
                failures.append(self.complain(err))
        if failures:
            raise typer.Exit(failures[0])

    def on_connector(self, name: str, action: Callable[[str], T]) -> T:
        """Do it; a connector that is not there gives names that are.

        A Java standalone worker answers 500 and an exception's text to stop and restart of one that is not.
        """
        try:
            return action(name)
        except NotFoundError as err:
            if err.hint is None:
                err.hint = self._other_names(name)
            raise
        except ConnectError as err:
            if type(err) is not ConnectError or name in self.client.connectors():
                raise
            raise NotFoundError(f"Unknown connector {name}", hint=self._other_names(name)) from err

    def known(self, name: str, found: Mapping[str, T]) -> T:
        """What was found under a name. Errors: NotFoundError with names that are there."""
        if name not in found:
            raise NotFoundError(f"Unknown connector {name}", hint=self._other_names(name, list(found)))
        return found[name]

    def _other_names(self, name: str, names: Sequence[str] | None = None) -> str | None:
        names = self.client.connectors() if names is None else names
        if name in names:
            return None
        if not names:
            return f"{self.url} has no connectors."
        from difflib import get_close_matches

        near = get_close_matches(name, names, n=3)
        if near:
            return f"Did you mean {' or '.join(near)}?"
        shown = ", ".join(names[:10]) + (", .." if len(names) > 10 else "")
        return f"{self.url} has these connectors: {shown}"


def session_of(ctx: typer.Context) -> CliSession:
    return ctx.ensure_object(CliSession)


def with_session(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the session as its first argument, and the options --url, --output and --verbose.

    So these (and --context, --retry) may stand before the noun or after the verb, and a command only names its own
    parameters.
    """

    def call(
        ctx: typer.Context,
        *,
        url: str | None,
        context: str | None,
        retry: str | None,
        output: Format | None,
        verbose: bool,
        **given: Any,
    ) -> None:
        session = session_of(ctx)
        session.choose(url, output, verbose, context=context, retry=retry)
        command(session, **given)

    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(parameter.replace(kind=kind, annotation=hints[parameter.name]) for parameter in own),
        inspect.Parameter("url", kind, annotation=Url, default=None),
        inspect.Parameter("context", kind, annotation=Context, default=None),
        inspect.Parameter("retry", kind, annotation=Retry, default=None),
        inspect.Parameter("output", kind, annotation=Output, default=None),
        inspect.Parameter("verbose", kind, annotation=Verbose, default=False),
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    return call


@contextmanager
def signals_raise() -> Iterator[None]:
    """SIGTERM and a closed terminal end the command through its `finally` blocks, as Ctrl-C does."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
