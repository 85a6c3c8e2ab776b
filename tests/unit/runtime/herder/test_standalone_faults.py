"""What goes wrong under the standalone herder: plugins that raise or hang, slots that die, reports that come late."""

from __future__ import annotations

import re
import threading

import pytest

from kconnect.errors import ConflictError, ConnectError, TimedOutError
from kconnect.model import ConnectorOffset, RunState, TargetState, TaskId
from kit.herders import config, herder_bench
from kit.pace import ample_s, now
from kit.waiting import eventually

T0 = TaskId("fsrc", 0)


@pytest.fixture
def bench():
    with herder_bench() as found:
        yield found


@pytest.fixture
def impatient():
    """Waits for no plugin's stop."""
    with herder_bench(stop_s=0.2) as found:
        yield found


def test_tasks_are_unassigned_until_a_slot_is_up():
    with herder_bench(is_up=False) as bench:
        bench.create()
        assert bench.states() == ("RUNNING", ["UNASSIGNED"])
        bench.launcher.bring_slot_up()
        assert bench.states() == ("RUNNING", ["RUNNING"])


def test_tasks_of_a_lost_slot_are_unassigned_and_run_again_when_it_is_back(bench):
    bench.create()
    bench.launcher.lose_slot()
    assert bench.states() == ("RUNNING", ["UNASSIGNED"])
    bench.launcher.bring_slot_up()
    assert bench.states() == ("RUNNING", ["RUNNING"])
    assert len(bench.launcher.starts) == 1


def test_a_failed_task_shows_its_trace_and_leaves_the_others_alone(bench):
    bench.create(tasks="2", tasks_max="2")
    bench.launcher.fail_task(T0, "Traceback: boom")
    assert bench.states() == ("RUNNING", ["FAILED", "RUNNING"])
    assert bench.herder.task_status(T0).trace == "Traceback: boom"
    bench.herder.restart_task(T0)
    assert bench.states() == ("RUNNING", ["RUNNING", "RUNNING"])
    assert bench.herder.task_status(T0).trace is None


def test_reports_of_an_earlier_run_are_dropped(bench):
    bench.create()
    bench.herder.restart_task(T0)
    bench.launcher.events.task_status(T0, 1, RunState.FAILED, "from the run before")
    assert bench.states() == ("RUNNING", ["RUNNING"])


def test_reports_of_removed_tasks_are_dropped(bench):
    bench.create()
    bench.herder.delete_connector("fsrc")
    bench.launcher.events.task_status(T0, 1, RunState.RUNNING, None)
    assert bench.herder.connectors() == []


def test_a_connector_that_raises_in_start_is_failed_with_trace_and_kept(bench):
    with pytest.raises(ConnectError, match=r"^Failed to transition connector fsrc to state STARTED$") as raised:
        bench.create(raise_in="start")
    assert raised.value.hint == "RuntimeError: no start today"
    state = bench.herder.connector_status("fsrc").connector
    assert state.state is RunState.FAILED
    assert "RuntimeError: no start today" in (state.trace or "")
    assert bench.herder.connectors() == ["fsrc"]
    assert bench.launcher.starts == []


def test_an_unknown_class_fails_the_connector(bench):
    with pytest.raises(ConnectError, match="Failed to transition connector fsrc"):
        bench.create(kind="no.Such")
    assert bench.states() == ("FAILED", [])


def test_a_failed_connector_can_not_be_resumed_but_stopped_and_then_resumed(bench):
    with pytest.raises(ConnectError):
        bench.create(raise_in="start")
    bench.herder.set_target_state("fsrc", TargetState.STARTED)
    assert bench.states() == ("FAILED", [])
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    assert bench.states() == ("STOPPED", [])
    bench.change()
    bench.herder.set_target_state("fsrc", TargetState.STARTED)
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), within_s=5, why="resumed with a good config")


def test_a_good_config_heals_a_failed_connector(bench):
    with pytest.raises(ConnectError):
        bench.create(raise_in="start")
    bench.change()
    assert bench.states() == ("RUNNING", ["RUNNING"])
    assert bench.herder.connector_status("fsrc").connector.trace is None


