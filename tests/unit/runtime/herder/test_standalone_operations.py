"""The standalone herder's operations on connectors that run: patches, restarts by plan, topics, loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kconnect.api.config_key import MayPass
from kconnect.errors import BadRequestError, ConfigProblem, NotFoundError
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.herder.validation.connector_checks import InvalidConnectorError
from kit.herders import Bench, config, herder_bench
from kit.waiting import eventually

TASK = TaskId("fsrc", 0)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with herder_bench() as made:
        yield made


def test_a_patch_adds_changes_and_removes(bench: Bench) -> None:
    bench.create(color="red", size="1")
    info = bench.herder.patch_connector("fsrc", {"color": "blue", "size": None, "extra": "x"})
    assert info.config == config("fsrc", color="blue", extra="x")
    assert bench.herder.connector_config("fsrc") == info.config


def test_a_patch_that_does_not_pass_the_checks_changes_nothing(bench: Bench) -> None:
    bench.create(color="red")
    with pytest.raises(BadRequestError):
        bench.herder.patch_connector("fsrc", {"bad": "yes", "color": "blue"})
    assert bench.herder.connector_config("fsrc") == config("fsrc", color="red")
    with pytest.raises(NotFoundError, match="Connector none not found"):
        bench.herder.patch_connector("none", {})


def test_a_patch_is_made_of_what_another_request_left_meanwhile() -> None:
    """The checks of a patch run outside of the connector's order: a change in between must not be lost."""
    benches: list[Bench] = []

    def interfere(props: object) -> None:
        if isinstance(props, dict) and props.get("patched") and "late" not in props:
            benches[0].change(late="kept")

    with herder_bench(validate=interfere) as bench:
        benches.append(bench)
        bench.create(color="red")
        assert bench.herder.patch_connector("fsrc", {"patched": "yes"}).config == config(
            "fsrc", late="kept", patched="yes"
        )


def test_a_server_that_is_away_refuses_a_creation_and_no_start_from_a_file() -> None:
    problems = [ConfigProblem("connection.url", None, MayPass("The database cannot be reached"))]

    def check(props: object) -> None:
        raise InvalidConnectorError("invalid", tuple(problems))

    with herder_bench(validate=check) as bench:
        with pytest.raises(InvalidConnectorError):
            bench.create()
        bench.herder.put_connector("fsrc", config("fsrc"), replace=False, is_start=True)
        assert bench.states()[0] == "RUNNING"
        problems.append(ConfigProblem("connection.url", None, "The database refuses the connection"))
        with pytest.raises(InvalidConnectorError):
            bench.herder.put_connector("other", config("other"), replace=False, is_start=True)


def test_a_patch_keeps_the_target_state(bench: Bench) -> None:
    bench.create(state=TargetState.PAUSED)
    bench.herder.patch_connector("fsrc", {"color": "blue"})
    assert bench.states()[0] == "PAUSED"


def test_a_restart_with_tasks_runs_them_anew_and_answers_restarting(bench: Bench) -> None:
    bench.create()
    before = bench.launcher.tasks[TASK].run
    status = bench.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=False)
    assert (status.connector.state, {task.state for task in status.tasks}) == (
        RunState.RESTARTING,
        {RunState.RESTARTING},
    )
    assert bench.launcher.tasks[TASK].run > before
    assert bench.states()[0] == "RUNNING"


def test_a_restart_of_what_failed_leaves_the_healthy_alone(bench: Bench) -> None:
    bench.create()
    run = bench.launcher.tasks[TASK].run
    bench.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=True)
    assert bench.launcher.tasks[TASK].run == run
    bench.launcher.fail_task(TASK, "boom")
    status = bench.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=True)
    assert (status.connector.state, status.tasks[0].state, status.tasks[0].trace) == (
        RunState.RUNNING,
        RunState.RESTARTING,
        "boom",
    )
    assert bench.launcher.tasks[TASK].run > run
    assert bench.states()[1][0] == "RUNNING"


def test_tasks_show_restarting_until_their_slot_reports_them() -> None:
    with herder_bench(is_up=False) as bench:
        bench.create()
        bench.herder.restart_by_plan("fsrc", include_tasks=True, only_failed=False)
        assert bench.states()[1][0] == "RESTARTING"
        bench.launcher.bring_slot_up()
        eventually(lambda: bench.states()[1][0] == "RUNNING", 10, "the task runs")


def test_topics_outlive_other_configs_and_end_with_a_reset_or_the_connector(bench: Bench) -> None:
    bench.create()
    for topic in ("b", "a", "b"):
        bench.launcher.use_topic(TASK, topic)
    bench.launcher.use_topic(TaskId("gone", 0), "a")
    bench.change(color="blue")
    assert bench.herder.connector_topics("fsrc") == ["a", "b"]
    bench.herder.reset_connector_topics("fsrc")
    assert (bench.herder.connector_topics("fsrc"), bench.launcher.forgotten) == ([], ["fsrc"])
    bench.launcher.use_topic(TASK, "a")
    assert bench.herder.connector_topics("fsrc") == ["a"]
    bench.herder.delete_connector("fsrc")
    bench.create()
    assert bench.herder.connector_topics("fsrc") == []


@pytest.mark.parametrize("name", ["connector_topics", "reset_connector_topics"])
def test_topics_of_an_unknown_connector_are_not_found(bench: Bench, name: str) -> None:
    with pytest.raises(NotFoundError, match="Connector gone not found"):
        getattr(bench.herder, name)("gone")


def test_a_level_is_set_here_and_wherever_tasks_run(bench: Bench) -> None:
    assert bench.herder.set_logger("test.operations", logging.DEBUG, whole_cluster=False) == ["test.operations"]
    assert bench.herder.logger("test.operations").level == "DEBUG"
    assert bench.herder.loggers()["test.operations"].level == "DEBUG"
    assert bench.launcher.log_levels == [("test.operations", logging.DEBUG)]
    with pytest.raises(NotFoundError, match=r"Logger test\.nowhere not found\."):
        bench.herder.logger("test.nowhere")


def test_what_only_clusters_do_is_refused_in_javas_words(bench: Bench) -> None:
    with pytest.raises(BadRequestError, match="standalone mode does not support externally setting task"):
        bench.herder.put_task_configs("fsrc", [{}])
    with pytest.raises(BadRequestError, match="standalone mode does not support exactly-once"):
        bench.herder.fence_zombies("fsrc")
