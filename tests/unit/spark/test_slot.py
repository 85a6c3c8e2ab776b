"""What a slot does with the messages of its worker, in their order."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from kconnect.errors import LinkError
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.spark import slot as slot_module
from kconnect.spark.messages import Message, StartTask, StopTasks, TasksStopped
from kconnect.spark.slot import EXIT_WORKER_LOST, _Slot, rare_collections
from kconnect.spark.slot_spec import SlotSpec
from kit.waiting import eventually

_ID = TaskId("a", 0)
_SPEC = SlotSpec(
    slot=0,
    host="127.0.0.1",
    port=1,
    token=b"",
    heartbeat_interval_s=1.0,
    heartbeat_timeout_s=10.0,
    start_timeout_s=10.0,
    offsets_timeout_s=10.0,
    plugin_path=None,
    log_level=20,
    worker_host=socket.gethostname(),
    worker_pid=1,
)


class Link:
    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)


class LostLink(Link):
    def receive(self, timeout_s: float) -> Message:
        raise LinkError("The worker is gone")


class Plugins:
    def __init__(self) -> None:
        self.closed_within_s: list[float] = []

    def close(self, timeout_s: float) -> None:
        self.closed_within_s.append(timeout_s)


class Host:
    """A TaskHost whose tasks take long to stop."""

    def __init__(self, **_: Any) -> None:
        self.calls: list[str] = []
        self.has_ended = threading.Event()

    def start(self, spec: TaskSpec) -> None:
        self.calls.append(f"start run {spec.run}")

    def begin_stop(self, ids: Collection[TaskId], *, is_cut_off: bool) -> list[TaskId]:
        self.calls.append("stop, cut off" if is_cut_off else "stop")
        return list(ids)

    def await_end(self, tasks: Sequence[TaskId], timeout_s: float) -> set[TaskId]:
        assert self.has_ended.wait(timeout_s)
        return set()

    def close(self, timeout_s: float) -> None:
        self.calls.append(f"close within {timeout_s:g} s")


def test_a_stop_has_begun_before_the_start_behind_it_and_is_waited_for_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slot that stood still finds both: the stop is of the run before, not of the one that starts."""
    monkeypatch.setattr(slot_module, "TaskHost", Host)
    link = Link()
    slot = _Slot(_SPEC, cast("Any", link), cast("Any", None))
    host = cast("Host", slot._host)
    slot._handle(StopTasks(5, (_ID,), 60_000, is_cut_off=True))
    slot._handle(StartTask(TaskSpec(_ID, 2, ConnectorType.SOURCE, {}, {}, {})))
    assert host.calls == ["stop, cut off", "start run 2"]
    assert link.sent == [], "it waits, and the thread that reads goes on"
    host.has_ended.set()
    eventually(lambda: link.sent == [TasksStopped(5, ())], 5, "the worker hears of the end")


def test_a_slot_that_loses_its_worker_ends_its_jvm_and_does_not_wait_for_it_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder of a JVM that has died is deleted by nobody else."""
    monkeypatch.setattr(slot_module, "TaskHost", Host)
    slot = _Slot(_SPEC, cast("Any", LostLink()), cast("Any", None))
    plugins = Plugins()
    slot._plugins = cast("Any", plugins)
    assert slot.run() == EXIT_WORKER_LOST
    assert cast("Host", slot._host).calls == ["close within 0 s"]
    assert plugins.closed_within_s == [1.0]


def test_the_messages_of_a_fetch_are_dropped_before_anyone_looks_for_garbage_among_them() -> None:
    before, looks = gc.get_threshold(), list[str]()

    def note(phase: str, info: dict[str, int]) -> None:
        looks.append(phase)

    def fetch() -> int:
        looks.clear()
        gc.callbacks.append(note)
        messages = [[number] for number in range(5_000)]
        gc.callbacks.remove(note)
        return len(messages)

    gc.collect()
    with rare_collections():
        fetch()
        assert looks == []
    assert gc.get_threshold() == before
    fetch()
    assert looks, "it would be looked for otherwise"
