"""The work of one worker of a cluster: orders that overtake each other, wait for a plugin, or come too late."""

from __future__ import annotations

import threading
import time

from kconnect.api.config_provider import ConfigData, ConfigProvider
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.cluster.config_entries import entry_of
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.decisions.events import Reconfigure, TaskConfigsFailed, TaskConfigsGiven
from kit.local_work import world
from kit.memory_launcher import MemoryLauncher
from kit.pace import ample_s
from kit.sample_connectors import SamplePlugins, SampleSource
from kit.waiting import eventually

C, T0 = "fsrc", TaskId("fsrc", 0)
HERE = Work((C,), (T0,))
MORE_THAN_THE_POOL = 20


def test_a_started_connector_is_to_be_asked_for_tasks_and_a_paused_or_failed_one_is_not():
    with world() as at:
        at.connector("paused")
        at.configs.put_target_state("paused", TargetState.PAUSED)
        at.connector("failing", raise_in="start")
        at.work.start(Work((C, "paused", "failing")), at.connector(C))
        eventually(lambda: at.events == [Reconfigure(C)], 5, "asked for")
        states = {"paused": RunState.PAUSED, "failing": RunState.FAILED, C: RunState.RUNNING}
        eventually(lambda: {name: at.state(name) for name in states} == states, 5, "all have started")
        assert at.events == [Reconfigure(C)]


def test_a_start_that_hangs_holds_up_neither_the_order_nor_other_connectors():
    with world() as at:
        at.connector("hanging", hang_in="start")
        at.work.start(Work(("hanging", C)), at.connector(C))
        eventually(lambda: at.state(C) is RunState.RUNNING, 5, "the other one runs")
        assert at.state("hanging") is None
        at.journal.gate.open()
        eventually(lambda: at.state("hanging") is RunState.RUNNING, 5, "it runs as well")


def test_a_stop_overtakes_a_start_that_waits():
    with world() as at:
        snapshot = at.connector(C, hang_in="start")
        at.work.start(Work((C,)), snapshot)
        eventually(lambda: "start" in at.journal.calls, 5, "it hangs")
        at.work.start(Work((C,)), snapshot)
        stopping = threading.Thread(target=at.work.stop, args=(Work((C,)),))
        stopping.start()
        eventually(lambda: at.work._starts == 3, 5, "the stop is known, behind two starts")
        at.journal.gate.open()
        stopping.join(10)
        eventually(lambda: at.state(C) is RunState.UNASSIGNED, 5, "stopped")
        assert at.journal.calls.count("start") == 1


def test_a_stop_that_comes_late_does_not_stop_what_was_started_since():
    with world(times=PluginTimes(call_s=5, stop_s=0.05, stop_margin_s=0.05)) as at:
        snapshot = at.connector(C, hang_in="task_configs")
        at.work.start(Work((C,)), snapshot)
        eventually(lambda: at.state(C) is RunState.RUNNING, 5, "it runs")
        entry = entry_of(snapshot, C)
        assert entry is not None
        at.work.ask_task_configs(entry)
        eventually(lambda: "task_configs" in at.journal.calls, 5, "it hangs")
        at.work.stop(Work((C,)))  # has to wait for its turn longer than a stop may take
        at.work.start(Work((C,)), snapshot)
        at.journal.gate.open()
        eventually(lambda: at.journal.calls.count("start") == 2, 5, "started again")
        at.work.set_target(C, TargetState.PAUSED, Work((C,)))
        eventually(lambda: at.state(C) is RunState.PAUSED, 5, "it is there to be paused")


def test_a_stop_of_tasks_does_not_wait_behind_connectors_that_hang():
    reported: list[object] = []
    with world(times=PluginTimes(call_s=30, stop_s=0.05)) as at:
        snapshot = at.connector(C, tasks=1)
        at.work.start(Work((), (T0,)), snapshot)
        hanging = entry_of(at.connector("hanging", hang_in="start"), "hanging")
        assert hanging is not None
        for _ in range(MORE_THAN_THE_POOL):
            at.work.restart_connector(hanging, reported.append)
        at.work.stop(Work((), (T0,)))
        assert (at.launcher.stops, at.status.running()) == ([T0], ())
        at.work.start(Work((), (T0,)), snapshot)
        at.journal.gate.open()
        eventually(lambda: len(reported) == MORE_THAN_THE_POOL, 5, "every order of the hanging one is done")
        assert (at.launcher.stops, at.status.running(), at.state(T0)) == ([T0], (T0,), RunState.RUNNING)


