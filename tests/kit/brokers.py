"""The dev broker and the dev registry, with the patience of tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kconnect.devbroker import DevBroker
from kconnect.devbroker.dev_registry import DevRegistry
from kit.pace import ample_s

# Brokers of tests live for seconds: what the optimising compiler takes, they never give back
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1",)
# Records of recorded cases are years old: every 5 minutes a broker deletes what is older than a week, also between the
# producing of a test and its look
_KEEP = {"log.retention.ms": "-1"}
# 2 s alone on 2 cores; it took more than a minute beside 50 other processes
_START_S = 60.0


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
            port, data_dir, settings={**_KEEP, **(settings or {})}, listeners=listeners, jvm_options=_JVM_OPTIONS
        )

    def start(self, timeout_s: float | None = None) -> None:
        super().start(ample_s(_START_S) if timeout_s is None else timeout_s)


class PatientRegistry(DevRegistry):
    """Waits for its start as long as this machine may take for it."""

    def start(self, timeout_s: float | None = None) -> None:
        super().start(ample_s(_START_S) if timeout_s is None else timeout_s)
