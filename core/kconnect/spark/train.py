"""Have the JVM's class archive made beside the first worker, by a process that outlives it."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

from kconnect.class_archive import ClassArchive, make_in_background

__all__ = ["have_archive_made"]

log = logging.getLogger(__name__)


def have_archive_made(archive: ClassArchive, cache: Path) -> None:
    """Begin, unless there is an archive or somebody is at it; returns at once, and says so in one line."""
    if not archive.should_be_made():
        return
    try:
        make_in_background("kconnect.spark.make_archive", cache)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.debug("The class archive cannot be made: %s", error)
        return
    log.info("Preparing Spark's class archive once, in the background; starts get 2 s faster after it")
