"""Whether what was said is true. Pure: words and what really flowed in, sentences about what is false out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kit.outages.flow import Task
from kit.outages.words import Word

__all__ = ["Claims", "disagreements", "side_by_side"]

RUNNING = "RUNNING"


@dataclass(slots=True)
class Claims:
    """Looks at words as they come, and remembers since when each source says RUNNING of each task.

    A source that begins to say it may be a moment ahead of the first record; one that goes on saying it may be as long
    behind the last record as a bound allows.
    """

    _since: dict[tuple[str, Task], float] = field(default_factory=dict)

    def false(self, word: Word, last_at: Mapping[Task, float], bound_s: Mapping[Task, float]) -> list[str]:
        """What is false in a word, given when the last record of each task came."""
        reported = []
        says = set() if word.says_away else {task for task, state in word.states.items() if state == RUNNING}
        for task, bound in bound_s.items():
            key = (word.source, task)
            if task not in says:
                self._since.pop(key, None)
                continue
            began = self._latest(task) if word.is_rare else self._since.setdefault(key, word.at)
            since = max(began, last_at.get(task, float("-inf")))
            if word.at - since > bound:
                reported.append(
                    f"{word.source} says RUNNING of {task[0]}-{task[1]}, of which nothing has come for "
                    f"{word.at - since:.1f} s (allowed: {bound:g} s)"
                )
        return reported

    def forget(self, worker: str) -> None:
        """A worker that stands still says nothing: what it says first when it goes on, it begins to say then."""
        self._since = {key: at for key, at in self._since.items() if key[0].partition(" ")[0] != worker}

    def _latest(self, task: Task) -> float:
        """When somebody of those who are asked often began last to say RUNNING of it: a task may just have started."""
        return max((at for (_, of), at in self._since.items() if of == task), default=float("-inf"))


def disagreements(
    words: Sequence[Word],
    moving: Collection[Task],
    tasks: Collection[Task],
    ids: Mapping[str, str],
) -> list[str]:
    """Why not everybody says what really is, when all should run; empty when all agree.

    `moving`: tasks whose records advance. `ids`: the id of each worker by its name, for what its slots hold.
    """
    reported = [f"nothing comes of {name}-{number}" for name, number in tasks if (name, number) not in moving]
    of_slots = [word for word in words if word.source.endswith(" slots")]
    held = {task: ids[word.source.partition(" ")[0]] for word in of_slots for task in word.states}
    reported += [f"no slot holds {name}-{number}" for name, number in tasks if (name, number) not in held]
    for word in words:
        reported += _wrong(word, held)
    return reported


def _wrong(word: Word, held: Mapping[Task, str]) -> list[str]:
    if not word.is_answer:
        return [f"{word.source} says nothing: {word.note}"]
    if word.says_away:
        return [f"{word.source} says that Kafka is away: {word.note}"]
    if word.source.endswith(("/health", "/metrics")) and not word.says_well:
        return [f"{word.source} says {word.note}"]
    reported = [
        f"{word.source} says nothing of {name}-{number}"
        for name, number in word.knows
        if (name, number) not in word.states
    ]
    reported += [
        f"{word.source} says {state} of {task[0]}-{task[1]}"
        for task, state in word.states.items()
        if state not in (RUNNING, "PLACED", "HELD")
    ]
    reported += [
        f"{word.source} says that {task[0]}-{task[1]} is at {worker}, the slot that holds it is at {held[task]}"
        for task, worker in word.workers.items()
        if task in held and held[task] != worker
    ]
    return reported


def side_by_side(words: Sequence[Word], counts: Mapping[Task, int], tasks: Sequence[Task]) -> str:
    """A table: what came of each task, and a line for each source with its word of each."""
    heads = [f"{name}-{number}" for name, number in tasks]
    width = max(24, *(len(head) + 2 for head in heads))
    first = max([20, *(len(word.source) + 2 for word in words)])
    lines = ["".ljust(first) + "".join(head.ljust(width) for head in heads) + "and"]
    lines.append("records so far".ljust(first) + "".join(str(counts.get(task, 0)).ljust(width) for task in tasks))
    for word in words:
        cells = []
        for task in tasks:
            state, worker = word.states.get(task, "-"), word.workers.get(task)
            cells.append((f"{state} {worker.rpartition(':')[2]}" if worker else state).ljust(width))
        lines.append(
            word.source.ljust(first) + "".join(cells) + ("(Kafka away) " if word.says_away else "") + word.note
        )
    return "\n".join(line.rstrip() for line in lines)