def test_a_stop_of_tasks_that_comes_late_does_not_end_the_run_that_began_since():
    launcher = _LateAnswers()
    with world(times=PluginTimes(call_s=5, stop_s=0.05, stop_margin_s=0.05), launcher=launcher) as at:
        snapshot = at.connector(C, tasks=1)
        at.work.start(Work((), (T0,)), snapshot)
        at.work.stop(Work((), (T0,)))  # its slot does not answer in the time of a stop
        assert (launcher.stops, launcher.answers) == ([T0], 0)
        at.work.start(Work((), (T0,)), snapshot)
        assert [spec.run for spec in launcher.starts] == [1, 2]
        launcher.gate.set()
        eventually(lambda: launcher.answers == 1, 5, "the slot has answered")
        at.work.close(5)
        eventually(lambda: not _threads("task-stops"), 5, "the late stop is over")
        assert (at.status.running(), at.state(T0)) == ((T0,), RunState.RUNNING)


def test_tasks_paused_while_former_ones_are_fenced_off_begin_paused():
    gate = threading.Event()

    def fence(configs, connector):
        assert gate.wait(10)
        configs.put_task_count_record(connector, 1)

    with world(ask_leader=fence) as at:
        at.work.start(HERE, at.connector(C, tasks=1))
        at.work.set_target(C, TargetState.PAUSED, HERE)
        assert not at.launcher.tasks
        gate.set()
        eventually(lambda: at.launcher.targets.get(T0) is TargetState.PAUSED, 5, "it begins")
        eventually(lambda: at.state(C) is RunState.PAUSED, 5, "so does its connector")
        assert [spec.target_state for spec in at.launcher.starts] == [TargetState.PAUSED]


def test_a_later_start_begins_in_the_state_of_its_own_configs():
    with world() as at:
        snapshot = at.connector(C, tasks=1)
        at.work.start(HERE, snapshot)
        at.work.set_target(C, TargetState.PAUSED, HERE)
        eventually(lambda: at.state(C) is RunState.PAUSED, 5, "paused")
        at.work.stop(HERE)
        at.work.start(Work((C,)), snapshot)
        eventually(lambda: at.state(C) is RunState.RUNNING, 5, "it was resumed while it ran elsewhere")
        at.work.start(Work((), (T0,)), snapshot)
        assert at.launcher.targets[T0] is TargetState.STARTED


def test_a_connector_whose_task_configs_break_is_asked_again_and_keeps_running():
    with world() as at:
        snapshot = at.connector(C)
        at.work.start(Work((C,)), snapshot)
        eventually(lambda: at.events == [Reconfigure(C)], 5, "it runs")
        at.events.clear()
        at.journal.broken_left = 1
        entry = entry_of(snapshot, C)
        assert entry is not None
        at.work.ask_task_configs(entry)
        eventually(lambda: at.events == [TaskConfigsFailed(C, "OSError: the system is away")], 5, "reported")
        assert at.state(C) is RunState.RUNNING
        at.work.ask_task_configs(entry)
        eventually(lambda: isinstance(at.events[-1], TaskConfigsGiven), 5, "the next time it works")


def test_more_tasks_than_allowed_fail_the_connector_and_are_final():
    with world() as at:
        snapshot = at.connector(C)
        at.work.start(Work((C,)), snapshot)
        eventually(lambda: at.events == [Reconfigure(C)], 5, "it runs")
        at.journal.task_count = 2
        entry = entry_of(snapshot, C)
        assert entry is not None
        at.work.ask_task_configs(entry)
        eventually(lambda: len(at.events) == 2, 5, "reported")
        assert isinstance(at.events[-1], TaskConfigsFailed)
        assert at.events[-1].is_final
        assert at.state(C) is RunState.FAILED


