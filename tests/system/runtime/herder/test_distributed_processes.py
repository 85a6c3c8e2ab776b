"""`connect distributed` as users run it: two processes on one broker, one of them killed."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kconnect.errors import NotFoundError
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.topics import consume_values, create_topic, end_offset
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]


def test_the_tasks_of_a_killed_process_go_on_in_the_other_at_the_next_line(broker: DevBroker, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, "dist-lines")
    file = tmp_path / "in.txt"
    file.write_text("".join(f"before {number}\n" for number in range(100)))
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": "dist-lines", "tasks.max": "1"}
    quick = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "kconnect.slots": "1"}
    first = Distributed(tmp_path / "a", broker.bootstrap, "dist-kill", quick)
    second = Distributed(tmp_path / "b", broker.bootstrap, "dist-kill", quick)
    with first, second:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda worker: worker.start(), (first, second)))
        workers = {f"127.0.0.1:{worker.port}": worker for worker in (first, second)}
        with second.client() as client:  # who does not lead sends it on
            client.create_connector("lines", config)

        def owner() -> Distributed:
            with second.client() as client:
                try:
                    status = client.connector_status("lines")
                except NotFoundError as err:  # it was not seen doing anything yet
                    raise AssertionError(str(err)) from err
            assert [task.state for task in status.tasks] == [RunState.RUNNING], status
            return workers[status.tasks[0].worker_id]

        victim = eventually(owner, 30, "the task runs")
        consume_values(broker.bootstrap, "dist-lines", 100)
        victim.kill()
        survivor = next(worker for worker in (first, second) if worker is not victim)
        with file.open("a") as out:
            out.write("".join(f"after {number}\n" for number in range(100)))
        expected = {f"{when} {number}".encode() for when in ("before", "after") for number in range(100)}

        def has_all() -> bool:  # some of them twice: what was read after the last commit
            count = end_offset(broker.bootstrap, "dist-lines")
            return set(consume_values(broker.bootstrap, "dist-lines", count)) == expected

        eventually(has_all, 30, "all lines arrive")
        assert survivor.stop() == 128 + signal.SIGTERM
        assert "Herder stopped" in survivor.log_text()
