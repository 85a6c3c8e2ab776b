"""A standalone cluster whose master is not there: what is said, when, and what is left running."""

from __future__ import annotations

import logging
import socket
import threading
import uuid

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.spark.master import await_master
from kit.distributed_worker import Distributed
from kit.pace import ample_s
from kit.ports import free_port
from kit.standalone import Standalone
from kit.waiting import eventually

_FOREVER_S = 300.0  # above the timeout of the tests


def test_a_master_that_comes_late_is_waited_for_and_reported_once(caplog):
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    waiting = threading.Thread(target=await_master, args=(master, _FOREVER_S, threading.Event()))
    waiting.start()
    eventually(lambda: caplog.records, 10, "the log says that nobody answers")
    with socket.create_server(("127.0.0.1", port)):
        waiting.join(ample_s(10))

    assert not waiting.is_alive()
    (reported,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert reported.getMessage() == (
        f"No Spark master answers at {master}; retrying for 300 s: 127.0.0.1:{port}: Connection refused"
    )


def test_one_of_several_masters_is_enough(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        await_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}", _FOREVER_S, threading.Event())

    assert not caplog.records


def test_a_stop_ends_the_wait():
    stopping = threading.Event()
    waiting = threading.Thread(target=await_master, args=(f"spark://127.0.0.1:{free_port()}", _FOREVER_S, stopping))
    waiting.start()
    stopping.set()
    waiting.join(ample_s(10))

    assert not waiting.is_alive()


def test_at_the_deadline_each_address_is_named_with_its_reason_and_the_setting():
    first, second = free_port(), free_port()
    with pytest.raises(EnvironmentProblemError) as failure:
        await_master(f"spark://127.0.0.1:{first},127.0.0.1:{second}", 0.2, threading.Event())

    assert str(failure.value) == (
        f"No Spark master answered at spark://127.0.0.1:{first},127.0.0.1:{second} in 0.2 s "
        f"(kconnect.slot.start.timeout.ms): 127.0.0.1:{first}: Connection refused; "
        f"127.0.0.1:{second}: Connection refused."
    )
    assert failure.value.hint == "Check spark.master, and that the master is up."


@pytest.mark.broker
@pytest.mark.parametrize(("command", "exit_code"), [("standalone", 2), ("distributed", 1)])
def test_a_worker_without_its_master_ends_with_a_sentence_and_nothing_left(broker, tmp_path, command, exit_code):
    """The codes are those of Java: a distributed worker has started by then, and cannot go on."""
    master = f"spark://127.0.0.1:{free_port()}"
    settings = {"spark.master": master, "kconnect.slot.start.timeout.ms": "3000"}
    if command == "standalone":
        worker = Standalone(tmp_path, broker.bootstrap, {}, settings)
    else:
        worker = Distributed(tmp_path, broker.bootstrap, f"no-master-{uuid.uuid4().hex[:6]}", settings)
    with worker:
        worker.launch()
        code = worker.wait(60)

    lines = worker.log_text().splitlines()
    assert code == exit_code, worker.log_text()
    assert sum(f"No Spark master answers at {master}; retrying for 3 s" in line for line in lines) == 1
    assert lines[-1].startswith(f"No Spark master answered at {master} in 3 s (kconnect.slot.start.timeout.ms): ")
    assert "Traceback" not in worker.log_text()
    assert not worker.descendants()
