"""The real SparkLauncher with connectors that have slots of their own, by a clock that stands still."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kconnect.model import ConnectorType, RunState, TaskId, TaskSpec
from kconnect.spark.application import slot_problem
from kconnect.spark.messages import Heartbeat, Hello
from kconnect.spark.own_slots import not_started
from kconnect.spark.ports import memory_on_this_host
from kconnect.spark.processes import ProcessCores
from kconnect.spark.settings import SparkSettings
from kit.memory_spark import MemorySpark
from kit.waiting import eventually
from unit.spark.test_launcher import World, launched, spec


def own(name: str, run: int = 1, **more: str) -> TaskSpec:
    config = {"kconnect.slot": "own", **{f"kconnect.slot.{key}": value for key, value in more.items()}}
    return TaskSpec(TaskId(name, 0), run, ConnectorType.SOURCE, config, {}, {})


def two_connectors(world: World, **more: str) -> None:
    """Slot 0 is shared and has a task; slot 1 is that of the connector `hog`."""
    world.settle()
    world.up(0)
    world.launcher.start_tasks([spec("calm"), own("hog", **more)])
    world.slots = 2
    world.settle()
    world.up(1)


def test_a_task_with_slots_of_its_own_waits_for_them_and_the_others_go_into_those_that_all_share() -> None:
    with launched(MemorySpark(), 1) as world:
        two_connectors(world)
        world.launcher.start_tasks([spec("late")])
        world.settle()

        assert {
            slot.slot: (slot.connector, [task.connector for task in slot.tasks]) for slot in world.launcher.slots()
        } == {
            0: (None, ["calm", "late"]),
            1: ("hog", ["hog"]),
        }
        assert world.spark.jobs[1].spec.connector == "hog"


def test_a_slot_of_a_connectors_own_keeps_a_jvm_of_its_own_where_the_others_share_the_workers() -> None:
    settings = SparkSettings(slots=1, java={"kconnect.java.heap": "1g"}, shared_java={"door": "secret"})
    with launched(MemorySpark(), 1, settings) as world:
        two_connectors(world)
        shared, own_one = (world.spark.jobs[slot].spec for slot in (0, 1))
        assert shared.java == {"kconnect.java.heap": "1g", "door": "secret"}
        assert own_one.java == {"kconnect.java.heap": "1g"}
        assert "secret" not in repr(shared)


def test_over_its_bound_the_connector_fails_by_name_and_the_others_are_not_started_again() -> None:
    spark = MemorySpark()
    spark.memory = {}
    with launched(spark, 1) as world:
        two_connectors(world, memory="200m")
        hog, calm = spark.processes[1], spark.processes[0]
        spark.memory = {hog.pid: 201 * 2**20, calm.pid: 900 * 2**20}
        spark.step(world.launcher, 2)

        assert hog.pid in spark.killed
        assert world.events.by_run()[TaskId("hog", 0), 1][-1] is RunState.FAILED
        assert world.events.traces[TaskId("hog", 0)] == (
            "Slot 1 of connector hog took 201 MB of memory, and kconnect.slot.memory allows 200 MB: its process was "
            "killed. Raise kconnect.slot.memory, or have the connector keep less in memory."
        )
        assert calm.is_live
        assert world.events.by_run()[TaskId("calm", 0), 1] == [RunState.RUNNING]

        again = world.up(1)
        assert again.starts == []  # it has failed, and nobody has restarted it
        world.launcher.start_tasks([own("hog", run=2, memory="200m")])
        world.settle()
        assert again.starts == [(TaskId("hog", 0), 2)]


def test_a_slot_on_another_host_is_judged_by_what_it_reports() -> None:
    spark = MemorySpark()
    with launched(spark, 1) as world:
        two_connectors(world, memory="200m")
        hog = spark.processes[1]
        hog.say(Heartbeat(memory_bytes=250 * 2**20))
        spark.settle(world.launcher, 2)
        spark.clock.advance(0.2)

        eventually(lambda: world.events.by_run()[TaskId("hog", 0), 1][-1] is RunState.FAILED, 5.0, "its task fails")


def test_a_connector_whose_slot_never_starts_fails_with_the_reason() -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        world.up(0)
        world.launcher.start_tasks([own("hog")])
        world.slots = 2
        for _ in range(61):
            world.spark.step(world.launcher, 2)

        eventually(lambda: TaskId("hog", 0) in world.events.traces, 5.0, "its task fails")
        assert world.events.traces[TaskId("hog", 0)] == (
            "No slot of its own has started for connector hog in 60 s (kconnect.slot.start.timeout.ms): no core of "
            "Spark is free. Lower kconnect.slots, give Spark more cores, or set kconnect.slot=shared."
        )


def test_a_task_whose_slot_cannot_start_says_why_at_once_and_no_more_once_it_runs() -> None:
    with launched(MemorySpark(), 1) as world:
        world.settle()
        world.up(0)
        world.launcher.start_tasks([spec("calm"), own("hog")])
        world.slots = 2
        world.settle()
        hog = TaskId("hog", 0)
        assert world.events.by_run()[hog, 1] == [RunState.UNASSIGNED]
        world.spark.end_job(1, "No space left on device: /tmp/kconnect-spark-1")
        world.spark.step(world.launcher, 2)
        world.spark.step(world.launcher, 2)

        assert world.events.by_run()[hog, 1] == [RunState.UNASSIGNED] * 2  # with the reason, once
        assert world.events.traces == {
            hog: "Slot 1 cannot start, and is tried again: No space left on device: /tmp/kconnect-spark-1"
        }
        world.up(1)
        assert world.events.by_run()[hog, 1][-1] is RunState.RUNNING


def test_a_slot_that_fails_for_a_reason_is_not_explained_by_cores() -> None:
    settings = SparkSettings.parse({})
    assert not_started("hog", settings, "No space left on device: /tmp.") == (
        "No slot of its own has started for connector hog in 60 s (kconnect.slot.start.timeout.ms): "
        "No space left on device: /tmp."
    )


def test_a_disk_without_room_is_named_where_spark_writes() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        Path("/dev/full").write_bytes(b"x")
    where = "/tmp/kconnect-spark-1 (spark.local.dir, which is below TMPDIR if it is not set)"
    assert slot_problem(caught.value, "/tmp/kconnect-spark-1") == f"No space left on device: {where}"
    of_java = RuntimeError("An error occurred\n: java.io.IOException: No space left on device\n\tat java.io.X\n")
    assert slot_problem(of_java, "/tmp/kconnect-spark-1") == f"No space left on device: {where}"


def test_the_slot_of_a_connector_that_has_left_is_killed_and_its_number_is_used_again() -> None:
    with launched(MemorySpark(), 1) as world:
        two_connectors(world)
        hog = world.spark.processes[1]
        world.launcher.stop_tasks([TaskId("hog", 0)], 1.0)
        world.slots = 1
        for _ in range(12):
            world.spark.step(world.launcher, 1)

        assert hog.pid in world.spark.killed
        assert [slot.slot for slot in world.launcher.slots()] == [0]
        world.launcher.start_tasks([own("other")])
        world.slots = 2
        world.settle()
        assert world.spark.jobs[1].spec.connector == "other"


def test_a_run_that_may_not_stay_in_its_slot_is_stopped_there_first() -> None:
    with launched(MemorySpark(), 1) as world:
        two_connectors(world)
        shared = world.spark.processes[0]
        world.launcher.start_tasks([own("calm", run=2)])
        world.slots = 3
        world.settle()

        assert TaskId("calm", 0) not in shared.tasks
        assert world.up(2).starts == [(TaskId("calm", 0), 2)]


def test_memory_of_a_process_on_this_host_is_known_until_it_ends() -> None:
    program = "kept = bytearray(b'x' * 100_000_000); print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = Hello(0, socket.gethostname(), process.pid, os.getpid())
        process.stdout.readline()
        assert 100_000_000 < (memory_on_this_host(hello) or 0) < 200_000_000
        process.stdin.write(b"\n")
    assert memory_on_this_host(hello) is None
    assert memory_on_this_host(Hello(0, "elsewhere", os.getpid(), 1)) is None


_BOUND = """
import os, threading
from kconnect.spark.processes import ProcessCores
from kconnect.spark.settings import SparkSettings
before = os.sched_getaffinity(0)
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
cores = ProcessCores(0)
cores.keep_to(1)
assert len(os.sched_getaffinity(0)) == 1
assert os.sched_getaffinity(thread.native_id) == os.sched_getaffinity(0)
cores.keep_to(None)
assert os.sched_getaffinity(0) == before == os.sched_getaffinity(thread.native_id)
cores.keep_to(4096)
assert os.sched_getaffinity(0) == before
stop.set()
"""


def test_all_threads_of_a_process_keep_to_its_cores() -> None:
    assert ProcessCores.__module__ in _BOUND
    subprocess.run([sys.executable, "-c", _BOUND], check=True, timeout=60)
