"""CliSession: what the options of one call chose, its client, and talk on stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kconnect.errors import ConnectError, NotFoundError, TimedOutError, UnreachableError, did_you_mean
from kconnect_cli.contexts.profiles import Profile
from kconnect_cli.contexts.target import DEFAULT_URL, Target, find_target
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem, explain
from kconnect_cli.screen.output import Format, fitted

if TYPE_CHECKING:
    from kconnect.admin.cluster.broker_lags import BrokerLags
    from kconnect.admin.cluster.port import Cluster
    from kconnect.admin.cluster.rest_cluster import RestCluster
    from kconnect.admin.direct.client import DirectClient
    from kconnect.client import ClientAccess, ConnectClient
    from kconnect.client.outage import Outage
    from kconnect.client.patience import Patience

T = TypeVar("T")

# A rebalance of a quiet cluster takes 3 to 5 s
_RETRY_S = 10.0

# As Java's workers and ours say it
_NO_CONNECTOR = re.compile(r"^(?:Unknown connector:?|Connector|.* connector) (\S+)(?: not found\.?)?$")

WAIT_VARIABLE = "KCONNECT_REQUEST_TIMEOUT"

_URL_HELP = f"REST URL of a worker, or of several: URL,URL. [env var: KCONNECT_URL] [default: {DEFAULT_URL}]"
_CONTEXT_HELP = "Named cluster to use: connect contexts list. [env var: KCONNECT_CONTEXT]"
_RETRY_HELP = "How long to retry while a rebalance is in progress (409); 0: not at all. [default: 10s]"
_WAIT_HELP = (
    "How long a command waits for what it reads, and a change for a worker that is silent. "
    "[env var: KCONNECT_REQUEST_TIMEOUT] [default: 4s]"
)
_USER_HELP = "User for basic auth; the password is KCONNECT_PASSWORD, or asked for. [env var: KCONNECT_USER]"
_CA_HELP = "CA certificates to trust, PEM. [env var: KCONNECT_CA_FILE]"
_CERT_HELP = "Client certificate, PEM. [env var: KCONNECT_CERT_FILE]"
_KEY_HELP = "Private key of the certificate, PEM; its password is KCONNECT_KEY_PASSWORD. [env var: KCONNECT_KEY_FILE]"


def _option(help_: str, *names: str, metavar: str | None = None, hidden: bool = False) -> Any:  # Typer's own type
    return typer.Option(*names, help=help_, metavar=metavar, show_default=False, hidden=hidden)


# The variables are read by the session, not by Typer: behind the verb they would win over what stands before the noun
Url = Annotated[str | None, _option(_URL_HELP, "--url", metavar="URL")]
Context = Annotated[str | None, _option(_CONTEXT_HELP, "--context", metavar="CONTEXT")]
Retry = Annotated[str | None, _option(_RETRY_HELP, "--retry", metavar="TIME")]
Wait = Annotated[str | None, _option(_WAIT_HELP, "--request-timeout", metavar="TIME")]
Output = Annotated[
    Format | None, _option("table, json, yaml or name. [default: table]", "--output", "-o", metavar="FORMAT")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the trace of an error.")]
User = Annotated[str | None, _option(_USER_HELP, "--user", metavar="USER")]
CaFile = Annotated[str | None, _option(_CA_HELP, "--ca", metavar="FILE")]
CertFile = Annotated[str | None, _option(_CERT_HELP, "--cert", metavar="FILE")]
KeyFile = Annotated[str | None, _option(_KEY_HELP, "--key", metavar="FILE")]
# Behind the verb these are taken and not shown: `connect --help` and the reference list them once
HiddenWait = Annotated[str | None, _option(_WAIT_HELP, "--request-timeout", hidden=True)]
HiddenUser = Annotated[str | None, _option(_USER_HELP, "--user", hidden=True)]
HiddenCa = Annotated[str | None, _option(_CA_HELP, "--ca", hidden=True)]
HiddenCert = Annotated[str | None, _option(_CERT_HELP, "--cert", hidden=True)]
HiddenKey = Annotated[str | None, _option(_KEY_HELP, "--key", hidden=True)]

Name = Annotated[str, typer.Argument(metavar="NAME", help="Connector name.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ShowSecrets = Annotated[bool, typer.Option("--show-secrets", help="Do not mask secrets.")]


class CliSession:
    """One call of the command. The client connects when it is first used."""

    def __init__(self) -> None:
        self.output = Format.TABLE
        self.verbose = False
        self.retry_s = _RETRY_S
        self._wait: str | None = None
        self._url: str | None = None
        self._context: str | None = None
        self._options = Profile()
        self._target: Target | None = None
        self._client: ConnectClient | None = None
        self._access: ClientAccess | None = None
        self.direct: DirectClient | None = None
        """Set when the command works on the cluster's topics, not over a worker's REST API."""
        self.make_lags: Callable[[], BrokerLags] | None = None
        """Gives who asks the cluster's brokers for the lag of sinks; None where nothing says which they are."""
        self._worker_reader: RestCluster | None = None
        self._given: dict[type, object] = {}

    def choose(
        self,
        url: str | None = None,
        output: Format | None = None,
        verbose: bool = False,
        *,
        context: str | None = None,
        retry: str | None = None,
        wait: str | None = None,
        user: str | None = None,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
    ) -> None:
        """Options of the root or of the command; what is None was not given here."""
        self._url = self._url if url is None else url
        self._context = self._context if context is None else context
        here = {"user": user, "ca": ca_file, "cert": cert_file, "key": key_file}
        self._options = replace(self._options, **{key: value for key, value in here.items() if value is not None})
        self._target = None
        self.output = output or self.output
        self.verbose = verbose or self.verbose
        if retry is not None:
            self.retry_s = seconds_of(retry, "--retry")
        self._wait = wait or self._wait

    def keep(self, options: object) -> None:
        """Keep a set of options that was given in this call; one of each class, the last one counts."""
        self._given[type(options)] = options

    def given(self, kind: type[T]) -> T | None:
        """The set of options of this class; None for a command that does not take it."""
        found = self._given.get(kind)
        assert found is None or isinstance(found, kind)
        return found

    @property
    def target(self) -> Target:
        """The worker that is meant, read from options, environment and contexts file when first asked for."""
        if self._target is None:
            self._target = find_target(self._url, self._context, os.environ, self.say, self._options)
        return self._target

    @property
    def options(self) -> Profile:
        """Who we are to the worker, as the options of this call say."""
        return self._options

    @property
    def given_url(self) -> str | None:
        """What --url says in this call."""
        return self._url

    @property
    def context_worker(self) -> str | None:
        """The properties file of workers that the chosen context names."""
        profile = self.target.profile
        return None if profile is None else profile.worker

    @property
    def url(self) -> str:
        """Where it works, for messages."""
        if self.direct is not None:
            return self.direct.place
        return self.target.url if self._client is None else self._client.url

    @property
    def place(self) -> str:
        """`at URL`, or `in topic ..`: the end of a question."""
        return f"at {self.url}" if self.direct is None else f"in {self.url}"

    @property
    def reader(self) -> Cluster:
        """The cluster, as a worker tells it, or its topics."""
        if self.direct is not None:
            from kconnect.admin.cluster.topic_cluster import TopicCluster

            return TopicCluster(self.direct, lags=self._lags())
        if self._worker_reader is None:
            from kconnect.admin.cluster.rest_cluster import RestCluster, WorkerKind

            self._worker_reader = RestCluster(self.client, WorkerKind(), lags=self._lags())
        return self._worker_reader

    def _lags(self) -> BrokerLags | None:
        return None if self.make_lags is None else self.make_lags()

    @property
    def client(self) -> ConnectClient:
        if self._client is None:
            from kconnect.client import ConnectClient

            access = self.access_to(self.url)
            self._client = ConnectClient(
                self.target.urls,
                patience=self.patience(),
                tell=self.say,
                retry_conflicts_s=self.retry_s,
                access=access,
            )
        return self._client

    def patience(self) -> Patience:
        """How long one client waits for what it only reads. Errors: UsageProblem."""
        from kconnect.client.patience import Patience

        found = self._asked_wait
        if not found:
            return Patience(setting="--request-timeout")
        return Patience(seconds_of(found, "--request-timeout" if self._wait else WAIT_VARIABLE), "--request-timeout")

    @property
    def _asked_wait(self) -> str | None:
        """What the user said of how long to wait for an answer."""
        return self._wait or os.environ.get(WAIT_VARIABLE)

    def access_to(self, place: str) -> ClientAccess | None:
        """User, password and certificates for workers at `place`; a password that nobody gave is asked for, once."""
        if self._access is None:
            access = self.target.access(os.environ)
            if access is not None and access.user is not None and access.password is None:
                access = replace(access, password=self.ask_password(f"Password of {access.user} at {place}"))
            self._access = access
        return self._access

    @property
    def outage(self) -> Outage | None:
        """Kafka is away, as the worker said with its last answer."""
        return None if self._client is None else self._client.outage

    def tell_outage(self, said: str = "") -> None:
        """Say what the states are worth that were shown; once, behind them. `said`: the error, which may say it."""
        if self.outage is not None and not self.outage.is_in(said):
            self.say(self.outage.banner())

    def another_client(self) -> ConnectClient:
        """One for another thread, as the client belongs to one; whoever asks closes it. Ask once there is a client."""
        return self.client_of([self.url])

    def client_of(
        self,
        urls: Sequence[str],
        *,
        limit_s: float | None = None,
        setting: str | None = None,
        timeout_s: float | None = None,
    ) -> ConnectClient:
        """One for another thread, for these workers; a read ends as `patience` says.

        `limit_s`: within which it ends where nobody said --request-timeout, or where `setting` says so.
        `timeout_s`: for a change, and where a worker is starting; else the client's own.
        """
        from kconnect.client.connect_client import REQUEST_TIMEOUT_S, ConnectClient

        patience = self.patience()
        if limit_s is not None and (setting is not None or not self._asked_wait):
            patience = replace(patience, limit_s=limit_s, setting=setting or patience.setting)
        access = self.access_to(", ".join(urls))
        return ConnectClient(
            urls,
            patience=patience,
            retry_conflicts_s=self.retry_s,
            access=access,
            timeout_s=timeout_s or REQUEST_TIMEOUT_S,
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self.direct is not None:
            self.direct.close()

    def say(self, text: str) -> None:
        """Talk: to stderr, behind all results so far, also where both streams go to one file."""
        _flush_results()
        typer.echo(fitted(text, sys.stderr), err=True)

    def complain(self, error: BaseException) -> int:
        """One red sentence, one hint line, the trace with --verbose; without secrets. Gives the exit code."""
        from kconnect.logs.redaction import redact

        sentence, hint, code = explain(error)
        hint = " ".join(part for part in (self._source_of_urls(sentence), hint) if part)
        _flush_results()
        typer.secho(fitted(redact(sentence), sys.stderr), fg="red", err=True)
        if hint:
            typer.echo(fitted(f"Hint: {redact(hint)}", sys.stderr), err=True)
        if self.verbose:
            import traceback

            typer.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)
        return code

    def _source_of_urls(self, sentence: str) -> str | None:
        """Who named the URL that a sentence is about; None where the command line did, or it is about none."""
        target = self._target
        if target is None or self._client is None or target.source == "--url":
            return None
        if not any(url in sentence for url in target.urls):
            return None
        if target.source == "the default":
            return f"No --url and no context names a worker, so {target.url} was asked."
        return f"{'The URL comes' if len(target.urls) == 1 else 'The URLs come'} from {target.source}."

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on the terminal unless --yes. Errors: UsageProblem without a terminal; exit 1 on no."""
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageProblem(
                f"This needs confirmation, but there is no terminal to ask on: {question}", hint="Add --yes to do it."
            )
        if not typer.confirm(question, err=True):
            self.say("Nothing was changed.")
            raise typer.Exit(1)

    def ask_password(self, question: str) -> str | None:
        """Ask on the terminal, unseen; None without a terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        return str(typer.prompt(question, hide_input=True, err=True))

    def each(
        self,
        names: Sequence[str],
        action: Callable[[str], None],
        *,
        connectors: bool = True,
        which: Callable[[str], str] | None = None,
    ) -> None:
        """Do it for every connector (or other name), though some fail; the exit code is that of the first failure.

        `which` gives a line that says which one failed, where the error itself does not name it.
        """
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
                if which is not None:
                    self.say(which(name))
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
                err.hint = self.other_names(name)
            raise
        except ConnectError as err:
            if type(err) is not ConnectError or name in self.reader.connectors():
                raise
            raise NotFoundError(f"Unknown connector {name}", hint=self.other_names(name)) from err

    def suggest(self, error: ConnectError) -> None:
        """Give an error of a connector that is not there, and says no more, the names of those that are."""
        found = _NO_CONNECTOR.search(str(error))
        if found is not None and error.hint is None and isinstance(error, NotFoundError):
            error.hint = self.other_names(found[1])

    def known(self, name: str, found: Mapping[str, T]) -> T:
        """What was found under a name. Errors: NotFoundError that lists existing names."""
        if name not in found:
            raise NotFoundError(f"Unknown connector {name}", hint=self.other_names(name, list(found)))
        return found[name]

    def other_names(self, name: str, names: Sequence[str] | None = None) -> str | None:
        """A hint for a name that no connector has: those that there are. None if one has it, or they are not known."""
        try:
            names = self.reader.connectors() if names is None else names
        except ConnectError:
            return None
        if name in names:
            return None
        if not names:
            return f"{self.url} has no connectors."
        shown = ", ".join(names[:10]) + (", .." if len(names) > 10 else "")
        return did_you_mean(name, names) or f"{self.url} has these connectors: {shown}"


def session_of(ctx: typer.Context) -> CliSession:
    return ctx.ensure_object(CliSession)


def _flush_results() -> None:
    """Results wait in Python's buffer when stdout is no terminal, and talk does not."""
    with suppress(BrokenPipeError):  # whoever reads is gone; the end of the command tells that by its exit code
        sys.stdout.flush()
