"""One task of a stream, polled ahead on a thread of its own into the spool, until Spark asks for what there is."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from kconnect.api import RecordBatch, SourceRecord
from kconnect.spark.datasource.columns import Columns
from kconnect.spark.datasource.positions import Positions
from kconnect.spark.datasource.source_task import Polled, SourceTaskRun
from kconnect.spark.datasource.spool import Spool, SpooledFile, SpoolWriter

log = logging.getLogger(__name__)

# What a poller may be ahead of Spark by, at most: wide rows reach it before kconnect.max.rows
_AHEAD_BYTES = 256 * 1024 * 1024
# A stop waits so long for a poll() that is running; then the thread is left to the end of the process.
_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Cut:
    """What a task gave since the last cut: a whole file, and how far it got. `file` is None if no row was left."""

    file: SpooledFile | None
    positions: Positions
    records: Sequence[SourceRecord] = field(default=(), repr=False)
    """For a task with commit_record()."""


class TaskPoller:
    """Threads: its own polls; all public methods any. Lifecycle: constructed -> start -> stop.

    What is polled is taken whole: a cut lies between two polls, never in one, since the offsets of a poll's last
    record may be those of the whole poll.
    """

    def __init__(
        self, run: SourceTaskRun, columns: Columns, spool: Spool, max_rows: int, changed: threading.Condition
    ) -> None:
        """`changed`: notified when there is more to take, when the task goes idle, and when it fails."""
        self._run, self._columns, self._spool, self._max_rows = run, columns, spool, max_rows
        self._changed = changed  # guards what stands below
        self._positions = Positions()
        self._has_moved = False
        self._writer: SpoolWriter | None = None
        self._records: list[SourceRecord] = []
        self._commits: list[Cut] = []
        self._committed = Positions()
        self._failure: BaseException | None = None
        self._is_over = False
        self._limit: float = max_rows
        self._thread = threading.Thread(target=self._work, name=f"kconnect-poll-{run.index}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def failure(self) -> BaseException | None:
        """What ended the task."""
        return self._failure

    @property
    def rows(self) -> int:
        """Rows that a cut would take."""
        return self._writer.rows if self._writer is not None else 0

    @property
    def is_quiet(self) -> bool:
        """Whether the task has nothing to give right now, or is waiting for Spark to take what it gave."""
        return self._is_over or self._run.idleness.is_idle or self._run.idleness.is_at_end or self._is_ahead()

    def end_when_idle(self, idle_s: float) -> None:
        """Poll no more once the task has given nothing for so long."""
        self._run.idleness.end_after(idle_s)

    def allow(self, rows: float) -> None:
        """Let the task be ahead by so many rows."""
        with self._changed:
            self._limit = rows
            self._changed.notify_all()

    def cut(self) -> Cut | None:
        """End the current file and take it. None if nothing was polled. Errors: ConnectError for a full disk."""
        with self._changed:
            if not self._has_moved:
                return None
            writer, self._writer = self._writer, None
            records, self._records = self._records, []
            self._has_moved = False
            made = Cut(None if writer is None else writer.close(), self._positions.copy(), records)
            self._limit = self._max_rows
            self._changed.notify_all()
            return made

    def committed(self, cuts: Sequence[Cut]) -> None:
        """Spark has committed these: the task's hooks are called between two polls."""
        with self._changed:
            self._commits += cuts
            self._changed.notify_all()

    def ask_to_stop(self) -> None:
        """Have the thread end after its poll, without waiting for it."""
        self._run.ask_to_stop()
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread; what was polled and not cut is dropped: it is in no offset."""
        self.ask_to_stop()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            log.warning("%s.poll() has not come back within %g s of the stop", self._run.name, _STOP_S)
        with self._changed:
            writer, self._writer = self._writer, None
        if writer is not None:
            self._spool.remove([writer.close().name])

    def _work(self) -> None:
        try:
            try:
                self._run.start()
                while self._may_go_on():
                    self._call_hooks()
                    if self._run.idleness.is_at_end or self._is_ahead():
                        continue  # it was woken for the hooks alone
                    polled = self._run.poll()
                    if polled is not None:
                        self._take(polled)
                    self._tell()
                self._call_hooks()
            finally:
                self._run.stop()
        except BaseException as error:  # reported to Spark by the planner
            self._failure = error
        finally:
            self._is_over = True
            self._tell()

    def _may_go_on(self) -> bool:
        """Waits while there is nothing to do: far enough ahead, or at the end. False when it must stop."""
        idleness = self._run.idleness
        with self._changed:
            while (self._is_ahead() or idleness.is_at_end) and not self._commits and not idleness.is_stopping:
                self._changed.notify_all()
                self._changed.wait(1.0)
        return not idleness.is_stopping

    def _is_ahead(self) -> bool:
        writer = self._writer
        if writer is None or self._limit == float("inf"):
            return False
        return writer.rows >= self._limit or writer.size >= _AHEAD_BYTES

    def _take(self, polled: Polled) -> None:
        """Spool what was polled; from here on it may be cut."""
        batches = [self._columns.batch(rows) for rows in self._run.rows(polled)]
        with self._changed:
            if self._run.idleness.is_stopping:
                return  # nobody takes it any more
            for batch in batches:
                if self._writer is None:
                    self._writer = self._spool.writer(f"{self._run.index}-{uuid.uuid4().hex[:12]}.arrow", batch.schema)
                self._writer.write(batch)
            if self._run.wants_each:
                self._records += polled.to_records() if isinstance(polled, RecordBatch) else polled  # type: ignore[arg-type]
            self._positions.advance(polled)
            self._has_moved = True
            self._changed.notify_all()

    def _call_hooks(self) -> None:
        with self._changed:
            commits, self._commits = self._commits, []
        for cut in commits:
            moved, self._committed = self._committed.moved_to(cut.positions), cut.positions
            with self._changed:
                busy = cut.positions.moved_to(self._positions)
            updated = self._run.updated(moved, busy)
            if updated is not None:
                with self._changed:
                    self._positions.take(updated)  # into the offset of the next rows
            self._run.committed(cut.records)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
