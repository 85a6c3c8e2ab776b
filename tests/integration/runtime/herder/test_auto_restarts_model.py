"""Whatever happens while parts fail: restarts keep to budgets, to eight at a time and to what may run, and the trace
of it can be replayed.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConnectError
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.herder.decisions.auto_restarts import AT_ONCE, NoticeKind
from kconnect.runtime.herder.decisions.events import StatusesRead
from kconnect.runtime.herder.decisions.failures import Failure, NoHelp
from kconnect.runtime.herder.decisions.instructions import Announce, Instruction, Write
from kconnect.runtime.herder.decisions.writes import ForAutoRestart, PutRestart
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.config_topic import RestartRequested
from kit.examples import examples
from kit.herder_state import Member
from kit.trace_replay import replay

MOST, WINDOW_MS, TASKS = 2, 60_000, 2
KEYS = {
    "errors.restart.max": str(MOST),
    "errors.restart.backoff.ms": "1000",
    "errors.restart.window.ms": str(WINDOW_MS),
}
NAMES = ("a",)
STEPS = (
    "fail",
    "fail",
    "fail for good",
    "fail all",
    "run",
    "wait",
    "wait",
    "wait long",
    "pause",
    "start",
    "restart",
    "put",
    "remove",
)
STEPS += ("fail and wait",) * 6
STEPS += ("rebalance", "lose", "lead anew", "broken write")


class World:
    """A leader, the tasks of two connectors, and what its restarts have been."""

    def __init__(self) -> None:
        self.member = Member()
        for name in NAMES:
            self.member.connector(name, TASKS, **KEYS)
        self.member.settled(NAMES, [TaskId(name, number) for name in NAMES for number in range(TASKS)])
        self.failed: dict[TaskId, Failure] = {}
        self.restarted: dict[TaskId, list[int]] = {}
        """When each was restarted since its budget was last full for sure."""
        self.open: set[TaskId] = set()
        self.breaks = False
        self.given_up: Counter[TaskId] = Counter()

    def do(self, reported: list[Instruction]) -> None:
        """Carry out what was decided, as long as it leads to more."""
        while reported:
            instruction = reported.pop(0)
            if isinstance(instruction, Announce) and instruction.notice.kind is NoticeKind.GIVEN_UP:
                assert instruction.notice.restarts >= MOST
            if not isinstance(instruction, Write) or not isinstance(instruction.target, ForAutoRestart):
                continue
            assert isinstance(instruction.write, PutRestart)
            if self.breaks:
                self.breaks = False
                reported += self.member.written(instruction, ConnectError("the broker is away"))
                continue
            self.restart(instruction.write.request)
            self.member.store.put_restart_request(instruction.write.request)
            reported += [*self.member.written(instruction), *self.member.read()]

    def restart(self, request: RestartRequested) -> None:
        member, name = self.member, request.connector
        assert request.automatic is not None
        assert member.snapshot.contains(name)
        assert member.snapshot.target_state(name) is TargetState.STARTED
        tasks = [TaskId(name, part) for part in request.automatic.parts]
        assert len(tasks) + len(self.open) <= AT_ONCE
        for task in tasks:
            assert task in self.failed, f"{task} is well"
            assert self.failed[task].no_help is None
            recent = [at for at in self.restarted.get(task, []) if at + WINDOW_MS > member.now_ms]
            assert len(recent) < MOST, f"{task} was restarted {len(recent)} times within the window"
            self.restarted.setdefault(task, []).append(member.now_ms)
            self.open.add(task)

    def stands(self, task: TaskId, state: RunState | None) -> None:
        if self.failed.pop(task, None) is not None and task not in self.open:
            self.restarted.pop(task, None)  # somebody else has restarted it
        if state in (None, RunState.RUNNING):
            self.open.discard(task)
        self.do(self.member.step(StatusesRead((), ((task, state),))))

    def fail(self, task: TaskId, failure: Failure) -> None:
        self.open.discard(task)
        self.failed[task] = failure
        self.do(self.member.step(StatusesRead(((task, failure),))))

    def step(self, step: str, name: str, number: int) -> None:
        member, task = self.member, TaskId(name, number)
        exists = member.snapshot.contains(name)
        match step:
            case "fail" | "fail for good" if exists:
                self.fail(task, Failure("w", f"burnt at {member.now_ms}", NoHelp.CONFIG if "good" in step else None))
            case "fail all" if exists:
                for each in range(TASKS):
                    self.fail(TaskId(name, each), Failure("w", f"burnt at {member.now_ms}"))
            case "fail and wait" if exists:
                self.step("fail", name, number)
                self.step("wait", name, number)
            case "run":
                self.stands(task, RunState.RUNNING)
            case "wait" | "wait long":
                self.do(member.wait(5_000 if step == "wait" else 45_000))
                self.open = {each for each in self.open if self.restarted[each][-1] + 60_000 > member.now_ms}
            case "pause" | "start" if exists:
                member.target(name, TargetState.PAUSED if step == "pause" else TargetState.STARTED)
                self.do(member.read())
            case "restart" | "put" if exists:
                if step == "restart":
                    member.store.put_restart_request(RestartRequested(name, only_failed=True, include_tasks=True))
                else:
                    member.store.put_connector_config(name, {"name": name, "v": str(member.now_ms), **KEYS})
                for each in [each for each in self.restarted if each.connector == name]:
                    del self.restarted[each]
                    self.open.discard(each)
                self.do(member.read())
            case "remove" if exists:
                member.store.remove_connector_config(name)
                self.do(member.read())
                for each in range(TASKS):
                    self.stands(TaskId(name, each), None)
                    self.restarted.pop(TaskId(name, each), None)
            case "broken write":
                self.breaks = True
            case "rebalance" | "lose" | "lead anew":
                self.rejoin(step)
            case _:
                pass

    def rejoin(self, step: str) -> None:
        from kconnect.runtime.herder.decisions.events import Claimed

        member = self.member
        if step == "lose":
            self.do(member.step(Lost("for the test")))
        self.do(member.step(Joining()))
        self.do(member.place())
        self.do(member.step(Claimed()))
        self.do(member.step(StatusesRead(tuple(self.failed.items()), is_all=True)))


@examples(60)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES), st.integers(0, TASKS - 1)), min_size=5, max_size=40
    )
)
def test_restarts_keep_to_their_budgets_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    world = World()
    for step, name, number in steps:
        world.step(step, name, number)
        due_ms = world.member.state.next_due_ms()
        assert due_ms is None or due_ms > world.member.now_ms - 5_000, "it would look again and again for nothing"
    replay(world.member.state.trace())
