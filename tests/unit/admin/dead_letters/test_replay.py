"""Runs of a replay that are killed, refused, repeated: what each kind of reader has got in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from kconnect.admin.dead_letters.letter import ORIGIN_HEADER, DeadLetter, dead_letter
from kconnect.admin.dead_letters.marks import Entry, Marks, Run, marks_of
from kconnect.admin.dead_letters.planning import Outcome, ReplayRules, Tally
from kconnect.admin.dead_letters.replay import MarkWriter, Preparation, replay
from kconnect.api import ConsumerRecord
from kconnect.errors import ConnectError
from kconnect.runtime.kafka import KafkaRecord

PREFIX = "__connect.errors."
UNCOMMITTED = "read_uncommitted"


def letter(offset: int) -> DeadLetter:
    words = {"topic": "orders", "partition": "0", "offset": str(offset), "connector.name": "sink", "stage": "TASK_PUT"}
    headers: list[tuple[str, bytes | None]] = [(PREFIX + name, text.encode()) for name, text in words.items()]
    return dead_letter(ConsumerRecord("dlq", 0, offset, b"k", b"v", 1_000, headers=headers))


LETTERS = [letter(offset) for offset in range(4)]


@dataclass
class MemoryTopic:
    """A dead letter topic with its marks, and the topic that its letters are sent to."""

    entries: list[Entry] = field(default_factory=list)
    target: list[tuple[str, bool]] = field(default_factory=list)
    """Place of a letter, and whether its record was committed."""
    first: int = 0
    """The first offset that the dead letter topic still has."""
    topic: str = "dlq"

    def marks(self) -> Marks:
        return marks_of(self.entries)

    def settled_marks(self) -> Marks:
        return self.marks()

    def arrived(self, run: Run) -> set[str]:
        return {place for place, _ in self.target[run.ends["orders"][0] :]}

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def topic_ends(self, partitions: Mapping[str, int]) -> dict[str, dict[int, int]]:
        return {topic: {0: len(self.target)} for topic in partitions}

    def begins(self) -> dict[int, int]:
        return {0: self.first}

    def got(self, isolation: str) -> Counter[str]:
        """How many times a reader has got each letter."""
        return Counter(place for place, is_committed in self.target if is_committed or isolation == UNCOMMITTED)


@dataclass
class MemoryWriter:
    """Writes transactions. The first with records is killed if `dies`, and Kafka refuses the letter `refuses`."""

    topic: MemoryTopic
    dies: bool = False
    refuses: str | None = None

    def claim(self) -> None:
        pass

    def transact(self, entries: Sequence[Entry], records: Sequence[KafkaRecord] = ()) -> dict[int, ConnectError]:
        headers = [dict(record.headers)[ORIGIN_HEADER] for record in records]
        places = [value.decode() for value in headers if value is not None]
        refused = {index: ConnectError("too large") for index, place in enumerate(places) if place == self.refuses}
        is_committed = not refused and not (self.dies and records)
        self.topic.target += [(place, is_committed) for place in places if place != self.refuses]
        if self.dies and records:
            raise ConnectError("killed")
        if is_committed:
            self.topic.entries += entries
        return refused


def run(
    topic: MemoryTopic,
    letters: Sequence[DeadLetter] = LETTERS,
    *,
    isolation: str | None = UNCOMMITTED,
    dies: bool = False,
    refuses: str | None = None,
) -> Tally:
    def prepare(marks: Marks, arrived: Collection[str]) -> Preparation:
        return Preparation(ReplayRules(), marks, topic.partitions, arrived=arrived)

    writer = cast(MarkWriter, MemoryWriter(topic, dies, refuses))
    return replay(writer, "sink", lambda: letters, prepare, isolation=isolation)


def killed(topic: MemoryTopic, isolation: str | None = UNCOMMITTED) -> None:
    with pytest.raises(ConnectError, match="killed"):
        run(topic, isolation=isolation, dies=True)


def once(*letters: DeadLetter) -> Counter[str]:
    return Counter(each.place for each in letters)


@pytest.mark.parametrize("isolation", [UNCOMMITTED, "read_committed"])
def test_after_a_kill_the_sink_has_each_letter_once(isolation: str) -> None:
    topic = MemoryTopic()
    killed(topic, isolation)
    run(topic, isolation=isolation)
    assert topic.got(isolation) == once(*LETTERS)


def test_what_the_connector_does_not_read_is_sent_again_after_a_kill() -> None:
    topic = MemoryTopic()
    killed(topic, None)
    assert topic.marks().runs == {}, "nobody looks for aborted records that the connector has not seen"
    run(topic, isolation=None)
    assert topic.got("read_committed") == once(*LETTERS)


def test_a_replay_to_elsewhere_does_not_forget_what_the_sink_got_from_one_that_was_killed() -> None:
    topic = MemoryTopic()
    killed(topic)
    run(topic, [letter(9)], isolation=None)
    run(topic)
    assert topic.got(UNCOMMITTED) == once(*LETTERS, letter(9))


def test_a_run_of_other_letters_does_not_forget_what_the_sink_got_from_one_that_was_killed() -> None:
    topic = MemoryTopic()
    killed(topic)
    run(topic, [letter(9)])
    assert "sink" in topic.marks().runs
    run(topic)
    assert topic.got(UNCOMMITTED) == once(*LETTERS, letter(9))
    assert topic.marks().runs == {}, "all that arrived has its mark"


def test_a_killed_run_is_forgotten_when_letters_without_a_mark_are_deleted_or_of_another_topic() -> None:
    topic = MemoryTopic()
    killed(topic)
    topic.target.append(("dlq-of-another-0@7", True))
    topic.first = 4
    run(topic, [letter(9)])
    assert topic.marks().runs == {}


@pytest.mark.parametrize("isolation", [UNCOMMITTED, "read_committed"])
def test_a_refused_record_has_none_of_its_batch_sent_to_the_sink_twice(isolation: str) -> None:
    topic = MemoryTopic()
    done = run(topic, isolation=isolation, refuses="dlq-0@2")
    sent = [each for each in LETTERS if each.place != "dlq-0@2"]
    assert topic.got(isolation) == once(*sent)
    assert (done.counts[Outcome.REPLAY], done.counts[Outcome.FAILED], done.topics["orders"]) == (3, 1, 3)
    assert sorted(topic.marks().letters) == [(0, 0), (0, 1), (0, 3)]
    assert topic.marks().runs == {}


def test_letters_of_a_file_are_sent_once_also_when_the_topic_no_longer_has_them() -> None:
    topic = MemoryTopic(first=100)
    for _ in range(3):
        run(topic)
    assert topic.got("read_committed") == once(*LETTERS)
