"""Options that say which cluster's internal topics a command works on.

A worker's file says all of it; single options win over the file, for a cluster whose files are elsewhere.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import NotGivenError
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import refuse_empty, refused_as_usage
from kconnect_cli.options.shared import takes
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.cluster.broker_lags import BrokerLags
    from kconnect.admin.direct.access import ClusterAccess

_WORKER_HELP = "A worker's properties file: brokers, security, topics. [env var: KCONNECT_WORKER]"
Worker = Annotated[str | None, typer.Option("--worker", metavar="FILE", help=_WORKER_HELP, show_default=False)]
Brokers = Annotated[
    str | None, typer.Option("--bootstrap-servers", metavar="HOST:PORT,..", help="Kafka brokers.", show_default=False)
]
Group = Annotated[
    str | None, typer.Option("--group-id", metavar="GROUP", help="Group of the workers.", show_default=False)
]
ConfigTopic = Annotated[
    str | None, typer.Option("--config-topic", metavar="TOPIC", help="Topic of configs.", show_default=False)
]
StatusTopic = Annotated[
    str | None, typer.Option("--status-topic", metavar="TOPIC", help="Topic of statuses.", show_default=False)
]
OffsetTopic = Annotated[
    str | None, typer.Option("--offset-topic", metavar="TOPIC", help="Topic of offsets.", show_default=False)
]
CommandConfig = Annotated[
    str | None,
    typer.Option("--command-config", metavar="FILE", help="Kafka client properties, for security.", show_default=False),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="TIME", help="Deadline of each Kafka request. [default: 10s]", show_default=False
    ),
]

# Option -> the worker's setting it stands for.
_SETTINGS = {
    "bootstrap_servers": "bootstrap.servers",
    "group_id": "group.id",
    "config_topic": "config.storage.topic",
    "status_topic": "status.storage.topic",
    "offset_topic": "offset.storage.topic",
}
DEFAULT_TIMEOUT = "10s"


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What was said of a cluster on the command line and in the environment."""

    worker: str | None = None
    command_config: str | None = None
    timeout: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    """Settings given one by one, by the worker's names."""
    is_on_line: bool = False
    """Whether any of it stands on the command line, not only in the environment or a context."""

    @property
    def is_given(self) -> bool:
        """Whether anything says which cluster is meant."""
        return bool(self.worker or self.settings)

    def access(self) -> ClusterAccess:
        """Read the files. Errors: ConfigError that names file and key, NotGivenError, FileNotFoundError."""
        from kconnect.admin.direct.access import ClusterAccess

        if not self.is_given:
            raise NotGivenError(
                "No cluster was given",
                hint="Give the worker's file, --worker WORKER.properties, or --bootstrap-servers.",
            )
        found = _read(self.worker) if self.worker else {}
        found |= _read(self.command_config) if self.command_config else {}
        settings = _resolved(found | dict(self.settings))
        self._check_servers(settings)
        return ClusterAccess(settings, seconds_of(self.timeout or DEFAULT_TIMEOUT, "--timeout"))

    def lags(self, session: CliSession, *, wait_s: float | None = None) -> BrokerLags:
        """Asks the brokers for the lag of sinks, for as long as the command waits. Opens nothing yet.

        `wait_s`: for what is not known yet, where others come later. Errors: UsageProblem for a time that is none.
        """
        from kconnect.admin.cluster.broker_lags import BrokerLags

        within_s = seconds_of(self.timeout, "--timeout") if self.timeout else session.patience().limit_s
        return BrokerLags(self.access, within_s, within_s if wait_s is None else wait_s)

    def _check_servers(self, settings: Mapping[str, str]) -> None:
        """Errors: UsageProblem that names the option or the file."""
        from kconnect.runtime.config.addresses import parse_servers

        option = dict(self.settings).get("bootstrap.servers")
        with refused_as_usage("" if option is not None else f"{self.command_config or self.worker}: "):
            if option is not None:
                parse_servers(option, "--bootstrap-servers")
            elif settings.get("bootstrap.servers", "").strip():
                parse_servers(settings["bootstrap.servers"])


@dataclass(frozen=True, slots=True)
class ClusterArguments:
    """The options that say which cluster is meant."""

    worker: Worker = None
    bootstrap_servers: Brokers = None
    group_id: Group = None
    config_topic: ConfigTopic = None
    status_topic: StatusTopic = None
    offset_topic: OffsetTopic = None
    command_config: CommandConfig = None
    timeout: Timeout = None

    def apply(self, session: CliSession) -> None:
        """The environment's KCONNECT_WORKER counts where no --worker is given, and a context's `worker` behind it.

        Errors: UsageProblem for an option without a value.
        """
        for field in fields(self):
            refuse_empty(f"--{field.name.replace('_', '-')}", getattr(self, field.name))
        settings = tuple((key, value) for name, key in _SETTINGS.items() if (value := getattr(self, name)))
        worker = self.worker or os.environ.get("KCONNECT_WORKER") or session.context_worker
        if not session.verbose:
            # What clients report of their attempts is in the error's sentence as well
            logging.getLogger("kconnect").addHandler(logging.NullHandler())
        is_on_line = any(getattr(self, field.name) is not None for field in fields(self))
        options = ClusterOptions(worker, self.command_config, self.timeout, settings, is_on_line)
        session.keep(options)
        session.make_lags = (lambda: options.lags(session)) if options.is_given else None


ON_CLUSTER = takes(ClusterArguments)
"""A command that works on a cluster's topics."""


def cluster_of(session: CliSession) -> ClusterOptions:
    """The cluster that the options of the call name, if any."""
    return session.given(ClusterOptions) or ClusterOptions()


def _read(file: str) -> dict[str, str]:
    from kconnect.java.compat.properties import read_properties

    return read_properties(Path(file).expanduser())


def _resolved(settings: dict[str, str]) -> dict[str, str]:
    """Put values in place of `${..}`, as the worker does, and keep them out of everything that is shown."""
    if not settings.get("config.providers"):
        return settings
    from kconnect.logs import redaction
    from kconnect.runtime.config.variables import secret_values
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(settings)
    try:
        resolved = variables.resolve(settings, "the worker")
    finally:
        variables.close()
    redaction.remember("worker", {*secret_values(resolved.values), *resolved.references})
    return dict(resolved.values)
