"""A YARN cluster on this machine: Hadoop's own resource manager, nodes to add, and what the manager says of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from xml.sax.saxutils import escape

import psutil

from kconnect.files.folders import cache_folder
from kconnect.java.devbroker import JarSet, find_java
from kconnect.java.maven import Jar
from kconnect.spark.jvm import FAST_FLAGS, spark_home
from kit.pace import ended
from kit.ports import free_port
from kit.processes import below, command, named, oldest_first
from kit.waiting import eventually, wait_http

__all__ = ["YarnCluster"]

_HADOOP = "3.5.0"
"""That of the jars in pyspark: Hadoop's client classes come from there."""
_JARS = tuple(
    Jar(coordinate, sha256, size_bytes, frozenset({"yarn"}))
    for coordinate, size_bytes, sha256 in (
        (
            f"org.apache.hadoop:hadoop-client-minicluster:{_HADOOP}",
            56_006_450,
            "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
        ),
        (
            "org.bouncycastle:bcprov-jdk18on:1.80",
            8_682_747,
            "e8ad209f8c58d291a37ca9750e9e9fac60596956c983e49dd8282381dd8b3249",
        ),
        (
            "org.bouncycastle:bcpkix-jdk18on:1.80",
            1_144_158,
            "4f4ba6a92617ea19dc183f0fa5db492eee426fdde2a0a2d6c94777ffd1af6413",
        ),
        (
            "org.bouncycastle:bcutil-jdk18on:1.80",
            705_155,
            "22eca687f7955411f456af33e6ea8e68fc73cd80cb8b32aa5f7a8b1827d7c678",
        ),
    )
)
_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
# Above what a start takes on a machine that does much else
_START_S = 120
_QUEUES = {
    "root.queues": "default,connect",
    "root.default.capacity": "50",
    "root.connect.capacity": "50",
    "root.connect.maximum-capacity": "100",
    "maximum-am-resource-percent": "0.9",
}


class YarnCluster:
    """A resource manager with the queues `default` and `connect`, without nodes at first. Leaves nothing running.

    `configuration` is the folder for HADOOP_CONF_DIR. Files are on this machine's disk, without HDFS.
    """

    def __init__(self, folder: Path) -> None:
        self.configuration = folder / "conf"
        self._folder = folder
        self._web = f"127.0.0.1:{free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> YarnCluster:
        self._write_configuration()
        self._launch("manager", _MANAGER)
        eventually(self._is_up, _START_S, "the resource manager answers")
        return self

    def add_node(self) -> None:
        """One node that takes eight containers, and wait until the manager has it."""
        before = self._nodes()
        self._launch("node", _NODE)
        eventually(lambda: self._nodes() > before, _START_S, "a node with the resource manager")

    def _is_up(self) -> bool:
        (manager,) = self._processes
        if manager.poll() is not None:
            raise RuntimeError(f"the resource manager ended with {manager.returncode}\n{self.log_text('manager')}")
        return bool(self.reported("info", 1)["clusterInfo"]["state"] == "STARTED")

    def applications(self) -> list[dict[str, Any]]:
        """What the manager says of each, the newest last."""
        found: list[dict[str, Any]] = (self.reported("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda app: int(app["startedTime"]))

    def reported(self, what: str, within_s: float = _START_S) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(wait_http(f"http://{self._web}/ws/v1/cluster/{what}", within_s))
        return answer

    def executors(self) -> list[psutil.Process]:
        """The executors that run, oldest first."""
        found = named(self._below(), "java")
        return oldest_first(
            process for process in found if any("YarnCoarseGrainedExecutor" in word for word in command(process))
        )

    def log_text(self, name: str) -> str:
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def stop(self) -> None:
        """End all of it. Idempotent."""
        below = self._below()
        for process in self._processes:
            process.kill()  # a node that is asked to stop takes ten seconds over it
        for process in self._processes:
            ended(process, 10)
        for left in below:
            with suppress(psutil.NoSuchProcess):  # it went with its node
                left.kill()
        psutil.wait_procs(below, 10)

    def _nodes(self) -> int:
        return int(self.reported("metrics")["clusterMetrics"]["activeNodes"])

    def _below(self) -> list[psutil.Process]:
        living = [process for process in self._processes if process.poll() is None]
        return [child for process in living for child in below(process.pid)]

    def _launch(self, name: str, main: str) -> None:
        jars = JarSet("yarn", folder=cache_folder() / "jars" / f"hadoop-{_HADOOP}", jars=_JARS).fetch()
        class_path = [str(self.configuration), *map(str, jars), f"{spark_home()}/jars/*"]
        java = find_java("YARN").executable
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(java), "-Xmx256m", *FAST_FLAGS, "-cp", os.pathsep.join(class_path), main],
                    env=env,
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _write_configuration(self) -> None:
        self.configuration.mkdir(parents=True)
        manager = {
            f"resourcemanager.{name}.address": f"127.0.0.1:{free_port()}"
            for name in ("scheduler", "resource-tracker", "admin")
        }
        node = {
            "hostname": "127.0.0.1",
            "bind-host": "127.0.0.1",
            "localizer.address": f"127.0.0.1:{free_port()}",
            "webapp.address": f"127.0.0.1:{free_port()}",
            "resource.memory-mb": "8192",
            "resource.cpu-vcores": "8",
            "vmem-check-enabled": "false",
            "log-dirs": str(self._folder / "logs"),
            # What the test machine's disk has left is not the test's matter
            "disk-health-checker.enable": "false",
            "disk-health-checker.max-disk-utilization-per-disk-percentage": "100.0",  # held at the start all the same
        }
        yarn = {
            "resourcemanager.hostname": "127.0.0.1",
            "resourcemanager.address": f"127.0.0.1:{free_port()}",
            "resourcemanager.webapp.address": self._web,
            **manager,
            **{f"nodemanager.{key}": value for key, value in node.items()},
            "scheduler.minimum-allocation-mb": "256",
        }
        self._write("core-site", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self._folder / "data")})
        self._write("yarn-site", {f"yarn.{key}": value for key, value in yarn.items()})
        self._write("capacity-scheduler", {f"yarn.scheduler.capacity.{key}": text for key, text in _QUEUES.items()})

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        rows = "".join(
            f"<property><name>{key}</name><value>{escape(text)}</value></property>\n" for key, text in settings.items()
        )
        (self.configuration / f"{name}.xml").write_text(f"<configuration>\n{rows}</configuration>\n")

    def __enter__(self) -> YarnCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
