"""TopicBatches: plans, writes and commits the batches of a sink's query, one at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from kconnect.errors import ConnectError, FencedError
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import CommittedOffset, FencedOffsets
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.spark.query.batch_writer import BatchWriter
from kconnect.spark.query.positions import Offsets, TopicPosition
from kconnect.spark.query.starts import Starts
from kconnect.spark.query.topic_ends import TopicEnds

log = logging.getLogger(__name__)

# Kafka forgets each offset of a group without members when it is offsets.retention.minutes old, a week by default: that
# of a partition without records would go while the query runs, and its records be read again from the first
_RENEW_EVERY_S: Final = 3600.0


class TopicBatches:
    """The batches of one start. What is planned is committed before a batch is written, what is done after it.

    Threads: any; `_writing` is held by who uses the position and the offsets.
    """

    def __init__(
        self,
        control: TaskControl,
        starts: Starts,
        key: str,
        position: TopicPosition,
        offsets: FencedOffsets,
        ends: TopicEnds,
    ) -> None:
        """`key`: of the start. `offsets` and `ends` are closed by others, once this start is over."""
        self._control = control
        self._starts = starts
        self._key = key
        self._position = position
        self._offsets = offsets
        self._ends = ends
        self._writing = threading.Lock()
        self._renewed_s = float("-inf")  # when offsets of all partitions were committed last

    @property
    def position(self) -> TopicPosition:
        return self._position

    def write(self, writer: BatchWriter, rows: Any, number: int, end: Offsets) -> None:  # a DataFrame
        """Plan up to `end`, write the rows as batch `number`, commit. Errors: Spark's; FencedError; ConnectError."""
        with self._writing, self._starts.batch(self._key):
            ahead = self._position.ahead(end)
            if ahead != self._position.planned:
                self._position = self._position.plan(ahead)
                self._commit(self._position.to_commit(), settles=True)
            writer.write(rows, number)
            before, ended = self._position.done, self._position.ended()
            self._commit(ended.to_commit_as_ended({**ahead, **self._to_renew(ended)}))
            self._position = ended
            self._control.counters.commits += 1
            self._control.used_topics({at.topic for at, to in ahead.items() if to > before.get(at, 0)})

    def renew(self) -> None:
        """Commit the offsets of all partitions again if that is due. Threads: the housekeeping one; between batches."""
        if not self._writing.acquire(blocking=False):  # a batch is being written, which does it
            return
        try:
            if self._control.is_stopping or not self._starts.is_latest(self._key) or self._position.planned:
                return
            with self._starts.batch(self._key):
                if due := self._to_renew(self._position):
                    self._commit(self._position.to_commit_as_ended(due))
        except ConnectError as error:
            self._renewed_s = float("-inf")
            log.warning("The offsets of %s were not renewed, which will be retried: %s", self._control.spec.id, error)
        finally:
            self._writing.release()

    def _to_renew(self, position: TopicPosition) -> Offsets:
        """The offsets to commit again: of all partitions that exist, or of none until an hour has passed."""
        now_s = time.monotonic()
        if now_s - self._renewed_s < _RENEW_EVERY_S:
            return {}
        existing = self._ends.partitions()  # an offset of one that does not would have all refused
        self._renewed_s = now_s
        return {at: position.done[at] for at in existing if at in position.done}

    def _commit(self, to: Mapping[TopicPartition, CommittedOffset], *, settles: bool = False) -> None:
        """With `settles` until it is there for good: a plan that Kafka forgets would be made again, with other records,
        for a number that the table may have. Errors: FencedError if a newer query writes this group's offsets;
        ConnectError.
        """
        health, offsets, began_s = self._control.health, self._offsets, time.monotonic()
        health.commit_began(began_s)
        try:
            if not offsets.write(to, self._gives_up) or (settles and not offsets.await_settled(to, self._gives_up)):
                raise FencedError("The task was abandoned: nothing more of it is committed")
        except ConnectError:
            self._control.counters.commit_failures += 1
            raise
        finally:
            health.commit_done()
        self._control.counters.commit_ms.note((time.monotonic() - began_s) * 1000)

    def _gives_up(self) -> bool:
        return self._control.is_cancelled
