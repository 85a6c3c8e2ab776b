"""A Java source task in a chain of ours. Its whole chain in Java: encoded.py."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import RecordBatch, RecordMetadata, SourceRecord, SourceTask
from kconnect.errors import ConnectError
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.descriptions import version_of
from kconnect.java.plugins.encoded import EncodedPoll, JavaChain, encoded_poll
from kconnect.java.plugins.hosting import Hosted
from kconnect.java.plugins.java_error import JavaHostDiedError, java_error
from kconnect.java.plugins.plugin_metrics import JavaMetrics

if TYPE_CHECKING:
    from kconnect.java.plugins.runs import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record with a value that is not of its schema: no column can have it. Values that do not fit are texts here."""

    record: SourceRecord
    error: ConnectError

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class PolledRuns:
    """What one poll gave where its records differ in topic, schemas or source partition, in order.

    One offset may be that of records in several runs: none is committed before all runs are sent.
    """

    runs: Sequence[RecordBatch | list[SourceRecord] | Misfit]

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)


class JavaSourceTask(Hosted, SourceTask):
    """Runs o.a.k.connect.source.SourceTask in the host JVM. Threads and errors as SourceTask's."""

    def __init__(self) -> None:
        self._java: JavaConnection | None = None
        self._chain: JavaChain | None = None
        self._metrics: JavaMetrics | None = None
        self._ready: deque[tuple[PolledRuns | RecordBatch | list[SourceRecord], bool | None]] = deque()
        """The last poll up to each end of a transaction, and how that ends: True commits it, False aborts it."""
        self._rest: int | None = None
        """The row at which the last poll goes on, behind the end of a transaction."""
        self._done: list[list[Any]] = []  # for commitRecord
        self._forgotten: list[int] = []  # records that it is not called for
        self._numbers: dict[int, tuple[SourceRecord, int]] = {}  # by id(), of records that have not been reported yet
        self._wants_each = False
        self._gives_runs = False

    def encode_with(self, chain: JavaChain) -> None:
        """Have Java transform and convert as well: poll() then gives an EncodedPoll. Call before start()."""
        self._chain = chain

    def give_runs(self) -> None:
        """Have poll() give PolledRuns, not one list, where columns of a poll differ. Call before start()."""
        self._gives_runs = True

    @property
    def wants_each(self) -> bool:
        """Whether its class overrides commitRecord(), which wants the place of each record. Starts the JVM to ask.

        From then on stop() or release() is due.
        """
        self._opened()
        return self._wants_each

    def version(self) -> str:
        return version_of(type(self))

    def start(self, props: Mapping[str, str]) -> None:
        chain = {} if self._chain is None else self._chain.to_json()
        transactions = self.context.transaction_context() is not None
        self._metrics = JavaMetrics(self.context.plugin_metrics())
        tags = self._metrics.tags
        self._opened().call("start", config=dict(props), chain=chain, tags=tags, transactions=transactions)

    def _opened(self) -> JavaConnection:
        if self._java is None:
            self._java = self.connect("source", answer=self._answer, event=self._event)
            self._wants_each = bool(self._java.call("wants")["each"])
        return self._java

    def poll(self) -> Any:  # list[SourceRecord] | RecordBatch | PolledRuns | EncodedPoll | None
        if self._ready:
            return self._next_part()
        rest, self._rest = self._rest, None
        if rest is not None:
            return self.go_on(rest)
        self._tell_done()
        return self._taken(self._connection.call("poll"))

    def go_on(self, row: int) -> EncodedPoll:
        """The records of the last poll from a row on, after one that failed."""
        found = self._taken(self._connection.call("go_on", **{"from": row}))
        assert isinstance(found, EncodedPoll)
        return found

    def record(self, row: int) -> SourceRecord:
        """A record of the last poll as the task gave it, for the report of its failure."""
        from kconnect.java.plugins.blocks import BlockReader
        from kconnect.java.plugins.runs import Run, source_records

        block = BlockReader(self._connection.call("record", row=row))
        (run,) = (Run(block, reported) for reported in block.head()["runs"])
        return source_records(run)[0]

    def commit(self) -> None:
        self._tell_done()
        self._connection.call("commit")

    def commit_record(self, record: SourceRecord | int, metadata: RecordMetadata | None) -> None:
        """`record`: what poll() gave, or of an EncodedPoll the number by which Java knows it."""
        reported: list[Any] = [self._number_of(record)]
        if metadata is not None:
            reported += metadata
        self._done.append(reported)

    def forget(self, records: Iterable[SourceRecord | int]) -> None:
        """Nobody calls commit_record for these."""
        self._forgotten += map(self._number_of, records)

    def _number_of(self, record: SourceRecord | int) -> int:
        return record if isinstance(record, int) else self._numbers.pop(id(record))[1]

    def stop(self) -> None:
        if self._java is not None:
            try:
                try:
                    self._tell_done()
                finally:
                    self._java.call("stop")
            except JavaHostDiedError as err:
                log.info("%s: its JVM is gone, so there is nothing to stop: %s", self.java_class, err)
            finally:
                self._java.close()
                self._java = None
                if self._metrics is not None:
                    self._metrics.close()

    def release(self) -> None:
        """End what was opened to ask its class, of a task that is not started. Idempotent."""
        if self._java is not None:
            self._java.close()
            self._java = None

    # --- what Java gives ---

    @property
    def _connection(self) -> JavaConnection:
        if self._java is None:
            raise ConnectError(f"{self.java_class} is not started")
        return self._java

    def _taken(self, body: Any) -> Any:
        if not len(body):
            return None
        from kconnect.java.plugins.blocks import BlockReader
        from kconnect.java.plugins.runs import Run

        block = BlockReader(body)
        head = block.head()
        if not int(head["polled"]):
            self._end_transaction(head["commits"])
            return None
        if self._chain is not None:
            made = encoded_poll(block, head, self)
            if made.failure is None and int(head["to"]) < int(head["polled"]):
                self._rest = int(head["to"])
            self._end_transaction(head.get("commits"))
            return made
        number, part = int(head["first"]), []
        for run in [Run(block, reported) for reported in head["runs"]]:
            part.append((run, number))
            number += run.rows
            commits = run.head.get("commits")
            if commits is not None or number == int(head["first"]) + int(head["polled"]):
                self._ready.append((self._joined(part), commits))
                part = []
        return self._next_part()

    def _joined(self, part: Sequence[tuple[Run, int]]) -> PolledRuns | RecordBatch | list[SourceRecord]:
        """Runs that are delivered together, each with the number of its first record.

        Errors: that of a record which does not fit its schema where nobody takes runs, unless errors.tolerance=all.
        """
        from kconnect.java.plugins.runs import source_batch, source_records

        if any(run.misfit is not None for run, _ in part):
            if self._gives_runs:
                return PolledRuns([self._form(run, number) for run, number in part])
            for run, _ in part:
                if run.misfit is not None:
                    self.context.report_errant(source_records(run)[0], java_error(run.misfit, self.folder))
            part = [(run, number) for run, number in part if run.misfit is None]
        if self._wants_each:
            return [record for run, number in part for record in self._numbered(source_records(run), number)]
        if len(part) > 1 and not self._gives_runs:
            return [record for run, _ in part for record in source_records(run)]
        runs = [source_batch(run) or source_records(run) for run, _ in part]
        return runs[0] if len(runs) == 1 else PolledRuns(runs)

    def _form(self, run: Run, number: int) -> RecordBatch | list[SourceRecord] | Misfit:
        from kconnect.java.plugins.runs import source_batch, source_records

        if run.misfit is not None:
            (record,) = self._numbered(source_records(run), number) if self._wants_each else source_records(run)
            return Misfit(record, java_error(run.misfit, self.folder))
        if self._wants_each:
            return self._numbered(source_records(run), number)
        return source_batch(run) or source_records(run)

    def _next_part(self) -> PolledRuns | RecordBatch | list[SourceRecord]:
        given, commits = self._ready.popleft()
        self._end_transaction(commits)
        return given

    def _end_transaction(self, commits: bool | None) -> None:
        """Ask for the end of the transaction after the records that are given now."""
        context = None if commits is None else self.context.transaction_context()
        if context is not None:
            (context.commit_transaction if commits else context.abort_transaction)()

    def _numbered(self, records: list[SourceRecord], first: int) -> list[SourceRecord]:
        self._numbers.update((id(record), (record, number)) for number, record in enumerate(records, first))
        return records

    def _tell_done(self) -> None:
        done, self._done = self._done, []
        forgotten, self._forgotten = self._forgotten, []
        if done or forgotten:
            self._connection.call("commit_records", records=done, forgotten=forgotten)

    def _event(self, what: str, arguments: Any) -> None:
        if self._metrics is not None:
            self._metrics.reported(what, arguments)

    def _answer(self, what: str, arguments: Any) -> Any:
        if what == "offsets":
            return self.context.offset_storage_reader().offsets(arguments)
        if what == "configs":
            return dict(self.context.configs())
        raise ConnectError(f"A source task does not answer {what}")
