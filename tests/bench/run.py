"""Our worker beside Java Kafka Connect, or Spark: same broker, same input, alternating runs, medians. `make bench`.

Writes bench-results/TIME-COMMIT.json and prints the table (compare.py prints it again, or against older results).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_TESTS))

import psutil  # noqa: E402  # after the path is set, as all below

from bench.cases import BESIDE_SPARK, CASES, NEEDS, ONLY_OURS  # noqa: E402
from bench.compare import table  # noqa: E402
from bench.ground import LINE_BYTES, Ground, make_input  # noqa: E402
from kconnect.java.devbroker import KAFKA_VERSION, DevBroker, find_java  # noqa: E402
from kit.ports import free_port  # noqa: E402
from kit.topics import create_topic, produce_lines  # noqa: E402

# 5 s on quiet cores; a maker ends itself after two minutes
_ARCHIVE_S = 180.0
_RESULTS = _TESTS.parent / "bench-results"


def main() -> int:
    """Run what the options ask for. Exit code 1 when a run failed; what was measured is written all the same."""
    options = _options()
    signal.signal(signal.SIGTERM, _leave)
    results: list[dict[str, Any]] = []
    failures: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="kconnect-bench-"))
    try:
        _make_archives()
        with DevBroker(free_port(), folder / "broker") as broker:
            ground = Ground(
                broker.bootstrap, folder, folder / "input.txt", options.lines, "filled", settings=options.settings
            )
            make_input(ground.input_file, options.lines)
            _warm_up(broker.bootstrap)
            for case in options.cases:
                for run in range(options.runs):
                    sides = _sides(case, options.only)
                    for side in sides if run % 2 == 0 else sides[::-1]:
                        _one(case, side, run, ground, results, failures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if results:
            _write(options, results)
    for failure in failures:
        _say(failure)
    return 1 if failures else 0


def _sides(case: str, only: str | None) -> list[str]:
    if case in ONLY_OURS:
        return ["ours"]
    return [side for side in ("spark" if case in BESIDE_SPARK else "java", "ours") if only in (None, side)]


def _one(case: str, side: str, run: int, ground: Ground, results: list[dict[str, Any]], failures: list[str]) -> None:
    try:
        metrics = CASES[case](side, ground)
    except (RuntimeError, AssertionError) as err:
        failures.append(f"{case}, {side}, run {run + 1} failed: {err}")
        _say(failures[-1])
        return
    results.append({"case": case, "side": side, "run": run, **metrics})
    shown = "  ".join(f"{name}={value:,.2f}" for name, value in metrics.items())
    _say(f"{case:15} {side:5} run {run + 1}: {shown}")


def _warm_up(bootstrap: str) -> None:
    """The broker's JVM compiles its hot paths on records that are not measured."""
    create_topic(bootstrap, "warm-up")
    produce_lines(bootstrap, "warm-up", ("x" * LINE_BYTES for _ in range(300_000)))


def _make_archives() -> None:
    """Those that `make install` and a first broker leave for all others, here where neither may have been."""
    for program in ("spark", "java.devbroker", "java.plugins"):
        module = f"kconnect.{program}.make_archive"
        subprocess.run([sys.executable, "-m", module], stdin=subprocess.DEVNULL, timeout=_ARCHIVE_S, check=True)


def _cases_reported() -> str:
    """The first paragraph of each case's docstring."""
    reported = ["cases:"]
    for name, case in CASES.items():
        first = " ".join((case.__doc__ or "").partition("\n\n")[0].split())
        reported += textwrap.wrap(f"{name:21}{first}", 118, initial_indent="  ", subsequent_indent=" " * 23)
    return "\n".join(reported)


def _write(options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    document = {
        "commit": commit + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else ""),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "cpu": _cpu_model(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9),
            "system": f"{platform.system()} {platform.release()}",
            "load_before": options.load,
        },
        "versions": {
            "kafka": KAFKA_VERSION,
            "java": find_java("the bench").version,
            "python": platform.python_version(),
            **{name: version(name) for name in ("kconnect", "pyspark", "confluent-kafka", "pyarrow")},
        },
        "settings": {"lines": options.lines, "line_bytes": LINE_BYTES, "runs": options.runs, **options.settings},
        "results": results,
    }
    _RESULTS.mkdir(exist_ok=True)
    target = _RESULTS / f"{document['time'].replace(':', '')}-{commit}.json"
    target.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    sys.stdout.write(table(document))
    _say(f"written: {target.relative_to(_TESTS.parent)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=_cases_reported(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (default 3)")
    parser.add_argument("--lines", type=int, default=3_000_000, help="lines of 100 bytes (default 3000000)")
    parser.add_argument("--cases", default=",".join(CASES), help=f"comma-separated (default {','.join(CASES)})")
    parser.add_argument("--only", choices=["java", "spark", "ours"], help="one side only")
    parser.add_argument(
        "--setting", action="append", default=[], metavar="KEY=VALUE", help="a setting of our worker; may be repeated"
    )
    options = parser.parse_args()
    options.settings = dict(setting.split("=", 1) for setting in options.setting)
    options.cases = options.cases.split(",")
    unknown = set(options.cases) - set(CASES)
    if unknown or options.runs < 1 or options.lines < 1000:
        parser.error(f"unknown cases {sorted(unknown)}" if unknown else "at least 1 run of 1000 lines")
    options.cases = [case for case in options.cases if _has_what_it_needs(case)]
    options.load = round(os.getloadavg()[0], 2)
    return options


def _has_what_it_needs(case: str) -> bool:
    program, source = NEEDS.get(case, ("", ""))
    if not program or shutil.which(program):
        return True
    _say(f"{case} is left out: {program} is not installed. {source}")
    return False


def _git(*arguments: Sequence[str] | str) -> str:
    done = subprocess.run(
        ["git", "-C", str(_TESTS), *map(str, arguments)], capture_output=True, text=True, timeout=20, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
