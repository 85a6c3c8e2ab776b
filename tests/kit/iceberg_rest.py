"""Iceberg's REST catalog for tests: the reference server of Apache Iceberg, in a process of its own.

Why it: the project's own server and nobody's reading of the specification, 35 jars of Maven Central, ready within two
seconds. Its catalog is a SQLite file and its tables are a folder, so both outlive a kill. Hadoop's file system comes
out of PySpark.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pyspark

from kconnect.files.folders import cache_folder
from kconnect.java.installed import find_java
from kconnect.java.maven import ArtifactSet, read_lock
from kit.ports import free_port
from kit.server_process import ServerProcess

__all__ = ["IcebergRestCatalog"]

_LOCK = Path(__file__).with_name("iceberg-rest.lock")
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


class IcebergRestCatalog:
    """One server: `start()`, `stop()`, `kill()`, again and again; its tables and its port stay. Threads: one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = ServerProcess("Iceberg's catalog", folder / "catalog.log", self._listens)

    @property
    def settings(self) -> dict[str, str]:
        """What TableSink is given."""
        return {
            "table.catalog.type": "rest",
            "table.catalog.uri": self.url,
            "table.catalog.folder": str(self.folder / "warehouse"),
        }

    def start(self) -> IcebergRestCatalog:
        """Start, and wait until it answers."""
        jars = ArtifactSet("Iceberg's catalog", cache_folder() / "iceberg-rest", read_lock(_LOCK.read_text("utf-8")))
        hadoop = sorted((Path(pyspark.__path__[0]) / "jars").glob("hadoop-client-*.jar"))
        command = [str(find_java("Iceberg's catalog").executable), *_JVM_OPTIONS, f"-Djava.io.tmpdir={self.folder}"]
        places = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": str(self.folder / "warehouse"),
            "CATALOG_URI": f"jdbc:sqlite:{self.folder}/catalog.db",
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        }
        server = [os.pathsep.join(map(str, [*jars.fetch(), *hadoop])), "org.apache.iceberg.rest.RESTCatalogServer"]
        self._process.start([*command, "-cp", *server], places)
        return self

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def freeze(self) -> None:
        """It takes connections and answers nothing, until `thaw()`."""
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
