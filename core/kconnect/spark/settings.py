"""What the Spark runtime reads from the worker's properties: `spark.*` keys and our own `kconnect.*` ones."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kconnect.errors import ConfigError
from kconnect.files.folders import cache_folder
from kconnect.runtime.config.worker_config import KConnectSettings, worker_value


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
                if key.startswith("kconnect.java.") or key == "plugin.discovery"
            },
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


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _local_threads(master: str) -> int | None:
    """N of `local[N]` and `local[N,F]`, None for every other master."""
    threads = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    if threads:
        return max(int(threads[1]), 1)
    return 1 if master == "local" else None


def own_cores() -> int:
    """The cores this process may use: fewer than the machine has under taskset or in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
