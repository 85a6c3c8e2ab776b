"""The account of a chaos run: what counts as lost, as double, as a gap; and the plan that a seed draws."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from kit.chaos.account import Delivered, account_of, sink_lines
from kit.chaos.harm import KINDS, drawn


def topic(*numbers: tuple[int, int], times_ms: list[int] | None = None) -> list[Delivered]:
    """Records of (task, seqno), each task in a partition of its own."""
    ends: Counter[int] = Counter()
    found = []
    for at, (task, seqno) in enumerate(numbers):
        found.append(Delivered(task, task, seqno, ends[task], times_ms[at] if times_ms else at))
        ends[task] += 1
    return found


def all_sunk(records: list[Delivered]) -> Counter[tuple[int, int]]:
    return Counter((record.task, record.offset) for record in records)


def test_a_whole_sequence_loses_nothing() -> None:
    records = topic((0, 0), (1, 0), (0, 1), (1, 1))
    found = account_of(records, all_sunk(records), {0: 1, 1: 1}, 2)
    assert (found.records, found.lost, found.duplicates, found.sink_lost, found.sink_duplicates) == (4, 0, 0, 0, 0)


def test_a_number_that_is_missing_in_the_middle_is_lost() -> None:
    records = topic((0, 0), (0, 2))
    found = account_of(records, all_sunk(records), {}, 1)
    assert (found.lost, found.examples) == (1, ["source task 0: 1 of 3"])


def test_a_number_whose_offset_is_committed_and_that_is_not_in_the_topic_is_lost() -> None:
    records = topic((0, 0), (0, 1))
    assert account_of(records, all_sunk(records), {0: 4}, 1).lost == 3
    assert account_of(records, all_sunk(records), {0: 1}, 1).lost == 0


def test_a_task_of_which_nothing_came_has_lost_what_it_committed() -> None:
    assert account_of([], Counter(), {1: 0}, 2).lost == 1


def test_a_number_that_is_there_twice_is_double() -> None:
    records = topic((0, 0), (0, 1), (0, 0), (0, 1), (0, 2))
    found = account_of(records, all_sunk(records), {}, 1)
    assert (found.lost, found.duplicates) == (0, 2)


def test_what_the_sink_never_had_is_lost_also_when_it_had_the_same_number_at_another_place() -> None:
    records = topic((0, 0), (0, 0), (0, 1))
    found = account_of(records, Counter({(0, 0): 1, (0, 2): 3}), {}, 1)
    assert (found.sink_lost, found.sink_duplicates, found.sink_lines) == (1, 2, 4)
    assert found.examples == ["sink: offset 1 of source task 0"]


def test_gaps_are_of_all_tasks_together_and_of_the_slowest_one() -> None:
    records = topic((0, 0), (1, 0), (0, 1), (1, 1), times_ms=[0, 1000, 5000, 9000])
    found = account_of(records, all_sunk(records), {}, 2)
    assert (found.longest_gap_s, found.longest_task_gap_s) == (4.0, 8.0)


def test_lines_of_the_sink_are_counted_but_for_flushed_and_unfinished_ones(tmp_path: Path) -> None:
    def line(task: int, offset: int, **more: bool) -> str:
        return json.dumps({"name": "s", "task": task, "seqno": 7, "offset": offset, **more}, separators=(",", ":"))

    file = tmp_path / "sink.jsonl"
    file.write_text(
        "\n".join([line(0, 1), line(0, 1), line(0, 1, flushed=True), line(2, 0)[:20] + line(1, 5), "", line(3, 3)[:9]])
    )
    assert sink_lines(file) == {(0, 1): 2, (1, 5): 1}


def test_a_seed_draws_the_same_harm_again_and_every_kind_equally_often() -> None:
    actions = drawn(7, 300.0, 15.0, KINDS)
    assert actions == drawn(7, 300.0, 15.0, KINDS)
    assert actions != drawn(8, 300.0, 15.0, KINDS)
    assert [action.at_s for action in actions] == [15.0 * number for number in range(1, 20)]
    counts = Counter(action.kind for action in actions)
    assert set(counts) == set(KINDS)
    assert max(counts.values()) - min(counts.values()) <= 1
