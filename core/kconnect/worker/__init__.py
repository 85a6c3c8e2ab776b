"""Assembly: config -> stores, launcher, herder, REST; started in order, stopped in reverse.

`running` is what both kinds of worker share, `standalone` and `distributed` the order of each, `startup_errors` why
one cannot start. Imported by the command line and by programs that embed a worker; imports every room below.
"""

from kconnect.worker.distributed import DistributedWorker
from kconnect.worker.standalone import StandaloneWorker
from kconnect.worker.startup_errors import EXIT_CONNECTORS, EXIT_HERDER, EXIT_WORKER, StartupError

__all__ = ["EXIT_CONNECTORS", "EXIT_HERDER", "EXIT_WORKER", "DistributedWorker", "StandaloneWorker", "StartupError"]
