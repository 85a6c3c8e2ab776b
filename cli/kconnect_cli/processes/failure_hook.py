"""What `connectors watch --on-failure` does with an event: runs a command, or posts it to a URL. Nothing goes through a
shell.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Protocol

from kconnect.errors import ConfigError, ConnectError
from kconnect_cli.exits import UsageProblem

# A command that sends a message takes seconds; one that waits for input would hold up what is watched
_COMMAND_S = 60.0
# Linux takes 128 KiB of one variable; the whole cause is in the JSON
_MOST_CHARS = 10_000
# What it prints is talk, not data
_STDERR = 2
_CONNECT_S, _POST_S, _POST_TRIES = 2.0, 10.0, 3


class FailureHook(Protocol):
    """Gets each event of a failure."""

    def tell(self, event: Mapping[str, Any]) -> None:
        """Errors: ConnectError, when it did not get it."""
        ...


def failure_hook(given: str) -> FailureHook:
    """The hook of a command line or a URL. Errors: UsageProblem for one that cannot work."""
    if given.startswith(("http://", "https://")):
        return _Post(given)
    try:
        argv = shlex.split(given)
    except ValueError as err:
        raise UsageProblem(f"--on-failure is not a command: {err}", hint="Quote it as a shell would.") from err
    if not argv:
        raise UsageProblem(
            "--on-failure is empty", hint="Give a command, or a URL that begins with http:// or https://."
        )
    if shutil.which(argv[0]) is None:
        raise UsageProblem(
            f"--on-failure: {argv[0]} is not a command on this machine",
            hint="It runs without a shell: for pipes and the like, give sh -c '...'.",
        )
    return _Command(argv)


class _Command:
    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def tell(self, event: Mapping[str, Any]) -> None:
        """The event is in its environment as KCONNECT_*, and on its input as JSON. What it prints goes to stderr."""
        told = {
            "KCONNECT_EVENT": event["event"],
            "KCONNECT_CONNECTOR": event["name"],
            "KCONNECT_TASK": "" if event["task"] is None else str(event["task"]),
            "KCONNECT_STATE": event["state"],
            "KCONNECT_WORKER": event["worker_id"],
            "KCONNECT_CAUSE": event["cause"],
        }
        clean = {key: str(value).replace("\0", "")[:_MOST_CHARS] for key, value in told.items()}
        try:
            done = subprocess.run(
                self._argv,
                input=json.dumps(event).encode(),
                env={**os.environ, **clean},
                stdout=_STDERR,
                timeout=_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise ConnectError(f"{self._argv[0]} did not end within {_COMMAND_S:g} s and was killed") from err
        except OSError as err:
            raise ConnectError(f"{self._argv[0]} cannot be run: {err.strerror}") from err
        if done.returncode:
            raise ConnectError(f"{self._argv[0]} ended with exit code {done.returncode}")


class _Post:
    def __init__(self, url: str) -> None:
        from kconnect.client.json_post import JsonPost

        try:
            self._post = JsonPost(url, connect_timeout_s=_CONNECT_S, timeout_s=_POST_S)
        except ConfigError as err:
            raise UsageProblem(f"--on-failure: {err}", hint=err.hint) from err

    def tell(self, event: Mapping[str, Any]) -> None:
        """Tried again where that may help."""
        body = json.dumps(event).encode()
        for attempt in range(_POST_TRIES):
            try:
                status = self._post.send(body, {"User-Agent": "kconnect", "X-Kconnect-Event": str(event["event"])})
            except ConnectError:
                if attempt == _POST_TRIES - 1:
                    raise
                continue
            if 200 <= status < 300:
                return
            if status < 500:
                break
        raise ConnectError(f"{self._post.host} answered {status}")
