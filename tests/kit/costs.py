"""What a test run costs: seconds of wall and of processor, by file, by fixture, and by kind of process.

Files and fixtures are measured in the process that runs them, with what it has started: processes that end are counted
with who waited for them. Kinds are looked at from outside, once a second, by the run's first process. `make test` ends
with the twenty slowest files; `KCONNECT_COSTS=costs.json` keeps all metrics, and `python -m kit.costs costs.json`
prints them as the tables of tests/README.md.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

__all__ = ["Costs", "Kinds", "kind_of", "tables"]

SLOWEST: Final = 20
_LOOK_EVERY_S = 1.0
# A reading of the processor takes half a millisecond, and most fixtures less than that
_WORTH_A_READING_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# What a command line tells, first match wins
_KINDS: Final = (
    ("kafka.Kafka", "broker"),
    ("kafka.tools.StorageTool", "broker format"),
    ("SchemaRegistryMain", "registry"),
    ("io.apicurio", "registry"),
    ("org.apache.kafka.connect.cli", "Java Connect"),
    ("SparkSubmit", "Spark JVM"),
    ("CoarseGrainedExecutorBackend", "Spark JVM"),
    ("org.apache.spark", "Spark JVM"),
    ("pyspark/daemon", "slot"),
    ("pyspark.daemon", "slot"),
    ("kconnect.spark.daemon", "slot"),
    ("kconnect.spark", "slot"),
    ("javac", "Java compiler"),
    ("java/plugins", "plugin JVM"),
    ("kconnect.host", "plugin JVM"),
    ("chrom", "Chromium"),
    ("playwright", "Chromium"),
    ("postgres", "database"),
    ("mariadbd", "database"),
    ("bin/connect", "connect"),
    ("kconnect_cli", "connect"),
)


def kind_of(command: str) -> str:
    """What a process is, by its command line: a row of the table."""
    # xdist's processes are reported what to do on their standard input
    if any(part in command for part in ("bin/pytest ", "-m pytest ", "eval(sys.stdin.readline())")):
        return "pytest"
    for part, kind in _KINDS:
        if part in command:
            return kind
    program = os.path.basename(command.split(" ", 1)[0])
    return "other Java" if program == "java" else "other Python" if program.startswith("python") else "other"


class Costs:
    """The plugin. One in each process of a run; those of xdist give theirs to the first."""

    def __init__(self, config: pytest.Config) -> None:
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._files: dict[str, list[float]] = {}
        self._fixtures: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self._file, self._began = "", (0.0, 0.0)
        self._kinds = None if self._output is not None else Kinds()
        self._started = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        path = item.nodeid.partition("::")[0]
        if path != self._file:
            self._close_file()
            self._file, self._began = path, _spent()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        row = self._fixtures[fixturedef.argname]
        is_worth = not row[0] or row[1] / row[0] > _WORTH_A_READING_S
        cpu = _cpu_s() if is_worth else 0.0
        began = time.monotonic()
        try:
            return (yield)
        finally:
            row[0] += 1
            row[1] += time.monotonic() - began
            if is_worth:
                row[2] += _cpu_s() - cpu

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._close_file()
        if self._output is not None:
            self._output["costs"] = {"files": self._files, "fixtures": dict(self._fixtures)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get("costs")  # none of a process that ended by itself
        if found is None:
            return
        for path, metrics in found["files"].items():
            self._files[path] = _sum(self._files.get(path, [0.0, 0.0]), metrics)
        for name, metrics in found["fixtures"].items():
            self._fixtures[name] = _sum(self._fixtures[name], metrics)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._kinds is None or not self._files:
            return
        found = {
            "wall": time.monotonic() - self._started,
            "files": self._files,
            "fixtures": dict(self._fixtures),
            "kinds": self._kinds.stop(),
        }
        if path := os.environ.get("KCONNECT_COSTS"):
            Path(path).write_text(json.dumps(found, indent=1))
        terminalreporter.section(f"slowest {min(SLOWEST, len(self._files))} files of {len(self._files)}")
        for line in _rows(self._files, ("wall s", "CPU s", "file"), SLOWEST):
            terminalreporter.write_line(line)

    def _close_file(self) -> None:
        if self._file:
            ended = _spent()
            spent = [now - before for now, before in zip(ended, self._began, strict=True)]
            self._files[self._file] = _sum(self._files.get(self._file, [0.0, 0.0]), spent)
            self._file = ""


class Kinds:
    """Looks at all processes below this one. Threads: one of its own, from construction to `stop()`."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._cpu_s: dict[tuple[int, float], float] = {}
        self._kind: dict[tuple[int, float], str] = {}
        self._thread = threading.Thread(target=self._keep, name="kit-pace-costs", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, list[float]]:
        """kind -> how many processes, their seconds of processor. What lived for less than a second is not there."""
        self._over.set()
        self._thread.join()
        counts, seconds = Counter(self._kind.values()), Counter[str]()
        for key, kind in self._kind.items():
            seconds[kind] += self._cpu_s[key]  # type: ignore[assignment]  # seconds are a float
        return {kind: [counts[kind], seconds[kind]] for kind in counts}

    def _keep(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            for process in _tree():
                try:
                    key = (process.pid, process.create_time())
                    self._cpu_s[key] = _own_cpu_s(process.pid)
                    if self._kind.get(key) in (None, "pytest", "other Python"):  # before its exec it has its parent's
                        self._kind[key] = kind_of(" ".join(process.cmdline()))
                except (psutil.NoSuchProcess, OSError):
                    self._cpu_s.setdefault(key, 0.0)


def _tree() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _spent() -> tuple[float, float]:
    return time.monotonic(), _cpu_s()


def _cpu_s() -> float:
    """Of this process, of all below it that live, and of all that have ended and were waited for."""
    total = 0.0
    ahead = [os.getpid()]
    while ahead:
        pid = ahead.pop()
        try:
            total += _cpu_of(pid, with_ended=True)
            for thread in os.listdir(f"/proc/{pid}/task"):
                ahead += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except OSError:  # it has ended
            continue
    return total


def _own_cpu_s(pid: int) -> float:
    return _cpu_of(pid, with_ended=False)


def _cpu_of(pid: int, *, with_ended: bool) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / _TICKS_PER_S


def _sum(one: list[float], other: list[float]) -> list[float]:
    return [left + right for left, right in zip(one, other, strict=True)]


def _rows(metrics: dict[str, list[float]], head: tuple[str, ...], count: int) -> list[str]:
    """Rows of a table, the slowest first."""
    rows = sorted(metrics.items(), key=lambda each: -each[1][0])[:count]
    return [f"{head[0]:>8} {head[1]:>8}  {head[2]}"] + [f"{wall:8.1f} {cpu:8.1f}  {name}" for name, (wall, cpu) in rows]


def tables(found: dict[str, Any]) -> str:
    """The metrics as Markdown."""
    lines = [f"Whole run: {found['wall']:.0f} s", "", "| file | wall s | CPU s |", "|---|---:|---:|"]
    for name, (wall, cpu) in sorted(found["files"].items(), key=lambda each: -each[1][0])[:SLOWEST]:
        lines.append(f"| `{name}` | {wall:.0f} | {cpu:.0f} |")
    lines += ["", "| fixture | set up | wall s | CPU s |", "|---|---:|---:|---:|"]
    for name, (count, wall, cpu) in sorted(found["fixtures"].items(), key=lambda each: -each[1][1])[:SLOWEST]:
        lines.append(f"| `{name}` | {count:.0f} | {wall:.0f} | {cpu:.0f} |")
    lines += ["", "| process | started | CPU s |", "|---|---:|---:|"]
    for name, (count, cpu) in sorted(found["kinds"].items(), key=lambda each: -each[1][1]):
        lines.append(f"| {name} | {count:.0f} | {cpu:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables(json.loads(Path(sys.argv[1]).read_text())))  # noqa: T201  # a script
