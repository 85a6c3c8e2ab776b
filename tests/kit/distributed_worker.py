"""Workers of a cluster on a real broker: as processes, and inside of the test with tasks in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kconnect.runtime.herder.interface import Launcher
from kconnect.worker import DistributedWorker
from kit.memory_launcher import MemoryLauncher
from kit.standalone import STRING_CONVERTERS, Standalone


def cluster_settings(group: str) -> dict[str, str]:
    """Settings that all workers of a cluster share."""
    found = {"group.id": group, "scheduled.rebalance.max.delay.ms": "0"}
    for name in ("config", "offset", "status"):
        found[f"{name}.storage.topic"] = f"{group}-{name}"
        found[f"{name}.storage.replication.factor"] = "1"
    return found | {"offset.storage.partitions": "3", "status.storage.partitions": "2"}


class Distributed(Standalone):
    """A `connect distributed` process. `start()` returns when it is healthy."""

    command = "distributed"

    def __init__(self, folder: Path, bootstrap: str, group: str, worker: Mapping[str, str] | None = None) -> None:
        temporary = folder / "tmp"  # of its own: what a killed worker leaves is removed by the next one there
        temporary.mkdir(parents=True)
        settings = {**cluster_settings(group), **(worker or {})}
        super().__init__(folder, bootstrap, {}, settings, {"TMPDIR": str(temporary)})
        lines = self.files[0].read_text().splitlines(keepends=True)
        self.files[0].write_text("".join(line for line in lines if not line.startswith("offset.storage.file.")))


def worker_settings(bootstrap: str, group: str, **settings: str) -> dict[str, str]:
    """Settings of a worker of a test; keywords with `_` become settings with `.`."""
    return {
        "bootstrap.servers": bootstrap,
        **STRING_CONVERTERS,
        **cluster_settings(group),
        "listeners": "http://127.0.0.1:0",
        "heartbeat.interval.ms": "500",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


@contextmanager
def workers(
    bootstrap: str, group: str, count: int, launcher: Callable[[], Launcher] = MemoryLauncher, **settings: str
) -> Iterator[list[DistributedWorker]]:
    """Workers in this process, in their group; keywords with `_` become settings with `.`."""
    props = worker_settings(bootstrap, group, **settings)
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            worker = DistributedWorker(props, launcher=lambda _props: launcher())
            made.append(stack.enter_context(worker))
        yield made


def tasks_of(worker: DistributedWorker) -> set[str]:
    """What runs in a worker that was made here."""
    launcher = worker._launcher
    assert isinstance(launcher, MemoryLauncher)
    return {str(task_id) for task_id in list(launcher.tasks)}  # the herder's thread adds and removes some
