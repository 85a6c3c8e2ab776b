"""Assembly: config -> stores, launcher, herder, REST; started in order, stopped in reverse.

`running` is what both kinds of worker share, `standalone` and `distributed` the order of each, `startup_errors` why
one cannot start. Imported by the command line and by programs that embed a worker; imports every room below.

Importing this package alone loads nothing else: a standalone worker starts without the rooms of a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kconnect.worker.distributed import DistributedWorker
    from kconnect.worker.standalone import StandaloneWorker
    from kconnect.worker.startup_errors import EXIT_CONNECTORS, EXIT_HERDER, EXIT_WORKER, StartupError

__all__ = ["EXIT_CONNECTORS", "EXIT_HERDER", "EXIT_WORKER", "DistributedWorker", "StandaloneWorker", "StartupError"]


def __getattr__(name: str) -> Any:  # whatever the name stands for
    if name == "DistributedWorker":
        from kconnect.worker.distributed import DistributedWorker

        return DistributedWorker
    if name == "StandaloneWorker":
        from kconnect.worker.standalone import StandaloneWorker

        return StandaloneWorker
    if name in __all__:
        from kconnect.worker import startup_errors

        return getattr(startup_errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
