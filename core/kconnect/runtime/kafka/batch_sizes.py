"""BatchSizes: smaller batches for producers whose batches were too large for a topic.

Source: RecordAccumulator.splitAndReenqueue (Kafka 4.3).
Differs: Java's producer splits a batch that a broker refuses for its size. librdkafka gives up all records in it, so
that those behind it would overtake them; the task fails instead, begins again at its last offset, and its next producer
sends smaller batches: of Java's size, then of one record each, when the refusal is that record's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

# Java's batch.size, then one record
_STEPS: Final[tuple[Mapping[str, int], ...]] = ({}, {"batch.size": 16_384}, {"batch.num.messages": 1})


class BatchSizes:
    """By the producers' names, until the process ends. Threads: any."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}

    def of(self, name: str, given: Mapping[str, Any]) -> BatchSize:
        """What a new producer of this name sends, whose own settings of librdkafka are `given`."""
        step = self._steps.get(name, 0)
        smaller = {key: min(value, int(given.get(key, value))) for key, value in _STEPS[step].items()}
        found = {**given, **smaller}
        is_single = int(found["batch.num.messages"]) == 1
        return BatchSize(smaller, 0 if is_single else int(found["batch.size"]), partial(self._less, name, step + 1))

    def _less(self, name: str, step: int) -> None:
        self._steps[name] = max(step, self._steps.get(name, 0))


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How large one producer's batches are."""

    settings: Mapping[str, int]
    """Make librdkafka's batches smaller than the producer's own settings do."""
    most_bytes: int
    """What records that are sent together have; 0 where each goes alone."""
    make_smaller: Callable[[], None]
    """The next producer of the name sends smaller ones."""

    def refused(self, record_bytes: int) -> bool:
        """The batch with such a record was too large. Whether it will be sent in a smaller one: it is not to blame.

        A record that is larger than a batch may be was alone.
        """
        if record_bytes > self.most_bytes or not self.most_bytes:
            return False
        self.make_smaller()
        return True


BATCH_SIZES: Final = BatchSizes()
