"""What must hold at every step while workers of a group write statuses to one topic and read them, whatever the order.

It judges by what really is so, which no worker can know: who has the work, and since when.
So it does not repeat how workers decide what to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_store import StatusReader
from kconnect.runtime.storage.status_topic import StatusRead, StoredStatus, Subject, decode_record


class JudgedWorker(Protocol):
    """What is known of a worker from outside."""

    name: str
    generation: int
    running: dict[Subject, int]
    since: dict[Subject, int]
    """How many statuses had been sent by anyone when it began to run there."""
    store: StatusReader
    is_expelled: bool
    is_retrying: bool
    is_releasing: bool


class StatusJudge:
    """Collects `problems`. `owners` is the simulation's own table, which changes as it goes on.

    A group that begins to count again has no order of generations across its lives: late records of the former one do
    count as newer until they are corrected. From then on only writes are judged.
    """

    def __init__(self, owners: Mapping[Subject, JudgedWorker]) -> None:
        self.problems: list[str] = []
        self.reader = StatusCache()
        """The topic as one sees it who reads all of it at once and is no member."""
        self.sends = 0
        """How many statuses were sent so far, repetitions not counted: a status is as old as its number."""
        self._owners = owners
        self._is_first_life = True
        self._words: dict[tuple[str, Subject], tuple[int, StoredStatus]] = {}  # by worker: the last it sent
        self._written: dict[tuple[str, Subject], int] = {}  # by worker: the number of its newest in the topic
        self._seen: dict[tuple[str, Subject], int] = {}  # by reader: the generation in force
        self._newest: dict[tuple[str, Subject], dict[str, int]] = {}  # by reader: newest generation read of each worker

    def group_begins_again(self) -> None:
        self._is_first_life = False

    def sent(self, worker: JudgedWorker, subject: Subject, status: StoredStatus) -> int:
        """A worker hands a status to its producer. Gives the status's number."""
        what = f"{worker.name} sends {subject} {status.state} of generation {status.generation}"
        number, word = self._words.get((worker.name, subject), (0, None))
        if worker.is_retrying:
            if status != word:
                self.problems.append(f"{what} again, after {word}")
        else:
            number = self.sends = self.sends + 1
            if worker.is_expelled:
                self.problems.append(f"{what}, out of its group")
        self._words[worker.name, subject] = number, status
        # Generations of two lives of the group cannot be distinguished where they overlap
        is_certain = self._is_first_life or status.generation > worker.generation
        owner = self._known_owner(subject)
        if is_certain and worker.is_releasing and owner is not None and owner is not worker:
            self.problems.append(f"{what}, though it runs on {owner.name}")
        read = self._newest.get((worker.name, subject), {})
        newer = [other for other, generation in read.items() if other != worker.name and generation > status.generation]
        if newer and self._is_first_life:
            self.problems.append(f"{what}, though it has read a newer one of {', '.join(newer)}")
        return number

    def appended(self, number: int, subject: Subject, status: StoredStatus) -> None:
        """A record is in the topic."""
        place = status.worker_id, subject
        self._written[place] = max(number, self._written.get(place, 0))
        self.reader.apply(StatusRead(subject, status))
        in_force = self.reader.status(subject)
        self._judge_view("a reader of the topic", in_force, subject)
        owner = self._known_owner(subject)
        if self._is_first_life and owner is not None and (in_force is None or in_force.worker_id != owner.name):
            self.problems.append(f"{subject} runs on {owner.name}; a reader of the topic: {in_force}")

    def was_read(self, worker: JudgedWorker, subject: Subject, status: StoredStatus) -> None:
        """A worker has read a record."""
        newest = self._newest.setdefault((worker.name, subject), {})
        newest[status.worker_id] = max(status.generation, newest.get(status.worker_id, 0))
        self._judge_view(worker.name, worker.store.status(subject), subject)

    def _judge_view(self, reader: str, in_force: StoredStatus | None, subject: Subject) -> None:
        """No status in force gives way to one of an older generation."""
        generation = 0 if in_force is None else in_force.generation
        if self._is_first_life and generation < self._seen.get((reader, subject), 0):
            self.problems.append(f"{reader} has gone back with {subject} to {in_force}")
        self._seen[reader, subject] = generation

    def _known_owner(self, subject: Subject) -> JudgedWorker | None:
        """Who has the work, once the topic has what it said since the work began to run there."""
        owner = self._owners.get(subject)
        if owner is None or subject not in owner.running:
            return None
        return owner if self._written.get((owner.name, subject), 0) > owner.since[subject] else None


def read_status(key: bytes, value: bytes | None) -> tuple[Subject, StoredStatus]:
    """The status in a record of the simulation, which deletes none."""
    event = decode_record(key, value)
    assert isinstance(event, StatusRead)
    assert event.status is not None
    return event.subject, event.status
