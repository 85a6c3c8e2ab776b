"""`spark.readStream` of `format("kconnect")`: Spark's calls, passed on to the StreamPlanner.

The planner decides where each micro-batch of a stream ends, and finds its rows again after a crash.

A connector has no plan: what there is shows only when it is polled. So its tasks are polled ahead, beside the driver,
into the spool; a micro-batch ends between two polls, and Spark's offset names both the source offsets there and the
files with the rows. Executors read the files. After a crash Spark asks for the same two offsets again and gets the
same files, byte for byte; if they are gone, the tasks are polled again from the first offset to the second.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.spark.datasource.columns import Columns
from kconnect.spark.datasource.connector import ConnectorOfFormat, SourcePlanningContext
from kconnect.spark.datasource.failures import reported_to_spark
from kconnect.spark.datasource.poller import Cut, TaskPoller
from kconnect.spark.datasource.positions import Positions, Replay
from kconnect.spark.datasource.source_task import SourceTaskRun
from kconnect.spark.datasource.spool import Spool, SpooledFile

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are worth a Spark task of their own
_ROWS_OF_A_TASK: Final = 50_000
_MOST_TASKS: Final = 64


@dataclass
class SpooledPart(InputPartition):
    """Arrow batches of one spooled file: what one Spark task reads."""

    folder: str
    name: str
    first: int
    end: int


class ConnectorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in Spark's planner process, from the start of the query to its stop; copies on executors only `read`.

    Threads: one.
    """

    def __init__(self, connector: ConnectorOfFormat, columns: Columns) -> None:
        self._max_rows = connector.options.max_rows
        self._planner: StreamPlanner | None = StreamPlanner(connector, columns)

    def initialOffset(self) -> dict[str, Any]:
        return self._plan.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._plan.end_when_idle()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with reported_to_spark("polling the source"):
            return self._plan.latest(start, None if isinstance(limit, ReadAllAvailable) else self._rows_of(limit))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with reported_to_spark(f"planning batch {end.get('batch')}"):
            spool, files = self._plan.files(start, end)
            return [
                SpooledPart(spool.folder, file.name, first, last)
                for file in files
                for first, last in _spans(file.rows, file.batches)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SpooledPart)
        with reported_to_spark("reading the spool"):
            yield from Spool(partition.folder).read(partition.name, partition.first, partition.end)

    def commit(self, end: dict[str, Any]) -> None:
        with reported_to_spark(f"committing batch {end.get('batch')}"):
            self._plan.commit(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.stop()

    def __getstate__(self) -> Mapping[str, Any]:
        """Executors get no settings: no secret of a stream travels to them."""
        return {"_max_rows": self._max_rows, "_planner": None}

    @property
    def _plan(self) -> StreamPlanner:
        assert self._planner is not None, "only `read` is called on executors"
        return self._planner

    def _rows_of(self, limit: ReadLimit) -> int:
        return int(getattr(limit, "max_rows", self._max_rows))


def _spans(rows: int, batches: int) -> Iterator[tuple[int, int]]:
    """The batches of a file in parts of about equal size."""
    parts = max(min(rows // _ROWS_OF_A_TASK, batches, _MOST_TASKS), 1)
    edges = [batches * part // parts for part in range(parts + 1)]
    yield from itertools.pairwise(edges)


log = logging.getLogger(__name__)

_VERSION: Final = 1
# While nothing comes Spark asks a hundred times a second; a source that is busy with one poll is waited for so long.
_IDLE_ANSWER_S, _BUSY_ANSWER_S = 0.1, 5.0
# A replay ends so long after the last record, if not all offsets were met.
_REPLAY_IDLE_S = 30.0


class StreamPlanner:
    """The tasks of one streaming query, as Spark's planner sees them. Threads: one, beside those of the pollers.

    Offsets are dicts: `version`, `batch` (a count), `offsets` ([[partition, offset], ..]), `spool` and `files` (those
    of the batch that ends there).
    """

    def __init__(self, connector: ConnectorOfFormat, columns: Columns) -> None:
        self._connector, self._columns = connector, columns
        self._options = connector.options
        self._changed = threading.Condition()
        self._spool: Spool | None = None
        self._pollers: list[TaskPoller] = []
        self._end: Mapping[str, Any] | None = None
        """The offset that was given last: the pollers go on from there."""
        self._uncommitted: list[tuple[int, list[tuple[TaskPoller, Cut]]]] = []
        self._is_bounded = False
        self._committed: int | None = None
        """The last batch of which Spark said so."""

    def initial(self) -> dict[str, Any]:
        """The offset of a query that has read nothing."""
        return {"version": _VERSION, "batch": 0, "offsets": []}

    def end_when_idle(self) -> None:
        """From now on read to the end of the source only: trigger(availableNow=True)."""
        self._is_bounded = True
        for poller in self._pollers:
            poller.end_when_idle(self._options.idle_s)

    def latest(self, start: Mapping[str, Any], max_rows: int | None) -> dict[str, Any]:
        """The offset behind what there is, at most about `max_rows` (None: all) rows behind `start`; or `start`.

        Errors: what ended a task.
        """
        _check_version(start)
        self.commit(start)  # Spark asks for the next batch only once this one is committed
        if self._end is None or self._end["offsets"] != start["offsets"] or self._end["batch"] != start["batch"]:
            self._begin(start)
        self._await_rows(max_rows)
        cuts = [(poller, cut) for poller in self._pollers if (cut := poller.cut()) is not None]
        if not cuts:
            return dict(start)
        assert self._spool is not None  # since _begin
        positions = Positions.from_json(start["offsets"]).merged(cut.positions for _, cut in cuts)
        files = [cut.file for _, cut in cuts if cut.file is not None]
        self._end = self._offset(start["batch"] + 1, positions, self._spool, files)
        self._uncommitted.append((self._end["batch"], cuts))
        return dict(self._end)

    def files(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[Spool, list[SpooledFile]]:
        """The files with the rows between two offsets, polled again if they are gone.

        Errors: ConnectError when the source does not lead from one to the other any more.
        """
        _check_version(end)
        if start["batch"] == end["batch"] or not end.get("files"):
            return Spool(str(end.get("spool", "."))), []
        spool, files = Spool(end["spool"]), [SpooledFile(*file) for file in end["files"]]
        lost = [file.name for file in files if not spool.has(file)]
        if not lost:
            return spool, files
        log.warning("Batch %d is polled again: %s of %s is gone", end["batch"], ", ".join(lost), spool.folder)
        return self._polled_again(start, end)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Spark has committed what ends here: its files go, and tasks hear of it. Idempotent."""
        if end["batch"] == self._committed:
            return
        self._committed = end["batch"]
        if end.get("files"):
            spool = Spool(end["spool"])
            spool.remove([file[0] for file in end["files"]])
            if self._spool is None or spool.folder != self._spool.folder:
                spool.remove_folder()  # of an earlier run
        done = [cuts for batch, cuts in self._uncommitted if batch <= end["batch"]]
        self._uncommitted = [(batch, cuts) for batch, cuts in self._uncommitted if batch > end["batch"]]
        for poller in self._pollers:
            mine = [cut for cuts in done for of, cut in cuts if of is poller]
            if mine:
                poller.committed(mine)

    def stop(self) -> None:
        """Stop the tasks. Files of planned batches stay: Spark may ask for them again."""
        pollers, self._pollers = self._pollers, []
        for poller in pollers:
            poller.ask_to_stop()
        for poller in pollers:
            poller.stop()
        self._end = None
        if self._spool is not None and not self._uncommitted:
            self._spool.remove_folder()

    def _begin(self, start: Mapping[str, Any]) -> None:
        """Start the tasks at these offsets."""
        if self._end is not None:
            log.info("Tasks start again at batch %d", start["batch"])
        self.stop()
        self._spool = Spool.new(self._options.spool_path)
        offsets = Positions.from_json(start["offsets"])
        self._end = start
        runs = self._runs(offsets)
        most = max(self._options.max_rows // len(runs), 1)
        for run in runs:
            poller = TaskPoller(run, self._columns, self._spool, most, self._changed)
            if self._is_bounded:
                poller.end_when_idle(self._options.idle_s)
            self._pollers.append(poller)
        for poller in self._pollers:
            poller.start()

    def _runs(self, offsets: Positions) -> list[SourceTaskRun]:
        configs = self._connector.task_configs(SourcePlanningContext(offsets))
        if not configs:
            raise ConnectError(f"The connector {self._connector.config['connector.class']} has no task to run")
        return [SourceTaskRun(self._connector, config, index, offsets) for index, config in enumerate(configs)]

    def _await_rows(self, max_rows: int | None) -> None:
        """Wait until a micro-batch is worth it: enough rows, or nothing more to come right now."""
        wants_all = max_rows is None
        if wants_all:
            for poller in self._pollers:
                poller.allow(float("inf"))
        now = time.monotonic()
        linger_at, idle_at, busy_at = None, now + _IDLE_ANSWER_S, now + _BUSY_ANSWER_S
        with self._changed:
            while True:
                self._raise_failure()
                rows, now = sum(poller.rows for poller in self._pollers), time.monotonic()
                is_quiet = all(poller.is_quiet for poller in self._pollers)
                if rows:
                    linger_at = now + self._options.linger_s if linger_at is None else linger_at
                    is_enough = not wants_all and (rows >= (max_rows or 0) or now >= linger_at)
                    if is_quiet or is_enough:
                        return
                elif now >= (idle_at if is_quiet else busy_at):
                    return
                self._changed.wait(0.02)

    def _raise_failure(self) -> None:
        for poller in self._pollers:
            if poller.failure is not None:
                raise poller.failure

    def _polled_again(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[Spool, list[SpooledFile]]:
        """Poll from one offset to the other, into new files. The source must give the same records again."""
        before = Positions.from_json(start["offsets"])
        replay = Replay(before.moved_to(Positions.from_json(end["offsets"])))
        spool = Spool.new(self._options.spool_path)
        files = []
        for run in self._runs(before):
            if not replay.is_done and (file := self._replayed(run, replay, spool)) is not None:
                files.append(file)
        wanted, found = sum(file[1] for file in end["files"]), sum(file.rows for file in files)
        if not replay.is_done or found != wanted:
            spool.remove_folder()
            raise ConnectError(
                f"Batch {end['batch']} cannot be repeated: it had {pluralize(wanted, 'row')}, "
                f"and the source now gives {found:,}"
                + ("" if replay.is_done else f" and does not come to {replay.missing}"),
                hint="Its spool is gone, and the source has changed. Start with a new checkpointLocation; to be safe "
                "from it keep kconnect.spool.path on a disk that lasts as long as the checkpoint.",
            )
        return spool, files

    def _replayed(self, run: SourceTaskRun, replay: Replay, spool: Spool) -> SpooledFile | None:
        writer = None
        try:
            run.start()
            run.idleness.end_after(max(_REPLAY_IDLE_S, self._options.idle_s))
            while not replay.is_done and not run.idleness.is_at_end:
                polled = run.poll()
                for rows in () if polled is None else run.rows(replay.cut(polled)):
                    batch = self._columns.batch(rows)
                    if writer is None:
                        writer = spool.writer(f"{run.index}-{uuid.uuid4().hex[:12]}.arrow", batch.schema)
                    writer.write(batch)
        finally:
            run.stop()
        return None if writer is None else writer.close()

    def _offset(self, batch: int, positions: Positions, spool: Spool, files: Sequence[SpooledFile]) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "batch": batch,
            "offsets": positions.to_json(),
            "spool": spool.folder,
            "files": [file.to_json() for file in files],
        }


def _check_version(offset: Mapping[str, Any]) -> None:
    if offset.get("version") != _VERSION:
        raise ConnectError(
            f"The checkpoint has an offset of version {offset.get('version')}, this kconnect reads version {_VERSION}",
            hint="It belongs to another kconnect, or to another source: start with a new checkpointLocation.",
        )
