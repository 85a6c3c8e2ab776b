"""The JVM of a slot is killed, ended by a plugin, frozen, or left behind: its tasks alone notice, and go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import MISBEHAVES, NUMBERS, JavaWorker, java_worker, texts
from kit.pace import ample_s
from kit.processes import lives
from kit.topics import consume, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark]

_AGAIN = {"errors.restart.backoff.ms": "200"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[JavaWorker]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    with java_worker(tmp_path_factory.mktemp("java-worker"), broker.bootstrap, plugins) as running:
        yield running


def bystander(worker: JavaWorker, topic: str) -> psutil.Process:
    """Run a task of that name, which does nothing wrong; gives the JVM that it shares with all others."""
    worker.create("bystander", **NUMBERS, **_AGAIN, topic=topic, count="20")
    worker.await_running("bystander")
    (jvm,) = worker.jvms()
    return jvm


def test_a_jvm_that_is_killed_fails_its_tasks_alone_and_they_go_on(
    worker: JavaWorker, broker: DevBroker, topic: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    lines = topic_for(request, "-lines")
    create_topic(broker.bootstrap, lines)
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    worker.create("python", **{"connector.class": "FileStreamSource", "file": str(file), "topic": lines})
    worker.create("killed", **NUMBERS, **_AGAIN, topic=topic, count="60000")
    consume(broker.bootstrap, topic, 1)
    (jvm,) = worker.jvms()
    jvm.send_signal(signal.SIGKILL)
    jvm.wait(ample_s(10))

    def has_all() -> bool:  # some of them may have come twice
        found = set(texts(broker, topic, end_offset(broker.bootstrap, topic)))
        return found == {f"number {number}" for number in range(60_000)}

    eventually(has_all, 60, "every number is there")
    with file.open("a") as more:
        more.write("two\n")
    assert texts(broker, lines, 2) == ["one", "two"]
    with worker.client() as client:
        (state,) = {task.state for task in client.connector_status("python").tasks}
    assert state is RunState.RUNNING
    why = "killed by signal 9: by somebody, or by the kernel when memory ran out"
    worker.await_logged(f"The JVM that runs Java's plugins ended ({why})")
    worker.delete("killed", "python")


def test_a_task_that_ends_java_is_told_with_the_exit_code_and_others_of_that_jvm_are_healed(
    worker: JavaWorker, topic: str
) -> None:
    before = bystander(worker, topic)
    ends = {**MISBEHAVES, "transforms.bad.does": "exit", "bad": "3", "errors.restart.max": "0"}
    worker.create("ends", **NUMBERS, **ends, topic=topic, count="10")
    trace = worker.await_task("ends", RunState.FAILED)
    assert "The JVM that runs Java's plugins ended (exit code 7)" in trace
    before.wait(ample_s(10))
    eventually(lambda: [jvm for jvm in worker.jvms() if jvm.pid != before.pid], 30, "a new JVM for the bystander")
    worker.await_running("bystander")
    worker.delete("ends", "bystander")


def test_a_task_that_hangs_is_given_up_at_its_deadline_and_its_jvm_goes_once_nobody_else_is_in_it(
    worker: JavaWorker, topic: str
) -> None:
    jvm = bystander(worker, topic)
    (slot,) = worker.slots()
    hangs = {**MISBEHAVES, "transforms.bad.does": "sleep", "bad": "3"}
    worker.create("hangs", **NUMBERS, **hangs, topic=topic, count="10")
    eventually(lambda: "kit.TestPlugins: now it sleeps" in words_of(worker), 30, "it hangs")
    worker.delete("hangs")
    deadline = "2.0 s (task.shutdown.graceful.timeout.ms)"
    worker.await_logged(f"Task hangs-0 did not stop within {deadline} and was abandoned")
    worker.await_running("bystander")
    assert lives(jvm)
    worker.delete("bystander")
    eventually(lambda: not lives(jvm), 40, "the JVM in which a plugin hangs is killed")
    worker.await_logged("1 plugin that had to stop did not return within 10 s more than")
    worker.await_logged("task.shutdown.graceful.timeout.ms: hangs-0")
    assert [found.pid for found in worker.slots()] == [slot.pid], "Python is left alone"


def words_of(worker: JavaWorker) -> str:
    """The log with the logger of each line before its message."""
    lines = [line.rpartition(" (") for line in worker.log_text().splitlines()]
    return "\n".join(
        f"{logger.partition('$')[0].partition(':')[0]}: {text.rpartition('] ')[2]}" for text, _, logger in lines
    )


def test_a_frozen_jvm_is_killed_at_its_deadline_and_its_tasks_go_on(
    worker: JavaWorker, broker: DevBroker, topic: str
) -> None:
    worker.create("frozen", **NUMBERS, **_AGAIN, topic=topic, count="100000000")
    consume(broker.bootstrap, topic, 1)
    (jvm,) = worker.jvms()
    jvm.send_signal(signal.SIGSTOP)
    jvm.wait(ample_s(60))

    def told() -> list[str]:
        return [line for line in worker.log_text().splitlines() if "kconnect.java.timeout.ms" in line]

    assert "has not answered for" in eventually(told, 10, "it is told")[0]
    eventually(lambda: [one for one in worker.jvms() if one.pid != jvm.pid], 30, "a new JVM")
    worker.await_running("frozen")
    worker.delete("frozen")


def test_a_slot_that_is_killed_takes_its_jvm_along_and_the_task_goes_on_in_another(
    worker: JavaWorker, topic: str
) -> None:
    jvm = bystander(worker, topic)
    (slot,) = worker.slots()
    slot.kill()
    eventually(lambda: not lives(jvm), 20, "its JVM ends")
    eventually(worker.jvms, 60, "a new slot with a JVM")
    worker.await_running("bystander")
    worker.delete("bystander")
