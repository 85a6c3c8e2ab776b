"""What threads of a process want of a core, by the system's own counts."""

from __future__ import annotations

import threading

from kconnect.model import TaskId
from kconnect.spark.processes import ThreadDemand

BUSY, IDLE = TaskId("busy", 0), TaskId("idle", 0)


def test_a_thread_that_never_sleeps_wants_a_core_however_busy_the_machine_is_and_one_that_waits_wants_none() -> None:
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            sum(range(1000))

    busy, idle = threading.Thread(target=spin), threading.Thread(target=over.wait)
    demand = ThreadDemand()
    busy.start()
    idle.start()
    try:
        assert busy.native_id is not None
        assert idle.native_id is not None
        threads = {BUSY: busy.native_id, IDLE: idle.native_id, TaskId("gone", 0): 2**22 + 1}
        demand.look(threads)
        busy.join(1.0)
        found = demand.look(threads)
    finally:
        over.set()
        busy.join()
        idle.join()

    assert found is not None
    percent, tasks = found
    assert tasks.keys() == {BUSY}
    assert 50 < tasks[BUSY] <= percent < 150
