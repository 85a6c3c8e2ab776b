"""The class archive of Spark's JVM: what it depends on, and who makes it.

Measured on 2 cores: JVM and SparkContext ready after 1.1 s with the archive, 1.7 s without. A JVM that
records classes takes 3.6 s, so a worker never does: a separate process makes it (make_archive.py). The JVM
writes it when it ends, and links every class first: written while it runs, an archive lacks the classes that
nobody has used yet, 1,700 of 6,800, which cost a fifth of the CPU time of a start.
"""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

from kconnect.java.archives import RECORDS_AT_EXIT, ClassArchive, make_in_background
from kconnect.java.installed import Java
from kconnect.spark.jvm import FAST_FLAGS, spark_home

log = logging.getLogger(__name__)


def spark_archive(cache: Path, java: Java) -> ClassArchive:
    """The archive of this Java, these jars and our flags."""
    # The JVM compares path, size and time of each jar, and starts without the archive where one differs
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    seen = [f"{jar.name}:{stat.st_size}:{stat.st_mtime_ns}" for jar in jars if (stat := jar.stat())]
    identity = [str(java.executable.resolve()), java.version, str(spark_home()), *FAST_FLAGS, RECORDS_AT_EXIT, *seen]
    return ClassArchive(cache / "jvm", "spark", identity)


def make_archive_in_background(archive: ClassArchive, cache: Path) -> None:
    """Start a process that makes the archive and outlives this one, unless it exists or is being made. Never blocks."""
    if not archive.should_be_made():
        return
    try:
        make_in_background("kconnect.spark.make_archive", cache)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.debug("The class archive cannot be made: %s", error)
        return
    log.info("Preparing Spark's class archive once, in the background; starts get 2 s faster after it")
