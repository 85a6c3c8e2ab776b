"""Cases that wait: from the start to the first record, from an append to its arrival, a hundred and a thousand idle."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench.ground import START_S, Ground, Metrics, end_offsets, file_source, made_topic, make_input, running
from bench.meter import ProcessTree, sample_until
from bench.sides import OurSide, Side

__all__ = [
    "all_run",
    "cold_start",
    "idle",
    "idle_100",
    "idle_1000",
    "last_record",
    "latency",
    "start_steps",
    "times_of_appends",
]

_ROOT = Path(__file__).resolve().parent.parent.parent
# 10 s where .venv is there, as it is here; a maker of archives gives up after two minutes
_INSTALL_S = 300.0
# Lines of the latency case; Java looks at its file once a second, so each takes it one
_APPENDS, _WARMING = 100, 5
# The idle cases: compilers and consumers calm down, then the seconds that count
_SETTLE_S, _QUIET_S = 10.0, 10.0
# Looks at the statuses while connectors start
_LOOK_EVERY_S = 0.25
_LISTINGS = 5
# A start that is slower than this is no result; Java creates some 20 a second, one after the other
_IDLE_STARTED_PER_S = 8


def cold_start(side: str, ground: Ground) -> Metrics:
    """From the start of the process to the first record in the topic.

    Ours: the very first worker in a HOME of its own in which only `make install` ran.
    """
    small = ground.folder / "small.txt"
    if not small.exists():
        make_input(small, 10)
    with (
        made_topic(ground, side, "cold-start") as topic,
        end_offsets(ground.bootstrap, topic) as progress,
        running(side, ground, topic, file_source(topic, small), env=_fresh_home(side, ground, topic)) as (
            worker,
            began,
        ),
    ):
        tree = ProcessTree(worker.pid)
        samples = sample_until(1, progress, tree, worker.is_alive, START_S, every_s=0.01)
        return {"first_record_s": samples[-1].at_s - began, "cpu_s": samples[-1].cpu_s, "pss_mb": tree.pss_mb()}


def start_steps(side: str, ground: Ground) -> Metrics:
    """When the steps of a start had happened, s after the start of the process, as `--timings` tells them."""
    small = ground.folder / "small.txt"
    if not small.exists():
        make_input(small, 10)
    with (
        made_topic(ground, side, "start-steps") as topic,
        running(side, ground, topic, file_source(topic, small)) as (worker, began),
    ):
        assert isinstance(worker, OurSide)
        while not (steps := worker.steps()):
            if not worker.is_alive() or time.monotonic() > began + START_S:
                raise RuntimeError("the start was not over in time")
            time.sleep(0.05)
        return {name: steps[step.format(topic=topic)] for name, step in _STEPS.items()}


_STEPS = {
    "jvm_launched_s": "Spark's JVM is launched",
    "code_loaded_s": "The worker's code is loaded",
    "jvm_answers_s": "Spark's JVM answers",
    "rest_answers_s": "REST answers",
    "context_s": "Spark's context is there",
    "slot_forked_s": "Slot 0 is forked",
    "task_runs_s": "Task {topic}-0 is RUNNING",
}


def _fresh_home(side: str, ground: Ground, name: str) -> Mapping[str, str] | None:
    if side == "java":
        return None
    home = ground.folder / f"{name}-home"
    home.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "KCONNECT_"))}
    env["HOME"] = str(home)
    subprocess.run(["make", "--quiet", "-C", str(_ROOT), "install"], env=env, timeout=_INSTALL_S, check=True)
    return env


def latency(side: str, ground: Ground) -> Metrics:
    """From the append of a line to its arrival at a consumer of the topic, a line at a time, milliseconds."""
    with made_topic(ground, side, "latency") as topic:
        file = ground.folder / f"{topic}.txt"
        file.write_text("")
        with (
            running(side, ground, topic, file_source(topic, file)),
            last_record(ground.bootstrap, topic) as next_value,
        ):
            taken = sorted(times_of_appends([file], next_value))
    return {"p50_ms": taken[len(taken) // 2], "p99_ms": taken[len(taken) * 99 // 100], "most_ms": taken[-1]}


def times_of_appends(
    files: Sequence[Path], next_value: Callable[[], bytes | None], appends: int = _APPENDS, warming: int = _WARMING
) -> Iterator[float]:
    """Milliseconds to a line's arrival. Lines to one file after the other, at uneven moments, so that they meet no
    timer's beat; the first ones warm up.
    """
    for number in range(appends + warming):
        time.sleep(0.02 + (number * 37 % 100) / 1000)
        began = time.monotonic()
        with files[number % len(files)].open("a") as stream:
            stream.write(f"line {number}\n")
        deadline = began + START_S
        while next_value() != f"line {number}".encode():
            if time.monotonic() > deadline:
                raise TimeoutError(f"line {number} did not arrive within {START_S} s")
        if number >= warming:
            yield (time.monotonic() - began) * 1000


@contextlib.contextmanager
def last_record(bootstrap: str, topic: str) -> Iterator[Callable[[], bytes | None]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": f"bench-{topic}", "fetch.wait.max.ms": 10, "log_level": 2}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])

    def next_value() -> bytes | None:
        message = consumer.poll(1.0)
        return None if message is None or message.error() else message.value()

    try:
        yield next_value
    finally:
        consumer.close()


def idle_100(side: str, ground: Ground) -> Metrics:
    """A hundred sources whose files do not grow: start, memory, CPU of ten quiet seconds, REST list, stop."""
    return idle(side, ground, 100)


def idle_1000(side: str, ground: Ground) -> Metrics:
    """A thousand of them. `list_ms` is the median of five GET /connectors?expand=status&expand=info: bar 1 s."""
    return idle(side, ground, 1000)


def idle(
    side: str,
    ground: Ground,
    count: int,
    source: Callable[[str, Path], dict[str, str]] = file_source,
    case: str = "idle",
    more: Callable[[Side], Metrics] = lambda worker: {},
) -> Metrics:
    """Metrics of a worker with so many sources, `source(name, file)` each, whose files are empty, and `more` of it."""
    name = ground.next_name(side, f"{case}-{count}")
    folder = ground.folder / f"{name}-files"
    folder.mkdir()
    connectors = []
    for number in range(count):
        file = folder / f"{number}.txt"
        file.write_text("")
        connectors.append(source(f"{name}-{number}", file))
    with running(side, ground, name, *connectors) as (worker, began):
        deadline = began + START_S * max(2.0, count / _IDLE_STARTED_PER_S / START_S)
        while not all_run(worker.url, count):
            if not worker.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(f"{count} connectors were not RUNNING in time")
            time.sleep(_LOOK_EVERY_S)
        running_s = time.monotonic() - began
        time.sleep(_SETTLE_S)
        tree = ProcessTree(worker.pid)
        before, at = tree.cpu_s(), time.monotonic()
        time.sleep(_QUIET_S)
        cpu = (tree.cpu_s() - before) / (time.monotonic() - at)
        pss = tree.pss_mb()
        list_ms = statistics.median(_listing_ms(worker.url, count) for _ in range(_LISTINGS))
        metrics = more(worker)
        stop_began = time.monotonic()
        worker.stop()
        stop_s = time.monotonic() - stop_began
    return {
        "running_s": running_s,
        "pss_mb": pss,
        "cpu_percent": cpu * 100,
        "list_ms": list_ms,
        "stop_s": stop_s,
        **metrics,
    }


def all_run(url: str, count: int) -> bool:
    """Names first: a list of statuses of a thousand is work that the start should not have to do beside its own."""
    try:
        if len(_answer(f"{url}/connectors")) < count:
            return False
        known = _answer(f"{url}/connectors?expand=status")
    except (OSError, ValueError):
        return False
    tasks = [task["state"] for one in known.values() for task in one["status"]["tasks"]]
    return len(tasks) == count and set(tasks) == {"RUNNING"}


def _listing_ms(url: str, count: int) -> float:
    began = time.monotonic()
    found = _answer(f"{url}/connectors?expand=status&expand=info")
    taken = time.monotonic() - began
    if len(found) != count or not all({"status", "info"} <= set(one) for one in found.values()):
        raise RuntimeError(f"the list of {count} connectors is not whole")
    return taken * 1000


def _answer(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
