"""One fetch of spark.jars.packages at a time.

Spark has Ivy fetch them into a folder of the user's that Ivy does not lock: of two workers that start together on a new
machine one reads a jar that the other is still writing, and ends with "unresolved dependency".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kconnect.errors import EnvironmentProblemError, TimedOutError
from kconnect.files.file_turn import turn

log = logging.getLogger(__name__)


@contextmanager
def package_turn(spark: Mapping[str, str], cache: Path, timeout_s: float, stopping: threading.Event) -> Iterator[None]:
    """Inside, no other worker of this user fetches packages; at once where there are none to fetch.

    Errors: TimedOutError; EnvironmentProblemError when the worker stops meanwhile, or the folder cannot be written.
    """
    packages = spark.get("spark.jars.packages", "").strip()
    if not packages:
        yield
        return
    lock = cache / "spark-packages.lock"
    with ExitStack() as held:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            waits = turn(lock, timeout_s, stopping=stopping, when_taken=lambda: _tell(packages))
            is_ours = held.enter_context(waits)
        except OSError as error:
            raise EnvironmentProblemError(
                f"Cannot write {lock}, which lets one worker at a time fetch spark.jars.packages: {error}",
                hint="Set KCONNECT_CACHE to a folder that can be written.",
            ) from error
        if not is_ours and stopping.is_set():
            raise EnvironmentProblemError("The worker stops")
        if not is_ours:
            raise TimedOutError(
                f"Another worker has been fetching spark.jars.packages for {timeout_s:g} s "
                f"(kconnect.slot.start.timeout.ms; lock {lock})",
                hint="Look at that worker's log, or end it.",
            )
        yield


def _tell(packages: str) -> None:
    log.info("Another worker of this user is fetching packages for Spark; waiting for it to fetch %s", packages)
