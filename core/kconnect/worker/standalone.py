"""A standalone worker: offsets in a file, configs and statuses in memory, connectors from files.

Source: ConnectStandalone (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from kconnect.logs.timeline import note_step
from kconnect.runtime.config import ConnectorFile, StandaloneConfig
from kconnect.runtime.herder.standalone.herder import StandaloneHerder
from kconnect.runtime.storage import FileOffsetStore
from kconnect.worker.running import LAUNCHER_STOP_S, MakeLauncher, RunningWorker
from kconnect.worker.startup_errors import EXIT_CONNECTORS, EXIT_WORKER, exit_code

log = logging.getLogger(__name__)

# A download and a compiler: 25 s, a minute on a busy machine. Not endlessly: who needs no Java waits as well
_PREPARED_S = 90.0


class StandaloneWorker(RunningWorker[StandaloneHerder, StandaloneConfig]):
    """`start` starts the connectors given, too; `create_connectors` from one thread at a time."""

    java_main = "org.apache.kafka.connect.cli.ConnectStandalone"

    def __init__(
        self,
        worker_props: Mapping[str, str],
        connectors: Sequence[ConnectorFile] = (),
        *,
        file: Path | None = None,
        launcher: MakeLauncher | None = None,
    ) -> None:
        super().__init__(worker_props, file=file, launcher=launcher)
        self._connectors = tuple(connectors)

    def create_connectors(self, files: Sequence[ConnectorFile], *, is_start: bool = False) -> None:
        """Create connectors one after the other. Errors: StartupError at the first that fails, naming its file.

        `is_start`: a server that is away is no reason to refuse one, as it may have run for months.
        """
        for file in files:
            with exit_code(EXIT_CONNECTORS, f"Failed to create connector for {file.path}: ", file.path):
                self.herder.put_connector(
                    file.name, file.config, initial_state=file.initial_state, replace=False, is_start=is_start
                )
            log.info("Created connector %s from %s", file.name, file.path)

    def _start(self) -> None:
        with exit_code(EXIT_WORKER):
            cluster_id = self._start_serving()
        self.herder.start(self._worker_id(), cluster_id)
        self._create_first()
        self.herder.ready()

    def _create_first(self) -> None:
        """Create the connectors it was given, one after the other.

        Their calls have a deadline, of which a first download of Kafka's jars must not be a part.
        """
        if self._connectors and self._preparation is not None:
            self._preparation.wait(_PREPARED_S)
        for file in self._connectors:
            with self.health.starting(f"Creating connector {file.name} from {file.path}"):
                self.create_connectors([file], is_start=True)
            note_step(f"Connector {file.name} is created")

    def _start_serving(self) -> str:
        """Spark in the background, REST, then Kafka. What starts first stops last."""
        raw = dict(self._props)
        config, plugins, variables = self._read_settings(StandaloneConfig.parse)
        self.kafka.look()
        launcher = self._make_launcher()
        offsets = FileOffsetStore(config.offset_storage_file_filename)
        parts = self._herder_parts(config, plugins, launcher, offsets, variables, raw)
        herder = self._herder = StandaloneHerder(parts)
        self._stack.callback(offsets.stop)
        self._stack.callback(lambda: launcher.stop(LAUNCHER_STOP_S))
        launcher.start(herder.events)
        with exit_code(EXIT_CONNECTORS):
            offsets.start()
        self._stack.callback(lambda: herder.stop(self._task_stop_s))
        self._serve(config, herder, plugins)
        cluster_id = self._find_cluster()
        self._watch_kafka(config.kconnect.kafka_heartbeat_interval_ms / 1000)
        self._watch_lag(config, parts, herder.watched_sinks)
        return cluster_id
