"""Settings of Kafka clients as they are now: files of TLS, and those of references, are read again when they change.

A client of librdkafka reads what it shows and trusts when it is made, so whoever keeps one asks here, and makes another
when the answer is another. Differs: Java's clients keep what they were made with until the worker restarts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from kconnect.errors import ConnectError
from kconnect.files.reread import Reread
from kconnect.logs import redaction
from kconnect.runtime.config.client_security import client_files, client_secrets
from kconnect.runtime.config.variables import Variables, has_reference, secret_values

log = logging.getLogger(__name__)

T = TypeVar("T")


class LiveSettings(Mapping[str, str]):
    """A worker's settings with references resolved, those in `ssl.*` and `sasl.*` of clients as their files are now.

    All other settings stay as they were at the start. Threads: any.
    """

    def __init__(self, raw: Mapping[str, str], variables: Variables) -> None:
        """Errors: ConfigError for a reference that cannot be resolved."""
        resolved = variables.resolve(raw, "the worker")
        redaction.remember("worker", {*secret_values(resolved.values), *resolved.references})
        referring = {key: value for key, value in client_secrets(raw).items() if has_reference(value)}
        files = variables.files(referring)

        def read() -> Mapping[str, str]:
            fresh = variables.resolve(referring, "the worker")
            redaction.remember("worker, renewed", {*secret_values(fresh.values), *fresh.references})
            return {**resolved.values, **fresh.values}

        self._current: Reread[Mapping[str, str]] = Reread(
            read,
            lambda: files,
            reported=lambda _: log.info("Settings of Kafka clients were read again from %s", _named(files)),
            failed=lambda err: log.error("%s Kafka clients keep the settings from before", err),
        )

    def __getitem__(self, key: str) -> str:
        return self._current.value()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current.value())

    def __len__(self) -> int:
        return len(self._current.value())


def live_clients(settings: Callable[[], Mapping[str, str]], make: Callable[[], T], of: str | None = None) -> Reread[T]:
    """What `make` makes of settings for clients, and makes again when their files or secrets change.

    `settings`: those of a worker, or in Java's names those of a client, as they are now. `of`: what the clients are
    for; None if somebody else reports it in the log. What cannot be read, perhaps since it is being
    written, leaves what was made before. Errors: those of `make`.
    """

    def reported(_: T) -> None:
        if of is not None:
            why = _named(current.changed) or "their login"
            log.info("Replacing Kafka clients of %s: %s changed", of, why)

    def failed(err: ConnectError) -> None:
        level = logging.DEBUG if of is None else logging.ERROR
        log.log(level, "%s Kafka clients of %s keep the settings from before", err, of or "this worker")

    current = Reread(
        make,
        lambda: client_files(settings()),
        also=lambda: client_secrets(settings()),
        reported=reported,
        failed=failed,
    )
    return current


def _named(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
