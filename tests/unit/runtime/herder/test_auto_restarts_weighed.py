"""Which failures are weighed when an event comes: those of which something changed."""

from __future__ import annotations

from dataclasses import replace

from kconnect.model import (
    TaskId,
)
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.decisions.auto_restarts import (
    AutoRestarts,
)
from kconnect.runtime.herder.decisions.failures import NoHelp, failure_of
from kconnect.runtime.storage.config_topic import (
    PartRestarts,
)
from kconnect.runtime.storage.status_topic import Subject
from kit.failing_member import GONE, KEYS, LONG_MS, SETTINGS, T0, fail, leader, restarts


class CountedBudgets:
    """Implements Budgets: counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def settings(self, connector: str) -> RestartSettings:
        self.asked += 1
        return SETTINGS

    def most(self, connector: str) -> int:
        return self.settings(connector).max_restarts

    def why_none(self, connector: str) -> NoHelp | None:
        return None

    def restarts(self, connector: str) -> tuple[PartRestarts, ...]:
        self.asked += 1
        return ()

    def may_run(self, subject: Subject) -> bool:
        self.asked += 1
        return True

    def is_here(self, worker_id: str) -> bool:
        return True


def test_what_no_restart_helps_costs_an_event_nothing_once_it_was_reported() -> None:
    """Each event comes by: of a thousand that lack a class the work grew with the square."""
    restarts, budgets = AutoRestarts(), CountedBudgets()
    for number in range(50):
        restarts.fails(f"c{number}", replace(GONE, no_help=NoHelp.CLASS), 0)
    assert len(restarts.notices(0, budgets)) == 50
    budgets.asked = 0
    assert restarts.notices(1, budgets) == []
    assert restarts.restart(1, budgets) is None
    assert restarts.next_due_ms(1, budgets) is None
    assert budgets.asked == 0


def test_what_waits_for_its_restart_is_weighed_again_when_its_connector_changed_and_not_before() -> None:
    """Each event comes by: a thousand that fail one after the other took the leader 36 s of CPU."""
    restarts, budgets = AutoRestarts(), CountedBudgets()
    for number in range(50):
        restarts.fails(f"c{number}", GONE, 0)
    assert len(restarts.notices(0, budgets)) == 50
    due_ms = restarts.next_due_ms(0, budgets)
    budgets.asked = 0
    assert restarts.notices(1, budgets) == []
    assert restarts.restart(1, budgets) is None
    assert restarts.next_due_ms(1, budgets) == due_ms
    assert budgets.asked == 0
    restarts.weigh_again(lambda name: name == "c7")
    assert restarts.notices(2, budgets) == []
    assert restarts.next_due_ms(2, budgets) == due_ms
    assert 0 < budgets.asked < 10


def test_a_config_that_comes_while_its_task_waits_decides_about_it_and_about_no_other() -> None:
    member = leader()
    member.connector("d", 1, **KEYS)
    member.read()
    fail(member, GONE, T0, TaskId("d", 0))
    member.connector("c", 1, **{**KEYS, "errors.restart.max": "0"})
    assert not restarts(member.read())
    (request,) = restarts(member.wait(LONG_MS))
    assert request.connector == "d"


def test_a_trace_is_read_once_whoever_asks() -> None:
    trace = "Connector c failed: No module named 'x'. Since 2026-01-01 00:00:00 UTC.\n\nTraceback .."
    one, other = failure_of("w:1", trace), failure_of("w:2", trace, 7)
    assert (one.no_help, one.said) == (NoHelp.CLASS, "Connector c failed: No module named 'x'.")
    assert (other.worker_id, other.at_ms) == ("w:2", 7)
    assert one.said is other.said


def test_a_restart_that_could_not_be_written_says_nothing_about_that_of_another() -> None:
    restarts, budgets = AutoRestarts(), CountedBudgets()
    for name in "cd":
        restarts.fails(name, GONE, 0)
    first, second = (restarts.restart(5_000, budgets) for _ in "cd")
    assert first is not None
    assert second is not None
    assert {first.connector, second.connector} == {"c", "d"}
    restarts.refused(second.connector, 5_000)
    again = restarts.restart(5_000 + LONG_MS, budgets)
    assert again is not None
    assert again.connector == second.connector
    assert restarts.restart(5_000 + LONG_MS, budgets) is None