def test_a_connector_that_raises_in_task_configs_is_failed_and_reported(bench):
    with pytest.raises(ConnectError, match="Connector fsrc failed to give task configs"):
        bench.create(raise_in="task_configs")
    assert "no task_configs today" in (bench.herder.connector_status("fsrc").connector.trace or "")


def test_a_connector_whose_source_is_not_ready_is_asked_again(bench):
    bench.journal.retriable_left = 2
    bench.create()
    eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), within_s=5, why="third time")


def test_an_error_a_connector_raises_by_itself_fails_it_and_not_its_tasks(bench):
    bench.create()
    bench.journal.last.context.raise_error(ValueError("the source went away"))
    assert bench.states() == ("FAILED", ["RUNNING"])
    assert "ValueError: the source went away" in (bench.herder.connector_status("fsrc").connector.trace or "")


def test_a_connector_that_raises_in_stop_counts_as_stopped(bench):
    bench.create(raise_in="stop")
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    assert bench.states() == ("STOPPED", [])


def test_a_connector_that_raises_in_stop_fails_when_it_is_paused(bench):
    bench.create(raise_in="stop")
    bench.herder.set_target_state("fsrc", TargetState.PAUSED)
    assert bench.states() == ("FAILED", ["PAUSED"])


def test_a_connector_that_raises_in_stop_can_be_deleted(bench):
    bench.create(raise_in="stop")
    bench.herder.delete_connector("fsrc")
    assert bench.herder.connectors() == []


def test_a_start_that_never_returns_is_failed_with_the_place_it_hangs_at():
    call_s = ample_s(0.1)  # within which its thread has come to that place
    message = f"start of connector fsrc did not return within {call_s:g} s: it is at "
    with herder_bench(call_s=call_s) as bench:
        with pytest.raises(
            TimedOutError, match=rf"{re.escape(message)}.*sample_connectors.py:\d+ in wait: self._event"
        ):
            bench.create(hang_in="start")
        state = bench.herder.connector_status("fsrc").connector
    assert state.state is RunState.FAILED
    assert "sample_connectors.py" in (state.trace or "")
    assert "gate.wait()" in (state.trace or "")
    assert (state.trace or "").startswith(message)
    assert "_HeldUp" not in (state.trace or "")
    assert "connectors/runner.py" not in (state.trace or ""), "only what the author wrote, and what that called"


def in_background(action):
    """Runs a request that is going to fail, on a thread; gives the thread and the list its error comes into."""
    errors: list[ConnectError] = []

    def run():
        try:
            action()
        except ConnectError as err:
            errors.append(err)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_a_connector_that_hangs_holds_up_no_other():
    with herder_bench(call_s=600) as bench:
        hanging, errors = in_background(lambda: bench.create("bad", hang_in="start"))
        eventually(lambda: "start" in bench.journal.calls, within_s=4, why="it hangs")
        bench.create("good")
        bench.herder.set_target_state("good", TargetState.STOPPED)
        bench.herder.delete_connector("good")
        assert bench.herder.connectors() == ["bad"]
        assert hanging.is_alive(), "the good one waited for the bad one"
        bench.journal.gate.open()
        hanging.join(10)
        assert not hanging.is_alive()
        assert errors == []


def test_a_second_request_for_a_connector_that_hangs_gives_up():
    with herder_bench(call_s=ample_s(0.1), stop_s=0.2) as bench:
        hanging, errors = in_background(lambda: bench.create(hang_in="task_configs"))
        eventually(lambda: "task_configs" in bench.journal.calls, within_s=4, why="it hangs")
        waiting, refused = in_background(lambda: bench.herder.restart_connector("fsrc"))
        hanging.join(ample_s(10))
        waiting.join(ample_s(10))
        assert "task_configs of connector fsrc did not return" in str(errors[0])
        assert isinstance(refused[0], TimedOutError)


