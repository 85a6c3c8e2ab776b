"""A process that makes the JVM's class archive: runs Spark once as a worker does, and has the JVM write what it loaded.

It lives only as long as its standard input: a worker that ends, in whatever way, takes it along. See train.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from kconnect.spark.session import SparkApplication
from kconnect.spark.settings import SparkSettings

__all__ = ["main"]


def main(cache: Path) -> None:
    """Make the archive in this process, unless there is one or another process makes it."""
    os.nice(10)  # 19 gets no turn at all on a machine whose cores are busy
    app = SparkApplication(SparkSettings(slots=1, cache=cache), records_classes=True)
    threading.Thread(target=_end_with_stdin, args=(app,), name="stdin", daemon=True).start()
    with app.claim_archive() as mine:
        if not mine:
            return
        app.start()
        try:
            app.context.parallelize([0], 1).foreachPartition(_touch)
            app.archive.dump(app.context._gateway)
        finally:
            app.stop(10.0)


def _touch(partition: Iterable[int]) -> None:
    for _ in partition:
        pass


def _end_with_stdin(app: SparkApplication) -> None:
    while os.read(0, 4096):  # not by sys.stdin, whose lock would be held when the interpreter ends
        pass
    if app.jvm_pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(app.jvm_pid, signal.SIGKILL)
    app.remove_folder()
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
