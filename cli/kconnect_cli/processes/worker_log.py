"""The log of a worker's process: its level, its form, and the levels that log4j's files and variables ask for."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.processes.worker_run import shows_live

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_SETTING = "kconnect.log.format"
_VARIABLE = "CONNECT_KCONNECT_LOG_FORMAT"

LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR. [default: INFO]", show_default=False
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="line or json: one JSON object a line. [default: kconnect.log.format of the worker, else line]",
        show_default=False,
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log-config",
        metavar="FILE",
        help="Levels of loggers: log4j2.yaml, log4j2.properties or log4j.properties. "
        "[default: what KAFKA_LOG4J_OPTS names]",
        show_default=False,
    ),
]


class WorkerLog:
    """The log on standard error. `start` at once; `follow` when the worker's properties are read."""

    def __init__(self, level: str | None, form: str | None, file: Path | None) -> None:
        """Errors: UsageProblem for a level or a form that does not exist."""
        if level is not None and level.upper() not in _LEVELS:
            raise UsageProblem(f"--log-level {level} is not one of {', '.join(_LEVELS)}")
        self._level = level.upper() if level is not None else None
        self._form = _checked_form(form, "--log-format") if form is not None else None
        self._file = file
        self.is_json = False
        self.handler: logging.Handler = logging.NullHandler()

    def start(self, env: Mapping[str, str] = os.environ) -> None:
        """Errors: ConnectError for a file of levels that cannot be read; UsageProblem for an unknown form."""
        from kconnect.logs import log_context as logs
        from kconnect.runtime.config.log_files import log_config_of, our_levels

        message = env.get(_VARIABLE, "").strip()  # a container's log is JSON from its first line
        form = self._form or (_checked_form(message, _VARIABLE) if message else "line")
        self.handler = logs.configure(self._level or logging.INFO, sys.stderr, form)
        self.is_json = form == "json"
        config = log_config_of(env, self._file)
        if self._form is None and not message and config.is_json:
            self._use("json")
        if config.root is not None and self._level is None:
            logging.getLogger().setLevel(config.root)
        translated = our_levels(config.levels)
        logs.give_levels(translated.levels)
        log = logging.getLogger(__name__)
        for note in config.notes:
            log.info("%s", note)
        if translated.unknown:
            log.info("Levels of %s change nothing here: no logger says the same", ", ".join(translated.unknown))

    def follow(self, properties: Mapping[str, str]) -> None:
        """Take the form that the worker's properties name, unless an option did. Errors: UsageProblem."""
        named = properties.get(_SETTING, "").strip()
        if named and self._form is None:
            self._use(_checked_form(named, _SETTING))

    def live_handler(self, no_live: bool) -> logging.Handler | None:
        """The handler that a live view stands for; None where plain lines are wanted, or nobody watches."""
        return self.handler if shows_live(no_live) and not self.is_json else None

    def _use(self, form: str) -> None:
        from kconnect.logs import log_context as logs

        self.handler.setFormatter(logs.FORMATS[form]())
        self.is_json = form == "json"


def _checked_form(text: str, name: str) -> str:
    form = text.strip().lower()
    if form not in ("line", "json"):
        raise UsageProblem(f"{name} {text} is neither line nor json")
    return form
