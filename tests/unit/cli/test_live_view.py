"""The page of the live view, and the rates in it."""

from __future__ import annotations

import io
import logging
import re
import time

from rich.console import Console

from kconnect.errors import ConnectError
from kconnect.model import (
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.herder.health.reasons import Health
from kconnect.runtime.metrics import Moves
from kconnect_cli.screen.live_view import LiveView, PageContent, page
from kit.ages import Age

TASK = TaskId("lines", 0)


def status(name, state=RunState.RUNNING, trace=None, condition=None):
    task = TaskState(0, state, "w", trace, condition=condition)
    return ConnectorStatus(name, ConnectorState(RunState.RUNNING, "w"), (task,), ConnectorType.SOURCE)


def drawn(facts, height=20, width=100):
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(page(facts, height))
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


def test_a_row_has_state_rate_sum_and_errors():
    facts = PageContent("http://w:1", 3725, [status("lines")], {TASK: Moves(98765.4, 1234567, 2)})
    lines = drawn(facts)
    assert lines[0].startswith("http://w:1  up 1:02:05  1 connector, tasks: 1 RUNNING")
    assert lines[3].split() == ["lines", "0", "RUNNING", "98,765", "1,234,567", "2"]


def test_a_worker_that_starts_says_what_it_waits_for_before_it_has_any_connector():
    lines = drawn(
        PageContent("localhost:9092 starting", 3, waits_for="Spark is starting (3 s). Waiting for Kafka at b:1 (2 s).")
    )
    assert lines[1] == "Starting: Spark is starting (3 s). Waiting for Kafka at b:1 (2 s)."
    assert not any("No connectors yet" in line for line in lines)
    lines = drawn(PageContent("w", 3, [status("lines", RunState.UNASSIGNED)], waits_for="Spark is starting (9 s)."))
    assert lines[1] == "Starting: Spark is starting (9 s)."
    assert lines[4].split()[:3] == ["lines", "0", "UNASSIGNED"]


def test_a_view_has_something_to_show_before_the_workers_code_is_loaded_and_at_every_step_of_its_start():
    handler, worker, age = logging.StreamHandler(io.StringIO()), StartingWorker(), Age(0)
    view = LiveView(handler, io.StringIO(), "localhost:9092")
    age.assert_reported(view.facts().waits_for, "The worker is loading (AGE).")
    view.show(worker)
    age.assert_reported(view.facts().waits_for, "The worker is loading (AGE).")
    with worker.health.starting("Spark is starting"):
        age.assert_reported(view.facts().waits_for, "Spark is starting (AGE).")
        assert view.facts().where == "localhost:9092 starting"


class StartingWorker:
    """One that has no herder yet."""

    def __init__(self):
        self.health = Health()

    def statuses(self):
        raise ConnectError("The worker is not started")

    def moves(self):
        return {}

    def outage(self):
        return None


def test_a_task_that_has_not_reported_has_dashes():
    assert drawn(PageContent("w", 0, [status("lines", RunState.UNASSIGNED)]))[3].split()[2:] == [
        "UNASSIGNED",
        "-",
        "-",
        "-",
    ]


def test_a_long_reason_does_not_push_the_columns_away():
    facts = PageContent("w", 0, [status("lines", RunState.FAILED, "java.io.IOException: " + "x" * 300)])
    assert drawn(facts, width=60)[3].startswith("lines      0     FAILED")


def test_what_failed_is_seen_and_the_log_has_room_though_there_are_many():
    many = [*(status(f"c{number}") for number in range(200)), status("bad", RunState.FAILED, "boom")]
    entry = "[2026-01-31 12:00:00,123] ERROR [bad|task-0] it broke (kconnect.runtime.pipeline:42)"
    lines = drawn(PageContent("w", 0, many, log_lines=["older", entry]))
    assert lines[3].split()[:3] == ["bad", "0", "FAILED"]
    assert ".. and 191 more: connect connectors status" in lines
    assert lines[-1] == "12:00:00 ERROR [bad|task-0] it broke"


def test_a_task_that_does_not_get_on_says_so_and_comes_before_those_that_do():
    retrying = TaskCondition(Condition.RETRYING, int((time.time() - 34) * 1000), 12, "Lines.poll() raised X: no route")
    many = [*(status(f"c{number}") for number in range(200)), status("bad", condition=retrying)]
    facts = PageContent("w", 0, many, {TaskId("bad", 0): Moves(0.0, 0, 0)})
    lines = drawn(facts, width=140)
    assert lines[3].split()[:6] == ["bad", "0", "RUNNING", "0", "0", "0"], "what is tried again has not failed for good"
    assert re.search(r"retrying for \d\d s, 12 failed attempts: Lines\.poll\(\) raised X: no route", lines[3])


def test_a_healthy_task_has_nothing_to_say():
    healthy = TaskCondition(Condition.HEALTHY, 0)
    assert drawn(PageContent("w", 0, [status("lines", condition=healthy)]))[3].split()[2:] == ["RUNNING", "-", "-", "-"]
