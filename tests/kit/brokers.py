"""The dev broker and the dev registry, with the patience of tests."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_registry import DevRegistry
from kconnect.java.installed import find_java
from kconnect.java.kafka_jars import JarSet
from kit.pace import ample_s

# Brokers of tests live for seconds: what the optimising compiler takes, they never give back
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1",)
# Records of recorded cases are years old: every 5 minutes a broker deletes what is older than a week, also between the
# producing of a test and its look
_KEEP = {"log.retention.ms": "-1"}
# Kafka's twenty threads wake up many times a second, also while nobody asks for anything
_FEW_THREADS = {"num.io.threads": "2", "num.network.threads": "1", "background.threads": "2"}
# 2 s alone on 2 cores; it took more than a minute beside 50 other processes
_START_S = 60.0
_FORMATTED: Final[dict[str, bytes]] = {}
_ID: Final = re.compile(rb"^((?:cluster|directory)\.id=).*$", re.MULTILINE)


class PatientBroker(DevBroker):
    """Waits for its start as long as this machine may take for it."""

    def __init__(
        self,
        port: int,
        data_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(
            port,
            data_dir,
            settings={**_KEEP, **_FEW_THREADS, **(settings or {})},
            listeners=listeners,
            jvm_options=_JVM_OPTIONS,
        )

    def start(self, timeout_s: float | None = None) -> None:
        super().start(ample_s(_START_S) if timeout_s is None else timeout_s)

    def __exit__(self, *_: object) -> None:
        """Its data are thrown away: nothing is gained by an orderly end, which takes half a second."""
        self.kill()

    def _format(self, command: Sequence[str]) -> None:
        """As Kafka's tool does, which is asked once in a process: two hundred brokers of a run took 1.2 s of CPU each.

        What it writes differs in the ids only.
        """
        if not _FORMATTED:
            super()._format(command)
            _FORMATTED.update({path.name: path.read_bytes() for path in self.folder.kafka.iterdir()})
            return
        self.folder.kafka.mkdir(parents=True, exist_ok=True)
        for name, data in _FORMATTED.items():
            (self.folder.kafka / name).write_bytes(_ID.sub(_fresh_id, data) if name == "meta.properties" else data)


def _fresh_id(found: re.Match[bytes]) -> bytes:
    """Another id in its place: 16 bytes in URL-safe base64, none of which begins with a dash."""
    return found[1] + base64.urlsafe_b64encode(b"\x40" + uuid.uuid4().bytes[1:]).rstrip(b"=")


class PatientRegistry(DevRegistry):
    """Waits for its start as long as this machine may take for it."""

    def start(self, timeout_s: float | None = None) -> None:
        super().start(ample_s(_START_S) if timeout_s is None else timeout_s)


@contextmanager
def quota_of_client(bootstrap: str, client_id: str, rates: str) -> Iterator[None]:
    """Inside, brokers hold the clients of this id to rates, such as `producer_byte_rate=100`."""
    _alter_client(bootstrap, client_id, "--add-config", rates)
    try:
        yield
    finally:
        names = ",".join(rate.partition("=")[0] for rate in rates.split(","))
        _alter_client(bootstrap, client_id, "--delete-config", names)


def _alter_client(bootstrap: str, client_id: str, what: str, value: str) -> None:
    """By kafka-configs. Errors: AssertionError when it fails."""
    jars = os.pathsep.join(map(str, JarSet().fetch()))
    command = [str(find_java("tests").executable), "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.admin.ConfigCommand"]
    entity = ["--alter", "--entity-type", "clients", "--entity-name", client_id, what, value]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, *entity], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
