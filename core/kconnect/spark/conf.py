"""The settings that Spark is started with: our defaults, the user's, and what queries and our daemon need."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from kconnect.spark.settings import SparkSettings
from kconnect.spark.shipping import LIBRARY
from kconnect.spark.waiting_daemon import MODULE

log = logging.getLogger(__name__)

# A slot that dies fails its job with the cause; the pool submits another, with back-off, to the executor that suits
# best then. Spark would retry at once, in the same place.
_TASK_FAILURES = 1
# With exclusion on, Spark refuses to start with fewer: a task must outlast the failures that exclude a node.
_TASK_FAILURES_EXCLUDING = 4
# A slot that was lost gets the next free core, however many tasks of queries wait: its pool is always in need
SLOT_POOL = "slots"
_POOLS = """<?xml version="1.0"?>
<allocations>
  <pool name="slots"><schedulingMode>FIFO</schedulingMode><weight>1</weight><minShare>1000000</minShare></pool>
  <pool name="queries"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""


def spark_conf(settings: SparkSettings, folder: Path) -> dict[str, str]:
    """Spark's settings: our defaults, the user's values over them, and the few that are fixed."""
    excludes = settings.spark.get("spark.excludeOnFailure.enabled", "false").lower() == "true"
    failures = _TASK_FAILURES_EXCLUDING if excludes else _TASK_FAILURES
    conf = {
        "spark.app.name": "kconnect",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": MODULE,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.task.maxFailures": str(failures),
        "spark.excludeOnFailure.enabled": "false",
        # A thread that looks ten times a second for what jobs leave; slots are few jobs and leave 10 kB each
        "spark.cleaner.referenceTracking": "false",
        # Where the above is on: a slot that was killed would wait for another executor, and all of them are busy
        "spark.excludeOnFailure.taskAndStage.enabled": "false",
    }
    if settings.query_room() > 0:
        conf |= _query_conf(folder)
    if settings.is_local:
        conf["spark.master"] = f"local[{settings.slot_count() + settings.query_room()},{failures}]"
        conf["spark.driver.host"] = "127.0.0.1"
        conf["spark.driver.bindAddress"] = "127.0.0.1"
    conf.update({key: value for key, value in settings.spark.items() if (key, value) != ("spark.master", "local[*]")})
    if not settings.is_local:
        # Shipped code precedes what the executor has installed, so that both ends run one version of kconnect.
        path = conf.get("spark.executorEnv.PYTHONPATH", "")
        conf["spark.executorEnv.PYTHONPATH"] = f"{LIBRARY}:{path}" if path else LIBRARY
    if conf.get("spark.speculation", "false").lower() == "true":
        log.warning("spark.speculation=true is ignored: a second copy of a running slot would fight with the first")
    conf["spark.speculation"] = "false"
    return conf


def _query_conf(folder: Path) -> dict[str, str]:
    """What queries need beside slots: a pool in which slots come first, and a cleaner of what their many jobs leave."""
    pools = folder / "pools.xml"
    with contextlib.suppress(FileNotFoundError):  # settings are asked for without a folder, too
        pools.write_text(_POOLS)
    return {
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": pools.absolute().as_uri(),
        "spark.cleaner.referenceTracking": "true",
    }


def starts_our_daemon(conf: Mapping[str, str], settings: SparkSettings) -> bool:
    """Whether slots are forked from our daemon in this very Python."""
    return (
        settings.is_local
        and executors_python(settings) == sys.executable
        and conf["spark.python.daemon.module"] == MODULE
        and conf.get("spark.python.use.daemon", "true").lower() == "true"
    )


def executors_python(settings: SparkSettings) -> str:
    """The Python that executors run."""
    named = None if settings.is_local else os.environ.get("PYSPARK_PYTHON")
    return settings.spark.get("spark.pyspark.python") or named or sys.executable
