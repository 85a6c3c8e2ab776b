"""A worker of a cluster as a process of its own, to kill, whose tasks are threads: as `workers`, and no Spark.

`python -m kit.thread_worker FILE`: FILE has its settings as JSON; `plugin.path` is where tasks look, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from kit.pace import ended
from kit.places import TESTS
from kit.ports import free_port
from kit.waiting import eventually, wait_http


class ThreadWorker:
    """The process. A context manager; `start()` returns when it is healthy."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._file = folder / "worker.json"
        self._log = folder / "worker.log"
        self._file.write_text(json.dumps({**settings, "listeners": self.url}))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kit.thread_worker", str(self._file)],
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            eventually(self._is_healthy, 60, "the worker is healthy")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def freeze(self) -> None:
        """It stands still: its sockets take what comes, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As kill -9. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            ended(process, 10.0)

    def _is_healthy(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the worker ended\n{self._log.read_text(errors='replace')[-4000:]}")
        return bool(wait_http(f"{self.url}/health", 1.0))


def main() -> None:
    from kconnect.runtime.plugins import PluginRegistry
    from kconnect.testing import ThreadLauncher
    from kconnect.worker import DistributedWorker

    settings = json.loads(Path(sys.argv[1]).read_text())
    plugins = PluginRegistry.load(settings.get("plugin.path"))
    with DistributedWorker(settings, launcher=lambda _props: ThreadLauncher(plugins)):
        Event().wait()


if __name__ == "__main__":
    main()
