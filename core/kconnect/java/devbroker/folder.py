"""The data folder of the dev broker: its contents, its lock, and its problems.

broker.lock         locked (flock) by the broker's process for as long as it lives; contains pid and port
broker.log          what the broker prints; broker.log.old is that of the start before
server.properties   written at each start
log4j2.properties
kafka/              Kafka's own: logs of topics, meta.properties
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kconnect.errors import EnvironmentProblemError
from kconnect.java.devbroker.server_folder import ServerFolder

NODE_ID = 1


class BrokerFolder(ServerFolder):
    """One data folder. All methods are cheap and may be called from any process."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "broker", "broker")
        self.settings = self.path / "server.properties"
        self.log_settings = self.path / "log4j2.properties"
        self.kafka = self.path / "kafka"
        self.scratch = self.path / "tmp"  # native libraries a JVM unpacks: a killed one leaves them behind
        self.meta = self.kafka / "meta.properties"

    @property
    def mark(self) -> str:
        return str(self.settings)

    @property
    def is_formatted(self) -> bool:
        return self.meta.exists()

    def prepare(self) -> None:
        """Create the folder, and check that it is ours, complete and writable.

        Errors: EnvironmentProblemError, with one message for each possible problem.
        """
        other = "Name another folder with --data."
        if self.path.exists() and not self.path.is_dir():
            raise EnvironmentProblemError(f"The broker's data folder {self.path} is a file.", hint=other)
        if (self.path / "meta.properties").exists():
            raise EnvironmentProblemError(
                f"{self.path} holds the data of another Kafka broker (there is a meta.properties in it).", hint=other
            )
        if self.path.exists() and os.access(self.path, os.R_OK | os.X_OK):
            names = {entry.name for entry in self.path.iterdir()}
            if names and not names & {"broker.lock", "kafka"}:
                raise EnvironmentProblemError(
                    f"{self.path} is not empty and no data folder of this broker (it holds {sorted(names)[0]}).",
                    hint=other,
                )
        try:
            self.kafka.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise self.not_writable(err) from err
        for folder in (self.path, self.kafka):
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise self.not_writable(PermissionError(0, "no permission"))
        self._check_meta()

    def cluster_id(self) -> str | None:
        """The cluster id of a formatted folder, None before."""
        return self._meta().get("cluster.id")

    def clear_scratch(self) -> None:
        """An empty folder for the JVM's temporary files."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True, exist_ok=True)

    def _meta(self) -> dict[str, str]:
        try:
            text = self.meta.read_text("utf-8")
        except FileNotFoundError:
            return {}
        pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        return {key.strip(): value.strip() for key, _, value in pairs}

    def _check_meta(self) -> None:
        hint = "Delete the folder to start empty, or name another one with --data."
        try:
            meta = self._meta()
        except (OSError, UnicodeDecodeError) as err:
            raise EnvironmentProblemError(
                f"The broker's data folder {self.path} is broken: {self.meta} cannot be read ({err}).", hint=hint
            ) from err
        if not self.is_formatted:
            return
        for key in ("version", "cluster.id", "node.id", "directory.id"):
            if not meta.get(key):
                raise EnvironmentProblemError(
                    f"The broker's data folder {self.path} is broken: {self.meta} has no {key}.", hint=hint
                )
        if meta["node.id"] != str(NODE_ID):
            raise EnvironmentProblemError(
                f"The data folder {self.path} belongs to another cluster: node.id is {meta['node.id']}, not {NODE_ID}.",
                hint=hint,
            )