def test_a_connector_that_hangs_in_stop_is_left_behind_and_a_new_one_started(impatient):
    impatient.create(hang_in="stop")
    old = impatient.journal.last
    impatient.herder.set_target_state("fsrc", TargetState.STOPPED)
    assert impatient.states() == ("STOPPED", [])
    impatient.herder.set_target_state("fsrc", TargetState.STARTED)
    eventually(lambda: impatient.states() == ("RUNNING", ["RUNNING"]), within_s=5, why="a new instance runs")
    assert impatient.journal.last is not old
    impatient.journal.gate.open()


def test_a_herder_stops_in_time_though_connectors_hang(impatient):
    for number in range(5):
        impatient.create(f"c{number}", hang_in="stop")
    began = now()
    impatient.herder.stop(1)
    assert now() - began < 4, "five that hang are waited for side by side, for a second"


def test_a_task_left_behind_is_logged(bench, caplog):
    bench.create()
    bench.launcher.never_stop.add(T0)
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    assert "abandoned, fenced off: fsrc-0" in caplog.text
    assert bench.states() == ("STOPPED", [])


def test_a_task_left_behind_can_not_commit_offsets(bench):
    bench.create()
    bench.launcher.events.commit_offsets("fsrc", [ConnectorOffset({"f": "x"}, {"n": 1})])
    assert bench.launcher.events.read_offsets("fsrc", [{"f": "x"}]) == [{"n": 1}]
    bench.herder.set_target_state("fsrc", TargetState.STOPPED)
    with pytest.raises(ConflictError, match="has no tasks"):
        bench.launcher.events.commit_offsets("fsrc", [ConnectorOffset({"f": "x"}, {"n": 2})])
    assert bench.launcher.events.read_offsets("fsrc", [{"f": "x"}]) == [{"n": 1}]


def test_task_configs_that_are_no_text_are_reported(bench, monkeypatch):
    monkeypatch.setattr("kit.sample_connectors.SampleSource.task_configs", lambda self, n: [{"n": 1}])
    with pytest.raises(ConnectError, match="gave task 0 the config 'n' of type int: keys and values must be str"):
        bench.herder.put_connector("fsrc", config("fsrc"), replace=False)


def test_a_task_config_that_is_none_is_reported(bench, monkeypatch):
    monkeypatch.setattr("kit.sample_connectors.SampleSource.task_configs", lambda self, n: [None])
    with pytest.raises(ConnectError, match=r"task_configs\(\) of SampleSource gave task 0 None, not a dict"):
        bench.herder.put_connector("fsrc", config("fsrc"), replace=False)


def test_half_a_surrogate_pair_in_a_name_of_a_task_config_is_refused_and_kept_in_a_value(bench, monkeypatch):
    """Such a record in the config topic can be read by nobody, and the connector would wait for tasks for good."""
    monkeypatch.setattr("kit.sample_connectors.SampleSource.task_configs", lambda self, n: [{"a\ud800": "b"}])
    with pytest.raises(ConnectError, match=r"gave task 0 the setting 'a\\ud800', whose name has half a surrogate pair"):
        bench.create()
    assert bench.states()[0] == "FAILED"
    monkeypatch.setattr("kit.sample_connectors.SampleSource.task_configs", lambda self, n: [{"a": "b\ud800"}])
    bench.create(name="other")
    assert bench.herder.task_infos("other")[0].config["a"] == "b\ud800"


def test_task_configs_that_are_no_list_are_reported(bench, monkeypatch):
    monkeypatch.setattr("kit.sample_connectors.SampleSource.task_configs", lambda self, n: None)
    with pytest.raises(ConnectError, match=r"task_configs\(\) of SampleSource gave None, not a list"):
        bench.herder.put_connector("fsrc", config("fsrc"), replace=False)


@pytest.mark.parametrize("given", [None, "SampleTask", object()])
def test_a_task_class_that_is_none_is_reported(bench, monkeypatch, given):
    monkeypatch.setattr("kit.sample_connectors.SampleSource.task_class", lambda self: given)
    with pytest.raises(ConnectError, match=r"task_class\(\) of SampleSource gave .*, not a class of tasks"):
        bench.herder.put_connector("fsrc", config("fsrc"), replace=False)
