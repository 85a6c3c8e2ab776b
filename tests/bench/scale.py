"""How cost grows with the number of connectors, tasks, workers and offsets.

Idle connectors and those of a record a second run on a real worker. What a leader decides is measured on the assignor
itself with a group in memory, up to 200 workers and 100,000 tasks: the bytes are what members would be sent.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.ground import START_S, Ground, Metrics, made_topic
from bench.sides import Side
from bench.starting import fill
from bench.waiting import idle
from kconnect.runtime.herder.assignment.eager import GroupPlan
from kit.cli import connect_command
from kit.java_connect import write_properties
from kit.simulated_group import SimulatedGroup
from kit.topics import create_topic, delete_topic

__all__ = ["CASES", "ONLY_OURS_OF_SCALE"]

_IDLE = (10, 100, 1_000, 5_000)
_TRICKLE = (10, 100, 1_000)
_GROUPS = ((3, 10_000), (10, 10_000), (200, 10_000), (200, 100_000))
_TASKS_OF_ONE = 10
_OFFSETS = 1_000_000
_OPENER = Path(__file__).with_name("open_offset_store.py")
_TIMES = 3
_ROUNDS = 20


def _reported(case: Callable[[str, Ground], Metrics], text: str) -> Callable[[str, Ground], Metrics]:
    """The case, with what the help of `make bench` says of it."""
    case.__doc__ = text
    return case


def idle_of(count: int) -> Callable[[str, Ground], Metrics]:
    """So many sources whose files do not grow, on one worker, and `connect status` of it."""

    def case(side: str, ground: Ground) -> Metrics:
        return idle(side, ground, count, case="scale", more=partial(_status, ground.folder))

    return _reported(case, f"{count} sources whose files do not grow, and `connect status` of them.")


def _status(folder: Path, worker: Side) -> Metrics:
    env = {**os.environ, "HOME": str(folder), "KCONNECT_URL": worker.url}
    taken = []
    for _ in range(_TIMES):
        began = time.monotonic()
        subprocess.run([*connect_command(), "status"], env=env, check=True, timeout=START_S, capture_output=True)
        taken.append(time.monotonic() - began)
    return {"status_ms": statistics.median(taken) * 1000}


def trickle_of(count: int) -> Callable[[str, Ground], Metrics]:
    """So many sources of one record a second each, all to one topic."""

    def case(side: str, ground: Ground) -> Metrics:
        with made_topic(ground, side, f"trickle-{count}") as topic:

            def source(name: str, file: Path) -> dict[str, str]:
                return {
                    "name": name,
                    "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
                    "throughput": "1",
                    "topic": topic,
                    "file": os.devnull,
                }

            return idle(side, ground, count, source, "trickle")

    return _reported(case, f"{count} sources of one record a second each.")


def group_of(workers: int, tasks: int) -> Callable[[str, Ground], Metrics]:
    """What the leader of a group decides when all is new, when a worker leaves, and when one comes."""

    def case(side: str, ground: Ground) -> Metrics:
        connectors = {f"orders-{number}": _TASKS_OF_ONE for number in range(tasks // _TASKS_OF_ONE)}
        group = SimulatedGroup([f"worker-{number}:8083" for number in range(workers)], connectors, max_delay_ms=0)
        first_ms, first = _decided(group)
        group.settle(_ROUNDS)
        group.leave(f"worker-{workers - 1}:8083")
        leave_ms, left = _decided(group)
        group.settle(_ROUNDS)
        group.members["newcomer:8083"] = None
        join_ms, _ = _decided(group)
        return {
            "decide_ms": first_ms,
            "decide_leave_ms": leave_ms,
            "decide_join_ms": join_ms,
            "decide_us_a_task": first_ms * 1000 / tasks,
            "assignments_kb": sum(map(len, first.values())) / 1000,
            "assignments_leave_kb": sum(map(len, left.values())) / 1000,
        }

    return _reported(case, f"What the leader of {workers} workers decides for {tasks} tasks; in memory.")


def _decided(group: SimulatedGroup) -> tuple[float, dict[str, bytes]]:
    """The processor time of one decision, ms, from what members have sent to what they are sent; they take it."""
    joined, snapshot = group.joined(), group.snapshot()
    began = time.process_time()
    plan = group.plan(joined, snapshot)
    assert isinstance(plan, GroupPlan)
    sent = plan.to_bytes()
    taken = time.process_time() - began
    group.take(plan)
    return taken * 1000, sent


def offsets_start(side: str, ground: Ground) -> Metrics:
    """The offset store's start on a topic of a million partitions of sources, in a process of its own."""
    name = ground.next_name(side, "scale-offsets")
    topics = [f"{name}-{kind}" for kind in ("tenth", "whole")]
    reported = []
    for topic, count in zip(topics, (_OFFSETS // 10, _OFFSETS), strict=True):
        create_topic(ground.bootstrap, topic, config={"cleanup.policy": "compact"})
        try:
            fill(ground.bootstrap, topic, _offsets(count))
            reported.append(_opened(ground, topic))
        finally:
            delete_topic(ground.bootstrap, topic)
    tenth, whole = reported
    return whole | {"offsets_slope": math.log10(whole["offsets_cpu_s"] / tenth["offsets_cpu_s"])}


def _offsets(count: int) -> Iterator[tuple[str, bytes | None]]:
    for number in range(count):
        yield f'["files-{number % 100}",{{"filename":"/data/orders-{number}.txt"}}]', b'{"position":123456}'


def _opened(ground: Ground, topic: str) -> Metrics:
    settings = {
        "bootstrap.servers": ground.bootstrap,
        "group.id": topic,
        "config.storage.topic": f"{topic}-configs",
        "offset.storage.topic": topic,
        "status.storage.topic": f"{topic}-status",
    }
    file = write_properties(ground.folder / f"{topic}.properties", settings)
    done = subprocess.run(
        [sys.executable, str(_OPENER), str(file)], capture_output=True, text=True, timeout=START_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the store did not start:\n{done.stderr}")
    found: Metrics = json.loads(done.stdout)
    return found


CASES = {
    **{f"scale-idle-{count}": idle_of(count) for count in _IDLE},
    **{f"scale-trickle-{count}": trickle_of(count) for count in _TRICKLE},
    **{f"scale-group-{workers}-{tasks}": group_of(workers, tasks) for workers, tasks in _GROUPS},
    "scale-offsets": offsets_start,
}
"""Names -> cases."""
ONLY_OURS_OF_SCALE = frozenset(CASES) - {f"scale-idle-{count}" for count in _IDLE[:-1]}
"""Those without Java: five thousand connectors take it an hour; the rest looks into our own code."""
