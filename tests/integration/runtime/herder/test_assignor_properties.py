"""What holds for each group, whatever happened to it: all placed, nothing twice, nothing moved for no reason."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kconnect.runtime.herder.assignment.eager import assign_eagerly
from kconnect.runtime.herder.assignment.protocol import Work
from kit.examples import examples
from kit.simulated_group import SimulatedGroup

QUICK = examples(150)
# Rounds a group may need to come to rest: lost work waits, waiting ends, duplicates and surplus go, new is placed; of
# 6,000 random histories six needed four
MOST_ROUNDS = 6

DELAYS = st.sampled_from([0, 1, 1600, 300_000])
CONNECTORS = st.dictionaries(st.integers(0, 9).map("c{}".format), st.integers(0, 7), max_size=8)
MEMBER_COUNTS = st.integers(1, 7)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "return", "configure", "delete", "wait", "miss", "nothing"]),
        st.integers(0, 9),
        st.integers(0, 7),
    ),
    max_size=40,
)


def parts(work: Work) -> set:
    return {*work.connectors, *work.tasks}


def new_group(count: int, connectors: dict[str, int], delay_ms: int) -> SimulatedGroup:
    return SimulatedGroup([f"m{number}" for number in range(count)], connectors, max_delay_ms=delay_ms)


def settled_group(count: int, connectors: dict[str, int], delay_ms: int = 300_000) -> SimulatedGroup:
    group = new_group(count, connectors, delay_ms)
    group.settle(MOST_ROUNDS)
    return group


def moved(before: dict[str, Work], after: dict[str, Work]) -> set:
    """What a member that stayed had and has no more."""
    return {part for name in before.keys() & after.keys() for part in parts(before[name]) - parts(after[name])}


def assert_all_is_placed_evenly(running: dict[str, Work], configured: Work) -> None:
    placed = Counter(part for work in running.values() for part in [*work.connectors, *work.tasks])
    assert placed == Counter(parts(configured))
    for sizes in ([len(work.connectors) for work in running.values()], [len(work.tasks) for work in running.values()]):
        assert max(sizes) - min(sizes) <= 1


def assert_round_is_safe(group: SimulatedGroup, missed_by: list[str]) -> None:
    """One round: nothing is given that still runs somewhere, nor to two; all else runs, is stopping or held back."""
    before = group.running()
    active = {part for work in before.values() for part in parts(work)}
    plan = group.round(missed_by=missed_by)
    given_now = Counter(
        part for item in plan.assignments.values() for part in [*item.work.connectors, *item.work.tasks]
    )
    assert not given_now.keys() & active
    assert given_now.keys() <= parts(group.configured())
    assert set(given_now.values()) <= {1}
    revoked = {part for item in plan.assignments.values() for part in parts(item.revoked)}
    held_back = parts(group.configured()) - plan.owners.keys() - revoked
    assert not held_back or plan.assignments[group.leader].delay_ms > 0
    for part, owner in plan.owners.items():
        assert part in parts(before[owner]) or part in given_now


@examples(400)
@given(MEMBER_COUNTS, CONNECTORS, DELAYS, EVENTS)
def test_nothing_runs_twice_and_a_group_left_alone_comes_to_an_even_rest(count, connectors, delay_ms, events):
    group = new_group(count, connectors, delay_ms)
    gone = []
    for number, (kind, first, second) in enumerate(events):
        members = list(group.members)
        one = members[first % len(members)]
        match kind:
            case "join":
                group.members[f"new{number}"] = None
            case "leave" if len(members) > 1:
                gone.append(group.leave(one))
            case "return" if gone:  # with what it had, though others may have it by now
                group.members[f"again{number}"] = gone.pop()
            case "configure":
                group.connectors[f"c{first}"] = second
            case "delete":
                group.connectors.pop(f"c{first}", None)
            case "wait":
                group.now_ms += 10**second
        if kind != "return":
            assert_round_is_safe(group, [one] if kind == "miss" else [])
        else:
            group.round()

    group.settle(MOST_ROUNDS)

    assert_all_is_placed_evenly(group.running(), group.configured())


@QUICK
@given(MEMBER_COUNTS, CONNECTORS)
def test_another_round_of_a_settled_group_changes_nothing(count, connectors):
    group = settled_group(count, connectors)
    before = group.running()

    plan = group.round()

    assert group.running() == before
    assert not any(item.work or item.revoked or item.delay_ms for item in plan.assignments.values())


@QUICK
@given(MEMBER_COUNTS, st.integers(1, 3), CONNECTORS)
def test_what_moves_when_members_join_goes_to_them_and_nothing_else_moves(count, joining, connectors):
    group = settled_group(count, connectors)
    before = group.running()
    for number in range(joining):
        group.members[f"new{number}"] = None

    rounds = group.settle(3)

    after = group.running()
    came = {part for name in after.keys() - before.keys() for part in parts(after[name])}
    assert moved(before, after) == came
    assert_all_is_placed_evenly(after, group.configured())
    assert rounds == (2 if came else 1)


@QUICK
@given(st.integers(2, 7), st.integers(0, 6), CONNECTORS, DELAYS)
def test_members_that_stay_keep_what_they_have_when_one_leaves(count, leaving, connectors, delay_ms):
    group = settled_group(count, connectors, delay_ms)
    group.leave(list(group.members)[1 + leaving % (count - 1)])
    before = group.running()

    group.settle(3)

    assert moved(before, group.running()) == set()
    assert_all_is_placed_evenly(group.running(), group.configured())


@QUICK
@given(st.integers(2, 7), st.integers(0, 6), CONNECTORS, st.booleans())
def test_the_work_of_a_worker_restarted_within_the_delay_goes_to_it_and_nothing_moves(count, index, connectors, keeps):
    """Members without work get some of it as well: they cannot be distinguished from restarted ones."""
    group = settled_group(count, connectors)
    name = list(group.members)[1 + index % (count - 1)]
    before = group.running()
    had = group.leave(name)
    if parts(before[name]):
        assert group.round().assignments[group.leader].delay_ms == 300_000
    group.now_ms += 1000
    group.members["again"] = had if keeps else None  # its session ended, or its process did

    group.settle(3)

    after = group.running()
    others = [] if keeps else [member for member, work in before.items() if member != name and not work]
    got = {part for member in ["again", *others] for part in parts(after[member])}
    assert got == parts(before[name])
    assert moved(before, after) == set()


@QUICK
@given(MEMBER_COUNTS, CONNECTORS, CONNECTORS)
def test_creating_connectors_moves_nothing(count, connectors, more):
    group = settled_group(count, connectors)
    before = group.running()
    group.connectors |= {f"more-{name}": tasks for name, tasks in more.items()}

    assert group.settle(1) == 1

    assert moved(before, group.running()) == set()
    assert_all_is_placed_evenly(group.running(), group.configured())


@QUICK
@given(MEMBER_COUNTS, CONNECTORS.filter(bool), st.integers(0, 7))
def test_deleting_a_connector_stops_it_and_moves_no_more_than_evens_out_the_rest(count, connectors, index):
    group = settled_group(count, connectors)
    before = group.running()
    name = list(connectors)[index % len(connectors)]
    group.connectors.pop(name)
    kept = parts(group.configured())
    left = {member: parts(work) & kept for member, work in before.items()}

    group.settle(4)

    after = group.running()
    assert_all_is_placed_evenly(after, group.configured())
    for member, work in after.items():
        gained, lost = parts(work) - left[member], left[member] - parts(work)
        # Who gives some of a kind away gets none of it
        assert not {type(part) for part in gained} & {type(part) for part in lost}


@QUICK
@given(st.integers(1, 7), CONNECTORS, st.randoms(use_true_random=False))
def test_eager_work_is_the_same_in_any_order_of_members_and_even_over_both_kinds(count, connectors, dice):
    group = new_group(count, connectors, 0)
    members = list(group.members)
    dice.shuffle(members)

    work = assign_eagerly(group.snapshot(), members)

    assert work == assign_eagerly(group.snapshot(), list(group.members))
    assert_all_is_placed_evenly(work, group.configured())
    sizes = [len(parts(item)) for item in work.values()]
    assert max(sizes) - min(sizes) <= 1
