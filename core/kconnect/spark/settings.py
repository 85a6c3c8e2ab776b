"""What Spark's runtime reads from a worker's properties, `spark.*` and `kconnect.*`, and what Spark is started with."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.files.folders import cache_folder
from kconnect.java.door import DOOR
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.worker_config import KConnectSettings, worker_value
from kconnect.spark.shipping import LIBRARY
from kconnect.spark.waiting_daemon import MODULE


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Settings of the runtime, checked. Build with `parse`; the constructor is for tests.

    The settings `kconnect.*` are defined, with their defaults, in kconnect.runtime.config.own_worker_keys.
    """

    spark: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold the secrets of a file system
    slots: int | None = None
    """Is how many connectors share, at first and at least; None means as many as Spark has cores."""
    most_slots: int | None = None
    """Is how many they may become by load; None means that their number is fixed."""
    query_cores: int | None = None
    """Is what was configured; None means one, where it costs no slot."""
    link_bind_host: str = "127.0.0.1"
    link_advertised_host: str | None = "127.0.0.1"
    """It is None for the host that Spark's driver has chosen for itself, since executors can reach that one."""
    link_port: int = 0
    heartbeat_interval_s: float = 1.0
    heartbeat_timeout_s: float = 10.0
    start_timeout_s: float = 60.0
    task_stop_s: float = 5.0
    """How long a task that moves to another slot may take to stop."""
    offsets_timeout_s: float = 30.0
    plugin_path: str | None = None
    java: Mapping[str, str] = field(default_factory=dict, repr=False)
    shared_java: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside `java`, for slots that share the worker's JVM of Java's plugins (JavaPlugins.share); a secret."""
    cache: Path = field(default_factory=cache_folder)

    @classmethod
    def parse(cls, worker: Mapping[str, str]) -> SparkSettings:
        """Read worker properties. Errors: ConfigError with the key and the value that is wrong."""
        spark = {key: value.strip() for key, value in worker.items() if key.startswith("spark.")}
        local = is_local(spark.get("spark.master", "local"))
        ours = KConnectSettings.parse(worker)
        slots, most = ours.slots or (None, None)
        query_cores = ours.query_cores
        threads = _local_threads(spark.get("spark.master", ""))
        if most is not None and threads is not None and most > threads:
            given = worker["kconnect.slots"]
            raise ConfigError.invalid("kconnect.slots", given, f"spark.master={spark['spark.master']} has fewer cores")
        if slots != most and not local and spark.get("spark.dynamicAllocation.enabled", "").lower() != "true":
            why = (
                f"Executors of spark.master={spark['spark.master']} keep their cores, whether slots use them or not: "
                "give one number, or set spark.dynamicAllocation.enabled=true"
            )
            raise ConfigError.invalid("kconnect.slots", worker["kconnect.slots"], why)
        if query_cores and threads is not None and (slots or 1) + query_cores > threads:
            why = f"spark.master={spark['spark.master']} has no core left for slots then"
            raise ConfigError.invalid("kconnect.query.cores", query_cores, why)
        return cls(
            spark=spark,
            slots=slots,
            most_slots=most if most != slots else None,
            query_cores=query_cores,
            link_bind_host=ours.link_bind_host or ("127.0.0.1" if local else "0.0.0.0"),
            link_advertised_host=ours.link_advertised_host or ("127.0.0.1" if local else None),
            link_port=ours.link_port,
            heartbeat_interval_s=ours.slot_heartbeat_interval_ms / 1000,
            heartbeat_timeout_s=ours.slot_heartbeat_timeout_ms / 1000,
            start_timeout_s=ours.slot_start_timeout_ms / 1000,
            task_stop_s=worker_value(worker, "task.shutdown.graceful.timeout.ms") / 1000,
            offsets_timeout_s=ours.offsets_request_timeout_ms / 1000,
            plugin_path=worker.get("plugin.path"),
            java={
                key: value
                for key, value in worker.items()
                if (key.startswith("kconnect.java.") and key != DOOR) or key == "plugin.discovery"
            },
            shared_java={DOOR: worker[DOOR]} if DOOR in worker else {},
        )

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine, in one JVM."""
        return is_local(self.spark.get("spark.master", "local"))

    def slot_count(self) -> int:
        """Slots on this machine at first: as configured, else Spark's cores without those for queries.

        A cluster's cores are known later.
        """
        threads = _local_threads(self.spark.get("spark.master", ""))
        if self.slots is None and threads is not None:
            return max(threads - (self.query_cores or 0), 1)
        return self.slots or own_cores()

    def query_room(self) -> int:
        """Cores that slots leave to queries. Here one more than the slots, unless spark.master has a number.

        A core of `local[N]` is a thread that begins with its first task: without queries it costs nothing.
        """
        if not self.is_local:
            return self.query_cores or 0
        threads = _local_threads(self.spark.get("spark.master", ""))
        if threads is not None:
            return threads - self.slot_count()
        return 1 if self.query_cores is None else self.query_cores


def slots_share_jvm(worker: Mapping[str, str]) -> bool:
    """Whether slots are to use the worker's JVM of Java's plugins: as is set, where all of them run on its machine."""
    if worker.get("kconnect.java.host") != "worker":
        return False
    master = worker.get("spark.master", "local")
    if not is_local(master):
        log.info(
            "kconnect.java.host=worker is slot here: executors of spark.master=%s may be on other machines", master
        )
        return False
    return True


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _local_threads(master: str) -> int | None:
    """N of `local[N]` and `local[N,F]`, None for every other master."""
    threads = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    if threads:
        return max(int(threads[1]), 1)
    return 1 if master == "local" else None


# Spark's JVM opens each of its 280 jars: with 200 files it ends without saying why, with 400 it runs
_FEWEST_FILES: Final = 400


def too_few_files() -> str | None:
    """A sentence without a full stop if this process may not open as many files as Spark's JVM does."""
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most >= _FEWEST_FILES:
        return None
    return f"only {pluralize(most, 'file')} may be open at once, and Spark's JVM needs {_FEWEST_FILES}"


MORE_FILES: Final = "Raise the limit: ulimit -n 65536, LimitNOFILE= of systemd, or --ulimit nofile= of the container."


def own_cores() -> int:
    """The cores this process may use: fewer than the machine has under taskset or in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        # JvmCollections of query/engine.py does it, from the first query on
        "spark.cleaner.periodicGC.interval": "36500d",
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