def test_a_connector_that_is_busy_for_too_long_to_be_asked_is_asked_to_have_given_nothing():
    with world(call_s=0.05) as at:
        snapshot = at.connector(C, hang_in="start")
        at.work.start(Work((C,)), snapshot)
        eventually(lambda: "start" in at.journal.calls, 5, "it hangs")
        entry = entry_of(snapshot, C)
        assert entry is not None
        at.work.ask_task_configs(entry)
        eventually(lambda: at.events, 5, "who waits for an answer would never ask again")
        (reported,) = at.events
        assert isinstance(reported, TaskConfigsFailed)
        assert "Another request for connector fsrc has been running for 0.05 s" in reported.why


def test_providers_that_take_their_time_hold_up_a_rebalance_once_not_once_for_each_connector():
    gate, asked = threading.Event(), list[tuple[str, float]]()

    class Slow(ConfigProvider):
        def get(self, path, keys):
            asked.append((path, time.monotonic()))
            gate.wait(20)
            return ConfigData(dict.fromkeys(keys, "x"))

    names = [f"c{number}" for number in range(4)]
    note_s = ample_s(0.1)
    with world(variables=Variables({"slow": Slow()}), times=PluginTimes(note_s=note_s)) as at:
        for name in names:
            at.connector(name, tasks=1, file=f"${{slow:{name}:word}}")
        starting = threading.Thread(
            target=at.work.start,
            args=(Work((), tuple(TaskId(name, 0) for name in names)), at.configs.snapshot()),
        )
        starting.start()
        eventually(lambda: at.launcher.starts, 10, "it waits for providers no longer than a while")
        assert sorted(name for name, _ in asked) == names
        assert asked[-1][1] - asked[0][1] < 2 * note_s, "all of them at once"
        gate.set()
        starting.join(10)
        assert {spec.id.connector for spec in at.launcher.starts} == set(names)


def test_an_error_that_nobody_expects_fails_the_connector_and_is_asked_to_who_restarted_it():
    class Broken(SamplePlugins):
        def connector_class(self, name, version=None):
            raise ValueError(f"a bug with {name}")

    reported = []
    with world(plugins=Broken()) as at:
        entry = entry_of(at.connector(C), C)
        assert entry is not None
        at.work.restart_connector(entry, reported.append)
        eventually(lambda: reported, 5, "reported")
        assert str(reported[0]) == "Connector fsrc could not be started: ValueError: a bug with source"
        assert at.state(C) is RunState.FAILED


def test_tasks_of_one_class_in_two_versions_have_each_its_own():
    class Versions(SamplePlugins):
        def connector_class(self, name, version=None):
            return type("Sample", (SampleSource,), {"version": lambda self: version or "2.0"})

        def require_version(self, plugin, wanted):
            assert plugin.version() == wanted

    old = TaskId("old", 0)
    with world(plugins=Versions()) as at:
        at.connector("old", tasks=1, connector_plugin_version="1.0")
        at.work.start(Work((), (T0,)), at.connector(C, tasks=1))
        at.work.start(Work((), (old,)), at.configs.snapshot())
        eventually(lambda: len(at.launcher.starts) == 2, 5, "both have started")
        for spec in at.launcher.starts:
            at.status.report_task(spec.id, spec.run, RunState.RUNNING, None)

        def versions():
            return [known and known.version for known in map(at.statuses.status, (T0, old))]

        eventually(lambda: versions() == ["2.0", "1.0"], 5, "each task has the version that runs")


def test_orders_that_come_after_the_end_are_not_carried_out():
    with world() as at:
        snapshot = at.connector(C)
        at.work.close(1)
        at.work.start(Work((C,)), snapshot)
        at.work.stop(Work((C,)))
        at.work.set_target(C, TargetState.PAUSED, Work((C,)))
        assert at.journal.calls == []


class _LateAnswers(MemoryLauncher):
    """Tells its slot to stop tasks at once, and hears that they are left behind when the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.never_stop = {T0}
        self.gate = threading.Event()
        self.answers = 0

    def stop_tasks(self, ids, timeout_s, *, is_cut_off=False):
        left = super().stop_tasks(ids, timeout_s)
        self.gate.wait(ample_s(20))
        self.answers += 1
        return left


def _threads(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(name)]
