"""Spark with its own Kafka jar, as the side that ours is compared with: see spark_alone.py."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from bench.ground import START_S, Ground, Metrics
from bench.meter import ProcessTree
from kconnect.files.folders import cache_folder
from kconnect.java.maven import ArtifactSet, read_lock

__all__ = ["spark_run"]

_LOCK = Path(__file__).with_name("spark-kafka.lock")
_PROGRAM = Path(__file__).with_name("spark_alone.py")


def spark_run(ground: Ground, way: str, **spec: Any) -> Metrics:
    """Rate, cost and memory of one stream over all that is there, its session being up before.

    The rate is of its triggers, without what goes before and after; CPU is all of the process from its start of the
    stream. Errors: RuntimeError when it fails.
    """
    jars = ArtifactSet(
        "Spark's Kafka jars", cache_folder() / "jars" / "spark-kafka", read_lock(_LOCK.read_text("utf-8"))
    )
    whole = {
        "way": way,
        "bootstrap": ground.bootstrap,
        "jars": [str(jar) for jar in jars.fetch()],
        "checkpoint": str(ground.folder / ground.next_name("spark", f"{way}-checkpoint")),
        **spec,
    }
    log = ground.folder / ground.next_name("spark", f"{way}.log")
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), json.dumps(whole)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ground.folder,
            text=True,
        )
    watchdog = threading.Timer(START_S + ground.deadline_s, process.kill)
    watchdog.start()
    try:
        return _measured(process, log)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait(30)


def _measured(process: subprocess.Popen[str], log: Path) -> Metrics:
    assert process.stdin is not None
    assert process.stdout is not None
    _line(process, log, wanted="ready")
    tree = ProcessTree(process.pid)
    before = tree.cpu_s()
    process.stdin.write("go\n")
    process.stdin.flush()
    reported = json.loads(_line(process, log))
    # the JVM is alive until it may go, so its CPU time is still to be read
    tree = ProcessTree(process.pid)
    used = tree.cpu_s() - before
    return {
        "records_per_s": reported["rows"] / reported["seconds"],
        "cpu_us_per_record": used * 1e6 / reported["rows"],
        "pss_mb": tree.pss_mb(),
    }


def _line(process: subprocess.Popen[str], log: Path, wanted: str = "") -> str:
    """The next line it says, past what a JVM prints of itself."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(wanted or "{"):
            return line
    raise RuntimeError(f"Spark ended: {log.read_text('utf-8', errors='replace')[-3000:]}")
