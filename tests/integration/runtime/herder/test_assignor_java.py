"""Our assignors beside Java's classes from connect-runtime: who gets what, in histories of random groups.

Each run plays other histories; a failure names its seed. KCONNECT_FUZZ_SEED=N plays those again,
KCONNECT_FUZZ_HISTORIES=5000 plays more of them (pytest --timeout 900; 14 rounds each, some 400 a second).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from kconnect.java.devbroker import JarSet, find_java
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.eager import GroupPlan
from kconnect.runtime.herder.assignment.protocol import Assignment, Work, decode_assignment
from kit.pace import ample_s
from kit.places import KIT
from kit.simulated_group import INCONSISTENT, SimulatedGroup

pytestmark = pytest.mark.java

PROGRAM = KIT / "java_programs/Assignors.java"
MAIN_CLASS = "org.apache.kafka.connect.runtime.distributed.Assignors"
HISTORIES = int(os.environ.get("KCONNECT_FUZZ_HISTORIES", "250"))
SEED = int(os.environ.get("KCONNECT_FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
ROUNDS = 14
DELAYS_MS = (0, 1, 2, 39, 40, 41, 1600, 8_000, 64_000, 300_000, 2_147_483_647)
# Sorted by UTF-16 units the emoji comes before the last one, by code points after it
ODD_NAMES = ("ü", "😀", "\ue000", "a b")


@dataclass
class Rounds:
    """Commands for Java, and what we made of the same."""

    commands: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    ours: list[Outcome] = field(default_factory=list)


@dataclass
class Outcome:
    """Of one round: assignments, in which only the order of what is revoked is open, and who owns what."""

    assignments: dict[str, Assignment] = field(default_factory=dict)
    owners: dict[str | TaskId, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The helper is compiled into the package of Java's classes: what it overrides and calls is not public."""
    classes = tmp_path_factory.mktemp("classes")
    jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
    compiler = [str(find_java("Java's assignors").executable), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-d", str(classes), "-cp", jars, str(PROGRAM)], timeout=ample_s(90), check=True)
    return os.pathsep.join([str(classes), jars])


def java_plays(class_path: str, commands: list[str]) -> Iterator[Outcome]:
    java = str(find_java("Java's assignors").executable)
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-cp", class_path, MAIN_CLASS],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        timeout=ample_s(600),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = Outcome()
    for line in done.stdout.splitlines():
        match line.split(" "):
            case ["assignment", member, data]:
                assignment = decode_assignment(bytes.fromhex(data))
                assert assignment is not None
                outcome.assignments[text(member)] = comparable(assignment)
            case ["owner", member, connector]:
                outcome.owners[text(connector)] = text(member)
            case ["owner", member, connector, number]:
                outcome.owners[TaskId(text(connector), int(number))] = text(member)
            case ["done"]:
                yield outcome
                outcome = Outcome()


def comparable(assignment: Assignment) -> Assignment:
    """The orders that follow from the sizes of Java's hash sets, and mean nothing to a member, are made one.

    What ours says of Java's workers, and of what is held back, stands behind what Java's read.
    """
    work, revoked = assignment.work, assignment.revoked
    by_connector: dict[str, list[TaskId]] = {}
    for task in work.tasks:
        by_connector.setdefault(task.connector, []).append(task)
    tasks = [task for name in sorted(by_connector) for task in by_connector[name]]
    return replace(
        assignment,
        work=Work(tuple(sorted(work.connectors)), tuple(tasks)),
        revoked=Work(tuple(sorted(revoked.connectors)), tuple(sorted(revoked.tasks))),
        javas=None,
        held=Work(),
    )


def hexed(word: str) -> str:
    return word.encode().hex()


def text(hexed_word: str) -> str:
    return bytes.fromhex(hexed_word).decode()


def member_id(dice: random.Random) -> str:
    """As brokers make them, or short ones, of which more fall into one bucket of a map."""
    if dice.random() < 0.5:
        return f"m{dice.randrange(1000)}"
    return f"connect-127.0.0.1:8083-{dice.getrandbits(128):032x}"


def play(title: str, dice: random.Random, rounds: Rounds, version: int) -> None:
    """One history: a group to which things happen, a round after each."""
    most_members = dice.choice([2, 4, 14, 50])
    group = SimulatedGroup(
        [member_id(dice) for _ in range(dice.randint(1, most_members))],
        {connector_name(dice): task_count(dice) for _ in range(dice.randint(0, 8))},
        max_delay_ms=dice.choice([*DELAYS_MS, dice.randint(1, 600_000)]),
        version=version,
    )
    leader = ""
    gone: list[Assignment | None] = []
    for number in range(ROUNDS):
        for _ in range(dice.choice([0, 1, 1, 1, 4])):
            happen(group, gone, dice)
        group.now_ms += dice.choice([0, 1, 50, 3000, 8001, 300_001, dice.randint(1, 400_000)])
        if dice.random() < 0.03:
            group.last_generation -= 1
        joined = group.joined()
        if joined.leader != leader:
            rounds.commands.append(f"leader {group.max_delay_ms}")
            leader = joined.leader
        snapshot = group.snapshot()
        behind = replace(snapshot, offset=snapshot.offset - 1)
        mine = dice.choice([snapshot, snapshot, snapshot, behind])  # as it was when the leader joined
        fresh = mine if mine is behind and dice.random() < 0.5 else replace(snapshot, offset=snapshot.offset + 1)
        plan = group.plan(joined, mine)
        if not isinstance(plan, GroupPlan):
            plan = group.plan(joined, fresh)
        rounds.commands += [f"connector {hexed(name)} {count}" for name, count in group.connectors.items()]
        rounds.commands += [f"member {hexed(name)} {data.hex()}" for name, data in joined.members.items()]
        rounds.commands.append(
            f"round {group.now_ms} {joined.last_generation} {joined.generation} {joined.protocol}"
            f" {mine.offset} {fresh.offset}"
        )
        rounds.titles.append(f"{title}, round {number}, {joined}")
        rounds.ours.append(outcome_of(plan))
        if isinstance(plan, GroupPlan):
            group.take(plan, missed_by=[name for name in group.members if dice.random() < 0.03])


def outcome_of(plan):
    decoded = {member: decode_assignment(data) for member, data in plan.to_bytes().items()}
    return Outcome(
        {member: comparable(assignment) for member, assignment in decoded.items()},
        dict(plan.owners) if isinstance(plan, GroupPlan) else {},
    )


def happen(group: SimulatedGroup, gone: list[Assignment | None], dice: random.Random) -> None:
    members = list(group.members)
    match dice.randrange(8):
        case 0 if len(members) > 1:
            gone.append(group.leave(dice.choice(members)))
        case 1:
            group.members[newcomer(group, dice)] = None
        case 2 if gone:  # was away for so long that others have its work, and reports it still
            group.members[newcomer(group, dice)] = gone.pop(dice.randrange(len(gone)))
        case 3 | 4:
            group.connectors[connector_name(dice)] = task_count(dice)
        case 5 if group.connectors:
            del group.connectors[dice.choice(list(group.connectors))]
        case 6:
            group.members = dict(sorted(group.members.items(), key=lambda _: dice.random()))


def newcomer(group: SimulatedGroup, dice: random.Random) -> str:
    """At a URL where nobody was before: who comes back to one gets its work at once, which Java does not do."""
    name = member_id(dice)
    group.urls[name] = f"http://{name}/{len(group.urls)}/{dice.random()}"
    return name


def connector_name(dice: random.Random) -> str:
    return dice.choice([*ODD_NAMES, *(f"c{number}" for number in range(12))])


def task_count(dice: random.Random) -> int:
    return dice.choice([INCONSISTENT, 0, 1, 2, 3, 5, 30])


@pytest.mark.parametrize(("version", "histories"), [(0, HISTORIES // 8), (1, HISTORIES // 8), (2, HISTORIES)])
def test_groups_are_assigned_as_java_assigns_them(class_path: str, version: int, histories: int) -> None:
    rounds = Rounds()
    for number in range(histories):
        play(f"seed {SEED}, history {number}", random.Random(f"{SEED}/{version}/{number}"), rounds, version)

    java = list(java_plays(class_path, rounds.commands))

    sys.stdout.write(f"seed {SEED}: {len(java)} rounds of version {version}\n")
    for title, theirs, ours in zip(rounds.titles, java, rounds.ours, strict=True):
        different = [name for name, theirs_of in theirs.assignments.items() if ours.assignments.get(name) != theirs_of]
        assert different == [], title
        assert ours == theirs, title
    seen = [assignment for outcome in java for assignment in outcome.assignments.values()]
    assert len(java) == histories * ROUNDS
    assert any(assignment.error for assignment in seen)
    assert any(assignment.delay_ms for assignment in seen) == (version > 0)
    assert any(assignment.revoked for assignment in seen) == (version > 0)
