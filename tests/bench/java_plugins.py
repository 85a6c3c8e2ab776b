"""Cases of Java's plugins that wait: the first task of a running worker, twenty connectors that have nothing to do."""

from __future__ import annotations

import time
from pathlib import Path

from bench.ground import START_S, Ground, Metrics, end_offsets, file_source, made_topic, make_input, running
from bench.moving import javas
from bench.sides import Side, await_rest, put_connector
from bench.waiting import all_run, idle

__all__ = ["java_first_task", "java_idle_20"]

# Looks at the status and the topic
_LOOK_EVERY_S = 0.01
# After REST answers: what a start leaves to be done is no part of what is measured
_SETTLE_S = 3.0


def java_first_task(side: str, ground: Ground) -> Metrics:
    """From the request for a running worker's first Java connector to its task's RUNNING, and to its first record.

    Bar 1.5 s. `second_*`: the same for another connector then.
    """
    small = ground.folder / "small.txt"
    if not small.exists():
        make_input(small, 10)
    with running(side, ground, ground.next_name(side, "java-first-task")) as (worker, _):
        await_rest(worker)
        time.sleep(_SETTLE_S)
        first_running, first_record = _up(side, ground, worker, small, 1)
        second_running, second_record = _up(side, ground, worker, small, 2)
    return {
        "running_s": first_running,
        "first_record_s": first_record,
        "second_running_s": second_running,
        "second_record_s": second_record,
    }


def _up(side: str, ground: Ground, worker: Side, file: Path, count: int) -> tuple[float, float]:
    """Seconds from the request until all of `count` connectors run, and until the new one has written."""
    with made_topic(ground, side, "java-first-task") as topic, end_offsets(ground.bootstrap, topic) as progress:
        began = time.monotonic()
        put_connector(worker, javas(side, file_source(topic, file)))
        deadline = began + START_S
        runs_s = written_s = 0.0
        while not (runs_s and written_s):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} did not start in time\n{worker.log_tail()}")
            if not runs_s and all_run(worker.url, count):
                runs_s = time.monotonic() - began
            if not written_s and progress():
                written_s = time.monotonic() - began
            time.sleep(_LOOK_EVERY_S)
    return runs_s, written_s


def java_idle_20(side: str, ground: Ground) -> Metrics:
    """Twenty of Java's file sources in one worker, whose files do not grow: memory, CPU of ten quiet seconds."""

    def source(name: str, file: Path) -> dict[str, str]:
        return javas(side, file_source(name, file))

    return idle(side, ground, 20, source, "java-idle")
