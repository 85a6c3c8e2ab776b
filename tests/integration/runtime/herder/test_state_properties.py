"""Whatever the order in which a member reads configs, joins and is given work: in the end it runs what is its own, with
the configs of now, and nothing is started twice on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.events import ConfigsChanged
from kconnect.runtime.herder.decisions.facts import Phase
from kconnect.runtime.herder.decisions.instructions import CatchUp, Instruction, RequestRejoin, StartWork, StopWork
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kit.examples import examples
from kit.herder_state import Member
from kit.trace_replay import replay

NAMES = ("a", "b")
STEPS = (
    "put",
    "tasks",
    "more tasks",
    "no tasks",
    "remove",
    "pause",
    "read",
    "read some",
    "wait",
    "join",
    "lag",
    "lag anew",
    "lose",
)


class World:
    """One follower, its config topic, and a table of what its orders have running."""

    def __init__(self, version: int) -> None:
        self.member = Member(leads=False, version=version).settled()
        self.version = version
        self.running: dict[str | TaskId, Mapping[str, str] | None] = {}
        self.changed: dict[str | TaskId, Mapping[str, str] | None] = {}
        """What was stopped for the news of its config, with the config it had."""
        self.wants_to_join = False
        self.written = 0

    def do(self, reported: Sequence[Instruction]) -> None:
        """Carry out what was decided."""
        for instruction in reported:
            match instruction:
                case StopWork(work, why):
                    for part in parts(work):
                        assert part in self.running, f"{part} is stopped twice"
                        config = self.running.pop(part)
                        if "changed" in why or "deleted" in why:
                            self.changed[part] = config
                case StartWork(work, snapshot):
                    for part in parts(work):
                        assert part not in self.running, f"{part} is started twice"
                        config = config_of(snapshot, part)
                        assert config is not None, f"{part} is started without a config"
                        assert config != self.changed.pop(part, None), f"{part} is restarted with the config it had"
                        self.running[part] = config
                case RequestRejoin():
                    self.wants_to_join = True
                case CatchUp():
                    self.do(self.member.caught_up())
        facts = self.member.state.facts
        assert {*facts.running_connectors, *facts.running_tasks} == self.running.keys()

    def step(self, step: str, name: str) -> None:
        member, store = self.member, self.member.store
        self.written += 1
        match step:
            case "put":
                store.put_connector_config(name, {"name": name, "v": str(self.written)})
            case "tasks" | "more tasks" | "no tasks":
                count = {"tasks": 1, "more tasks": 2, "no tasks": 0}[step]
                if member.snapshot.contains(name):
                    store.put_task_configs(name, [{"v": str(self.written)} for _ in range(count)])
            case "remove":
                store.remove_connector_config(name)
            case "pause":
                store.put_target_state(name, TargetState.PAUSED)
            case "read":
                self.do(member.read())
            case "read some":  # a drained queue ends before the snapshot that is taken after it
                changes, member._changes = member._changes[:2], member._changes[2:]
                self.do(member.step(ConfigsChanged(tuple(changes), member.snapshot)))
            case "wait":
                self.do(member.wait(2_000))
            case "lose":
                self.do(member.step(Lost("for the test")))
            case _:
                self.join(name, step)

    def join(self, name: str | None, step: str = "join") -> None:
        """A rebalance gives it everything, or all but what is of one connector; maybe it lags behind the configs."""
        member, self.wants_to_join = self.member, False
        self.do(member.step(Joining()))
        reported = member.snapshot
        if step == "lag anew":
            member.store.remove_connector_config("a")
        if step != "join":
            member.store.put_connector_config("a", {"name": "a", "v": f"lag {self.written}"})
            member.store.put_task_configs("a", [{"v": f"lag {self.written}"}])
        at = member.snapshot
        wanted = {part for part in configured(at) if connector_of(part) != name}
        owned = set() if self.version == 0 else set(parts(member.state.facts.owned))
        added = work_of(wanted - owned)
        gone = Work() if self.version == 0 else work_of(owned - wanted)
        self.do(member.place(added.connectors, added.tasks, revoked=gone, offset=at.offset, reported=reported))

    def come_to_rest(self) -> None:
        """Read all there is, and join as long as the member itself asks for it."""
        for _ in range(10):
            self.do(self.member.read())
            self.do(self.member.wait(2_000))
            if not self.wants_to_join and self.member.state.facts.phase is Phase.STABLE:
                return
            self.join(None)
        raise AssertionError("it joins again and again")


def parts(work: Work) -> list[str | TaskId]:
    return [*work.connectors, *work.tasks]


def connector_of(part: str | TaskId) -> str:
    return part.connector if isinstance(part, TaskId) else part


def work_of(found: set[str | TaskId]) -> Work:
    return Work(
        tuple(sorted(part for part in found if isinstance(part, str))),
        tuple(sorted(part for part in found if isinstance(part, TaskId))),
    )


def configured(snapshot: ClusterSnapshot) -> set[str | TaskId]:
    return {part for name in snapshot.connectors for part in (name, *snapshot.tasks(name))}


def config_of(snapshot: ClusterSnapshot, part: str | TaskId) -> Mapping[str, str] | None:
    return snapshot.raw_task_config(part) if isinstance(part, TaskId) else snapshot.raw_config(part)


@pytest.mark.parametrize("version", [0, 1, 2])
@examples(150)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), max_size=25))
def test_a_member_left_alone_runs_its_work_with_the_configs_of_now(version: int, steps: list[tuple[str, str]]) -> None:
    world = World(version)
    for step, name in steps:
        world.step(step, name)
    world.come_to_rest()
    replay(world.member.state.trace())
    now = world.member.snapshot
    own = set(parts(world.member.state.facts.owned))
    assert world.running == {part: config_of(now, part) for part in configured(now) & own}


@examples(60)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), max_size=15))
def test_a_member_at_rest_is_left_alone_by_a_rebalance_that_gives_it_the_same(steps: list[tuple[str, str]]) -> None:
    world = World(2)
    for step, name in steps:
        world.step(step, name)
    world.come_to_rest()
    before = dict(world.running)
    reported = [*world.member.step(Joining()), *world.member.place()]
    assert [type(instruction).__name__ for instruction in reported] == ["TakeGeneration"]
    assert world.running == before
