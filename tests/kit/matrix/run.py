"""Which formats work on which Spark: an environment for each version in a temporary folder, a probe for each.

    make spark-matrix [MATRIX="4.2.0 4.3.0"]

Downloads 1.5 GB and takes a quarter of an hour; prints rows for the table in docs/spark.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kconnect.spark.query.formats import FORMATS, package_of

VERSIONS = ("4.1.1", "4.2.0", "4.3.0")
# Where there is none of a line, that of an earlier one is tried
_OTHER_LINES = ("4.2", "4.1")
_FORMATS = ("parquet", "json", "csv", "orc", "text", "xml", "avro", "delta", "iceberg")
_PROBE_S = 600


def main(versions: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="spark-matrix-") as folder:
        for version in versions or VERSIONS:
            python = _environment(Path(folder), version)
            for name in _FORMATS:
                _tell(f"{name} on {version}: {_probed(python, Path(folder), name, version)}")
    return 0


def _environment(folder: Path, version: str) -> Path:
    """The interpreter of a new environment that has this Spark."""
    uv, place = Path(sys.executable).with_name("uv"), folder / version
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, place], check=True)
    python = place / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, f"pyspark=={version}", "pyarrow"], check=True)
    return python


def _probed(python: Path, folder: Path, name: str, version: str) -> str:
    """What works, in words; with the first package that Spark can fetch."""
    message = ""
    for package in _packages(name, version):
        with tempfile.TemporaryDirectory(dir=folder) as own:
            command = [python, Path(__file__).with_name("probe.py"), name, package, own]
            env = {**os.environ, "PYSPARK_PYTHON": str(python)}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_PROBE_S, check=False)
        steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not steps:
            message = f"no session with {package}"
            continue
        bad = [f"{step['step']}: {step['problem']}" for step in steps if step["problem"]]
        with_package = "" if package == "-" else f" with {package}"
        return f"{'; '.join(bad) or 'all works'}{with_package}"
    return message


def _packages(name: str, version: str) -> list[str]:
    if not FORMATS[name].packages:
        return ["-"]
    found = [package_of(name, line) for line in (version, *_OTHER_LINES)]
    return list(dict.fromkeys(package for package in found if package is not None))


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
