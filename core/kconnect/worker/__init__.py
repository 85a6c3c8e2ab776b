"""ASSEMBLY: config -> stores, launcher, herder, REST; started in order, stopped in reverse.

`running` has what both kinds of worker share, `standalone` and `distributed` the order of each, `startup` its errors.
Imported by the command line and by users who run a worker inside of their program; imports every room below.
"""

from kconnect.worker.distributed import DistributedWorker
from kconnect.worker.standalone import StandaloneWorker
from kconnect.worker.startup import EXIT_CONNECTORS, EXIT_HERDER, EXIT_WORKER, StartupError

__all__ = ["EXIT_CONNECTORS", "EXIT_HERDER", "EXIT_WORKER", "DistributedWorker", "StandaloneWorker", "StartupError"]
