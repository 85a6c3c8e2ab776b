"""What a person waits for: the wall time of admin commands, each a process of its own, on a worker that is up."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from bench.ground import Ground, Metrics, file_source, made_topic, running
from bench.sides import await_rest
from kit.cli import connect_command

__all__ = ["commands"]

_TIMES = 9
_LIMIT_S = 20.0


def commands(side: str, ground: Ground) -> Metrics:
    """Median wall time of `_TIMES` calls of each command, ms, one after the other; bar 350 ms.

    Both sides are asked by our command: Java's row is our command on Java's worker.
    """
    with made_topic(ground, side, "commands") as topic:
        file = ground.folder / f"{topic}.txt"
        file.write_text("one line\n")
        home = ground.folder / f"{topic}-home"
        home.mkdir()
        with running(side, ground, topic, file_source(topic, file)) as (worker, _):
            await_rest(worker)
            env = {**os.environ, "HOME": str(home), "KCONNECT_URL": worker.url}
            env.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled once, as on a user's machine
            _wall_ms(["connectors", "wait", topic], env)
            return {
                metric: statistics.median(_wall_ms(args, env) for _ in range(_TIMES))
                for metric, args in {
                    "help_ms": ["--help"],
                    "connectors_list_ms": ["connectors", "list"],
                    "connectors_show_ms": ["connectors", "show", topic],
                    "config_get_ms": ["config", "get", topic],
                    "offsets_show_ms": ["offsets", "show", topic],
                    "pause_ms": ["connectors", "pause", topic],
                }.items()
            }


def _wall_ms(args: list[str], env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [*connect_command(), *args],
        env=env,
        cwd=Path(env["HOME"]),
        check=True,
        timeout=_LIMIT_S,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return (time.perf_counter() - began) * 1000
