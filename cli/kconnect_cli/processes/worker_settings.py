"""Where the settings of a cluster's worker come from: its file, the environment, or both."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from kconnect.errors import ConnectError
from kconnect_cli.exits import UsageProblem

log = logging.getLogger(__name__)

FromEnvironmentFlag = Annotated[
    bool,
    typer.Option(
        "--from-environment",
        help="Settings from CONNECT_* variables, over those of the file; implied if no file is given.",
    ),
]


def worker_settings(file: Path | None, from_environment: bool, env: Mapping[str, str]) -> dict[str, str]:
    """The properties of a cluster's worker. Logs which variables count, never their values.

    Errors: UsageProblem without a file and without variables; ConnectError for a file of a standalone worker, and for
    variables that are missing.
    """
    settings = any_worker_settings(file, from_environment, env)
    if "offset.storage.file.filename" in settings and "group.id" not in settings:
        raise ConnectError(
            f"{file} is the file of a standalone worker (it has offset.storage.file.filename, and no group.id)",
            hint=f"Try: connect standalone {file}; or set group.id and the three storage topics.",
        )
    return settings


def any_worker_settings(file: Path | None, from_environment: bool, env: Mapping[str, str]) -> dict[str, str]:
    """The properties of a worker, which may be a standalone one. Errors: as `worker_settings`."""
    from kconnect.runtime.config import read_properties
    from kconnect.runtime.config.environment import has_settings, has_worker, worker_of

    properties = read_properties(file) if file is not None else None
    if properties is None and not from_environment and not has_worker(env):
        raise UsageProblem(
            "No worker was named: there is no file, and no CONNECT_BOOTSTRAP_SERVERS in the environment",
            hint="Try: connect distributed WORKER.properties; or set CONNECT_BOOTSTRAP_SERVERS, CONNECT_GROUP_ID ..",
        )
    if properties is not None and not from_environment:
        if has_settings(env):
            log.info("CONNECT_* variables are set, and not used: --from-environment puts them over %s", file)
        return properties
    found = worker_of(env, properties)
    for note in found.notes:
        log.warning("%s", note)
    log.info("Settings from the environment: %s", ", ".join(sorted(found.variables)) or "none")
    return dict(found.properties)


def source_of(file: Path | None) -> str:
    """Where settings come from, for messages."""
    return "the environment" if file is None else str(file)
