"""The loop of a sink with every order of puts, flushes, commits, rebalances, rewinds, pauses and ends, over lives."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import SinkTaskContext
from kconnect.errors import ConnectError, RetriableError, TimedOutError
from kconnect.model import TargetState, TopicPartition
from kit.examples import examples
from kit.sink_bench import PLACES, Buffered, BufferedColumns, SinkBench, SinkRun

Action = tuple[str, int, int]
Life = list[Action]
PLAIN = ("write", "assign", "assign all", "revoke", "hold", "release", "pause", "resume", "ask to commit", "wait")
PUTS = ("retry put", "retry put", "revoke", "lose", "assign", "assign all", "rewind", "hold", "release", "elsewhere")
FLUSHES = ("retry flush", "less", "more", "none", "late letters", "rewind", "revoke", "assign", "retry put")
COMMITS = ("refuse commits", "raise in commits", "answer no commit", "answer", "repair commits")
REBALANCES = ("revoke", "lose", "assign", "elsewhere", "reset", "retry flush", "rewind")
ENDS = ("fail put", "fail flush", "lost letters", "cancel", "stop", "retry flush")
MANY = ("write", "write", "assign", "wait", "ask to commit")
"""Without which little happens."""
FOCUSES = (PLAIN, PUTS, FLUSHES, (*COMMITS, *REBALANCES), (*PUTS, *ENDS), (*PLAIN, *PUTS, *FLUSHES, *COMMITS, *ENDS))


def lives_of(names: tuple[str, ...]) -> st.SearchStrategy[list[Life]]:
    action = st.tuples(st.sampled_from((*MANY, *names)), st.integers(0, 2), st.integers(0, 8))
    begin = st.sampled_from([[], [("assign all", 0, 0), ("write", 0, 5), ("write", 1, 2)]])
    return st.lists(st.builds(lambda first, more: first + more, begin, st.lists(action, max_size=24)), max_size=3)


COMMIT_MODES = {
    "refuse commits": "refused",
    "raise in commits": "raised",
    "answer no commit": "silent",
    "repair commits": "ok",
}


class Crash(Exception):
    """What the plugin raises."""


class Script:
    """Performs a life's actions, one in each fetch; behind the last one the task is asked to stop."""

    def __init__(self, actions: Life) -> None:
        self._actions = list(actions)

    def __call__(self, run: SinkRun) -> None:
        if not self._actions:
            run.control.stop()
            return
        what, index, number = self._actions.pop(0)
        if what in COMMIT_MODES:
            run.consumer.commit_mode = COMMIT_MODES[what]
        elif what in _CALLS:
            _CALLS[what](run, PLACES[index], number)
        elif what in ("less", "more", "none"):
            run.task.flushes.append(what)


def elsewhere(run: SinkRun, place: TopicPartition, _: int) -> None:
    """Another member reads all of a partition that is not ours."""
    if place not in run.consumer.assignment:
        end = len(run.bench.kafka.logs[place])
        run.bench.flushed[place].update(range(end))
        run.bench.kafka.committed[place] = end


def reset(run: SinkRun, place: TopicPartition, _: int) -> None:
    """All of a partition that is not ours is to be read again, unless the task has asked to begin elsewhere."""
    if place not in run.consumer.assignment and not run.context.has_offsets:
        run.bench.flushed[place].clear()
        run.bench.skipped.pop(place, None)
        run.bench.kafka.committed[place] = 0


def rewind(run: SinkRun, place: TopicPartition, number: int) -> None:
    def ask(context: SinkTaskContext) -> None:
        run.ask_for(place, min(number, len(run.bench.kafka.logs[place])))

    run.task.in_put.append(ask)


_CALLS: dict[str, Callable[[SinkRun, TopicPartition, int], object]] = {
    "write": lambda run, place, number: run.bench.write(place, number),
    "assign": lambda run, place, _: run.consumer.assign(place),
    "assign all": lambda run, place, _: run.consumer.assign(*PLACES),
    "revoke": lambda run, place, _: run.consumer.revoke(place),
    "lose": lambda run, place, _: run.consumer.lose(place),
    "elsewhere": elsewhere,
    "reset": reset,
    "hold": lambda run, place, _: run.task.in_put.append(lambda context: context.pause(place)),
    "release": lambda run, place, _: run.task.in_put.append(lambda context: context.resume(place)),
    "rewind": rewind,
    "pause": lambda run, place, _: run.control.set_target(TargetState.PAUSED),
    "resume": lambda run, place, _: run.control.set_target(TargetState.STARTED),
    "ask to commit": lambda run, place, _: run.task.context.request_commit(),
    "wait": lambda run, place, number: run.clock.advance(number / 4),
    "retry put": lambda run, place, _: run.task.puts.append(RetriableError("later")),
    "fail put": lambda run, place, _: run.task.puts.append(Crash("now")),
    "retry flush": lambda run, place, _: run.task.flushes.append(RetriableError("later")),
    "fail flush": lambda run, place, _: run.task.flushes.append(Crash("now")),
    "answer": lambda run, place, _: run.consumer.answer(),
    "late letters": lambda run, place, _: run.settles.append(TimedOutError("not yet")),
    "lost letters": lambda run, place, _: run.settles.append(ConnectError("refused")),
    "cancel": lambda run, place, _: run.control.cancel(),
    "stop": lambda run, place, _: run.control.stop(),
}


def live(bench: SinkBench, task: Buffered, actions: Life, *, most: int = 3) -> tuple[SinkRun, Exception | None]:
    run = SinkRun(bench, task, Script(actions), most=most)
    return run, run()


def last_life(count: int) -> Life:
    """In which all goes well and there is time for all that was written."""
    return [("assign all", 0, 0), *(("write", index, 3) for index in range(3)), *([("wait", 0, 1)] * count)]


@examples(150)
@given(lives=st.one_of(*map(lives_of, FOCUSES)), columns=st.booleans(), most=st.sampled_from([1, 3, 100]))
def test_nothing_is_skipped_or_committed_before_it_is_flushed_whatever_happens(
    lives: list[Life], columns: bool, most: int
) -> None:
    bench = SinkBench()
    for actions in lives:
        run, ended = live(bench, (BufferedColumns if columns else Buffered)(), actions, most=most)
        names = {what for what, _, _ in actions}
        if names <= {*PLAIN, "stop", "retry put"}:
            assert ended is None
            assert {place: bench.position(place) for place in run.owned} == {
                place: run.expected[place] for place in run.owned
            }, "after a clean stop all that was put is committed"
        assert run.consumer.is_closed
        assert run.task.calls[-1] == "stop"
    run, ended = live(bench, Buffered(), last_life(sum(map(len, bench.kafka.logs.values())) + 20))
    assert ended is None
    for place, log in bench.kafka.logs.items():
        assert bench.position(place) == len(log)
        assert not bench.missing(place, len(log))
