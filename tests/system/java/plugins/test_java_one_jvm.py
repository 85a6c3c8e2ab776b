"""A worker whose slots share its JVM of Java's plugins (kconnect.java.host=worker): slots and JVM killed and frozen.

Each time the tasks go on without a gap, in one JVM.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.java_plugin_folder import java_plugin_folder
from kit.pace import ample_s
from kit.processes import living
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(240)]

_SETTINGS = {
    "plugin.discovery": "service_load",
    "kconnect.slots": "2",
    "spark.master": "local[2]",
    "kconnect.java.host": "worker",
    "kconnect.java.heap": "96m",
    "kconnect.java.timeout.ms": "8000",
    "task.shutdown.graceful.timeout.ms": "1000",
    "offset.flush.interval.ms": "500",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
}
_AGAIN = {"connector.class": "kit.Faulty$Source", "errors.restart.backoff.ms": "200"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[Standalone]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    settings = {"plugin.path": str(plugins), **_SETTINGS}
    folder = tmp_path_factory.mktemp("worker")
    with Distributed(folder, broker.bootstrap, f"java-one-{uuid.uuid4().hex[:6]}", settings) as made:
        made.start()
        yield made
        if made.process is not None and made.process.poll() is None:  # the last test ends it
            made.stop()


@pytest.fixture
def topics(broker: DevBroker, request: pytest.FixtureRequest) -> tuple[str, str]:
    found = topic_for(request, "-one"), topic_for(request, "-two")
    for name in found:
        create_topic(broker.bootstrap, name)
    return found


@contextmanager
def one_in_each_slot(worker: Standalone, broker: DevBroker, topics: tuple[str, str]) -> Iterator[psutil.Process]:
    """A source writes to each topic, from two slots and one JVM, which this gives; in the end no number is missing."""
    with worker.client() as client:
        for topic in topics:
            client.create_connector(topic, {**_AGAIN, "topic": topic})
        try:
            for topic in topics:
                worker.await_task(topic, RunState.RUNNING)
                grows(broker, topic)
            slots = [slot for slot in client.slots() if slot["tasks"]]
            assert len(slots) == 2, "both have a task"
            (jvm,) = jvms(worker)
            yield jvm
            for topic in topics:
                worker.await_task(topic, RunState.RUNNING)
                grows(broker, topic)
                found = [
                    int(value or b"")
                    for value in consume_values(broker.bootstrap, topic, end_offset(broker.bootstrap, topic))
                ]
                assert set(found) == set(range(max(found) + 1)), "some may have come twice, none is missing"
        finally:
            for topic in topics:
                client.delete_connector(topic)


def grows(broker: DevBroker, topic: str) -> None:
    before = end_offset(broker.bootstrap, topic)
    eventually(lambda: end_offset(broker.bootstrap, topic) > before, 60, f"{topic} grows")


def jvms(worker: Standalone) -> list[psutil.Process]:
    """Those of the worker and its slots; below what makes a class archive is one, too."""
    above = {worker.pid, *(slot.pid for slot in worker.slots())}
    return [jvm for jvm in worker.running("kconnect.host.Main") if jvm.ppid() in above]


def test_a_killed_slot_leaves_the_jvm_to_the_others_and_its_task_goes_on_in_it(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    with one_in_each_slot(worker, broker, topics) as jvm:
        before = worker.slots()
        before[0].kill()
        eventually(lambda: len(worker.slots()) == 2 and before[0] not in worker.slots(), 60, "a new slot")
        for topic in topics:
            worker.await_task(topic, RunState.RUNNING)
            grows(broker, topic)
        assert jvms(worker) == [jvm]
        assert before[1] in worker.slots()


def test_when_the_jvm_is_killed_the_tasks_of_all_slots_fail_alike_and_go_on_in_a_single_new_one(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    with one_in_each_slot(worker, broker, topics) as jvm:
        since = len(worker.log_text())
        slots = worker.slots()
        jvm.kill()
        why = "killed by signal 9: by somebody, or by the kernel when memory ran out"
        died = f"JavaHostDiedError: The JVM that runs Java's plugins ended ({why})"
        for topic in topics:
            worker.await_log(f"Task {topic}-0 failed: Faulty$Numbers.poll() raised {died}", 30, since=since)
        for topic in topics:
            worker.await_task(topic, RunState.RUNNING)
            grows(broker, topic)
        assert len(jvms(worker)) == 1
        assert worker.log_text()[since:].count(" runs plugins (pid") == 1
        assert worker.slots() == slots, "Python is left alone"


def test_a_frozen_jvm_is_killed_at_its_deadline_and_the_tasks_of_all_slots_go_on(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    with one_in_each_slot(worker, broker, topics) as jvm:
        since = len(worker.log_text())
        jvm.send_signal(signal.SIGSTOP)
        eventually(lambda: not living([jvm]), ample_s(60), "it is killed")
        worker.await_log("has not answered for", since=since)
        eventually(lambda: len(jvms(worker)) == 1, 30, "a new one")


def test_at_last_a_killed_worker_leaves_nothing_and_its_tasks_go_on_in_the_next(
    worker: Standalone, broker: DevBroker, topics: tuple[str, str]
) -> None:
    with one_in_each_slot(worker, broker, topics):
        worker.kill()  # and waits until nothing that was below it is left
        worker.start()
    worker.stop()  # a process that the module does not know
