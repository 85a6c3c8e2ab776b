"""A Java source task in a chain of ours. Its whole chain in Java: encoded.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from kconnect.api import RecordBatch, RecordMetadata, SourceRecord, SourceTask
from kconnect.errors import ConnectError
from kconnect.java_plugins.connection import JavaConnection
from kconnect.java_plugins.descriptions import version_of
from kconnect.java_plugins.encoded import EncodedPoll, JavaChain, encoded_poll
from kconnect.java_plugins.hosting import Hosted


class JavaSourceTask(Hosted, SourceTask):
    """Runs o.a.k.connect.source.SourceTask in the host JVM. Threads and errors as SourceTask's."""

    def __init__(self) -> None:
        self._java: JavaConnection | None = None
        self._chain: JavaChain | None = None
        self._ready: deque[RecordBatch | list[SourceRecord]] = deque()
        self._done: list[list[Any]] = []  # for commitRecord
        self._numbers: dict[int, tuple[SourceRecord, int]] = {}  # by id(), of records that have not been told yet
        self._wants_each = False
        self.wants_metadata = False
        """Whether commitRecord() wants the place of each record in Kafka."""

    def encode_with(self, chain: JavaChain) -> None:
        """Have Java transform and convert as well: poll() then gives an EncodedPoll. Call before start()."""
        self._chain = chain

    @property
    def wants_each(self) -> bool:
        """Whether records must be sent one by one. Asks Java, so it starts the JVM."""
        self._opened()
        return self.wants_metadata or (self._wants_each and self._chain is None)

    def version(self) -> str:
        return version_of(type(self))

    def start(self, props: Mapping[str, str]) -> None:
        chain = {} if self._chain is None else self._chain.to_json()
        transactions = self.context.transaction_context() is not None
        self._opened().call("start", config=dict(props), chain=chain, tags=self.tags(props), transactions=transactions)

    def _opened(self) -> JavaConnection:
        if self._java is None:
            self._java = self.connect("source", answer=self._answer)
            told = self._java.call("wants")
            self._wants_each, self.wants_metadata = bool(told["each"]), bool(told["metadata"])
        return self._java

    def poll(self) -> Any:  # list[SourceRecord] | RecordBatch | EncodedPoll | None
        if self._ready:
            return self._ready.popleft()
        self._tell_done()
        return self._taken(self._connection.call("poll"))

    def go_on(self, row: int) -> EncodedPoll:
        """The records of the last poll from a row on, after one that failed."""
        found = self._taken(self._connection.call("go_on", **{"from": row}))
        assert isinstance(found, EncodedPoll)
        return found

    def record(self, row: int) -> SourceRecord:
        """A record of the last poll as the task gave it, for the report of its failure."""
        from kconnect.java_plugins.blocks import BlockReader
        from kconnect.java_plugins.runs import Run, source_records

        block = BlockReader(self._connection.call("record", row=row))
        (run,) = (Run(block, told) for told in block.head()["runs"])
        return source_records(run)[0]

    def commit(self) -> None:
        self._tell_done()
        self._connection.call("commit")

    def commit_record(self, record: SourceRecord | int, metadata: RecordMetadata | None) -> None:
        """`record`: what poll() gave, or of an EncodedPoll the number by which Java knows it."""
        number = record if isinstance(record, int) else self._numbers.pop(id(record))[1]
        told: list[Any] = [number]
        if metadata is not None:
            told += [metadata.topic, metadata.partition, metadata.offset, metadata.timestamp]
        self._done.append(told)

    def acknowledged(self, first: int, count: int) -> None:
        """Kafka has these records. Threads: any."""
        if self._wants_each and not self.wants_metadata:
            self._done.extend([number] for number in range(first, first + count))

    def stop(self) -> None:
        if self._java is not None:
            try:
                self._tell_done()
                self._java.call("stop")
            finally:
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
        from kconnect.java_plugins.blocks import BlockReader
        from kconnect.java_plugins.runs import Run, source_batch, source_records

        block = BlockReader(body)
        head = block.head()
        if self._chain is not None:
            return encoded_poll(block, head, self)
        runs = [Run(block, told) for told in head["runs"]]
        if head.get("transactions") or self._wants_each:
            records = [record for run in runs for record in source_records(run)]
            return self._numbered(self._with_endings(records, head), int(head["first"]))
        self._ready.extend(source_batch(run) or source_records(run) for run in runs)
        return self._ready.popleft() if self._ready else None

    def _with_endings(self, records: list[SourceRecord], head: Mapping[str, Any]) -> list[SourceRecord]:
        """The records, with the ends of transactions that the task asked for."""
        context = self.context.transaction_context()
        for row, commits in head.get("transactions", ()) if context is not None else ():
            assert context is not None
            end = context.commit_transaction if commits else context.abort_transaction
            end(records[row])
        return records

    def _numbered(self, records: list[SourceRecord], first: int) -> list[SourceRecord]:
        if self._wants_each:
            self._numbers.update((id(record), (record, number)) for number, record in enumerate(records, first))
        return records

    def _tell_done(self) -> None:
        done, self._done = self._done, []
        if done:
            self._connection.call("commit_records", records=done)

    def _answer(self, what: str, arguments: Any) -> Any:
        if what == "offsets":
            return self.context.offset_storage_reader().offsets(arguments)
        if what == "configs":
            return dict(self.context.configs())
        raise ConnectError(f"A source task does not answer {what}")
