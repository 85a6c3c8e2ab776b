"""What a worker loads before its JVM starts: each module it does not need there delays the first record."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kit.pace import ample_s

LOADS = """
import sys
from kconnect.worker import {worker}
from kconnect.spark import SparkLauncher
print(*sorted(name for name in sys.modules if name.startswith("kconnect.")))
"""


@pytest.mark.parametrize(
    ("worker", "unwanted"),
    [
        (
            "StandaloneWorker",
            (
                "kconnect.runtime.pipeline",
                "kconnect.runtime.herder.cluster",
                "kconnect.runtime.herder.membership",
                "kconnect.worker.distributed",
            ),
        ),
        ("DistributedWorker", ("kconnect.runtime.pipeline", "kconnect.worker.standalone")),
    ],
)
def test_a_worker_loads_neither_the_data_path_nor_the_other_kind_of_worker(
    worker: str, unwanted: tuple[str, ...]
) -> None:
    code = LOADS.format(worker=worker)
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=ample_s(60))
    loaded = reported.stdout.split()
    assert "kconnect.spark.launcher" in loaded, reported.stderr
    assert [name for name in loaded if name.startswith(unwanted)] == []


LISTS = """
import sys
from kconnect.runtime.plugins import PluginRegistry
infos = PluginRegistry.load(None).describe()
print(len(infos), *sorted({"duckdb", "sqlglot", "fastavro"} & set(sys.modules)))
"""


def test_a_list_of_plugins_loads_no_engine() -> None:
    """SQL needs a third of a second and 100 MB: only connectors that use it pay."""
    reported = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, timeout=ample_s(60))
    number, *loaded = reported.stdout.split()
    assert int(number) > 40, reported.stderr
    assert [name for name in loaded if name != "fastavro"] == []


SERVES = """
import sys
import kconnect.worker.distributed
from kconnect.admin.served.routes import served_endpoints
from kconnect.runtime.rest import RestServer
print(len(served_endpoints({"bootstrap.servers": "127.0.0.1:1"}, dict)))
print(*sorted(name for name in sys.modules if name.startswith(("kconnect.admin.", "jinja2"))))
"""


def test_rest_serves_without_the_pages_and_what_reads_topics() -> None:
    """They are a sixth of the Python that a start would load, and 9 MB: the first request for one loads them."""
    reported = subprocess.run([sys.executable, "-c", SERVES], capture_output=True, text=True, timeout=ample_s(60))
    number, loaded = reported.stdout.splitlines()
    assert int(number) > 8, reported.stderr
    rooms = {".".join(name.split(".")[:3]) for name in loaded.split()}
    assert rooms == {"kconnect.admin.direct", "kconnect.admin.preflight", "kconnect.admin.served"}
    assert "kconnect.admin.preflight.checks" not in loaded, "of the checks it has what its own start looks at"
    assert "kconnect.admin.served.handlers" not in loaded
    assert "kconnect.admin.direct.read" not in loaded
