"""Each commit gets its own answer, in whatever order answers come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.kafka.consumer_additions import UnansweredCommits

P = TopicPartition("t", 0)


def test_the_late_answer_of_a_commit_that_was_given_up_is_not_taken_for_the_newer_ones() -> None:
    commits, given_up, newer = UnansweredCommits(), [], []
    commits.sent({P: 5}, given_up.append)
    commits.sent({P: 7}, newer.append)
    late = ConnectError("the coordinator moved")
    commits.answered({P: 5}, late)
    assert (given_up, newer) == ([late], [])
    commits.answered({P: 7}, None)
    assert newer == [None]


def test_of_two_commits_of_the_same_offsets_the_older_is_answered_first() -> None:
    commits, reported = UnansweredCommits(), []
    for number in range(2):
        commits.sent({P: 5}, lambda error, number=number: reported.append(number))
    commits.answered({P: 5}, None)
    commits.answered({P: 5}, None)
    commits.answered({P: 5}, None)
    assert reported == [0, 1]


@given(st.data())
def test_answers_in_any_order_find_their_commits(data: st.DataObject) -> None:
    offsets = st.dictionaries(st.builds(TopicPartition, st.just("t"), st.integers(0, 2)), st.integers(0, 9), min_size=1)
    sent = data.draw(st.lists(offsets, unique_by=lambda found: tuple(sorted(found.items())), max_size=6))
    answered: list[int] = []
    commits = UnansweredCommits()
    for number, found in enumerate(sent):
        commits.sent(found, lambda error, number=number: answered.append(number))
    order = data.draw(st.permutations(range(len(sent))))
    for number in order:
        commits.answered(dict(reversed(sent[number].items())), None)
    assert answered == order
