"""Tasks: the classes that move the data, and what the runtime gives them (contexts, offset reader, transactions)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from kconnect.api.record import SinkRecord, SourceRecord
from kconnect.errors import DataError
from kconnect.model import TopicPartition

if TYPE_CHECKING:
    from kconnect.api.batch import RecordBatch
    from kconnect.api.plugin_metrics import PluginMetrics


class Task(ABC):
    """What source and sink tasks share. Extend `SourceTask` or `SinkTask`, not this.

    The runtime creates a task without arguments, then calls initialize, start, the data methods, stop; a task object is
    never started twice. Each task has its own thread. Source: o.a.k.connect.connector.Task.
    """

    def version(self) -> str:
        """The version shown in the task's status; normally the connector's.

        Called in the worker, on an object created only for this: must not depend on state or block.
        """
        return "undefined"

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Read the settings and open what the task needs: files, connections, sessions.

        Called once, on the task's thread, after initialize and before any data method. May block, but until it
        returns the task is not RUNNING and a stop must wait. An error here fails the task, and stop is still called.
        `props` is one of the dicts that the connector's task_configs gave, plus `connector.class` and the like.
        """

    @abstractmethod
    def stop(self) -> None:
        """Release all resources. Called once, even after a failed start. See the subclasses for the thread."""


class OffsetStorageReader(Protocol):
    """Reads the source offsets committed for this connector. The runtime implements it. Source: OffsetStorageReader.

    Threads: call it on the task's thread (or in the connector's start). Both methods block on the offset store, with
    a deadline. Errors: ConnectError if the store does not answer.
    """

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The last committed offset of this source partition, None if there is none."""
        ...

    def offsets(self, partitions: Collection[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """The offsets of several partitions in one read, in their order, None where there is none.

        Differs: a list in the order asked for, where Java gives a map: a Python dict cannot be a dict key.
        """
        ...


class TransactionBoundary(Enum):
    """Where an exactly-once source ends its transactions: setting `transaction.boundary`. Source: SourceTask."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    def __str__(self) -> str:
        return self.value


class TransactionContext(Protocol):
    """Lets a source task end its own transactions, with `transaction.boundary=connector`. Source: TransactionContext.

    Threads: the task's thread. With a record, the transaction ends after that record, which must come from the next
    poll; without, after the last record of the next poll. No method blocks.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Request a commit of the transaction."""
        ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Request an abort of the transaction: its records are discarded, their offsets are committed separately."""
        ...


class SourceTaskContext(Protocol):
    """What the runtime offers a source task, as `self.context`. Source: SourceTaskContext.

    Threads: call from the task's thread, that is, inside the task's methods; only wake is safe from any.
    """

    def configs(self) -> Mapping[str, str]:
        """The task's current settings, with `${..}` references resolved again. May block on a config provider."""
        ...

    def offset_storage_reader(self) -> OffsetStorageReader:
        """A reader for committed offsets, normally used in `start`."""
        ...

    def transaction_context(self) -> TransactionContext | None:
        """For ending transactions explicitly; None unless `transaction.boundary=connector` and exactly-once is on."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait that long, or until the task must stop or pause; return True if it must stop.

        For an idle poll: `if self.context.wait(0.1): return None`. Call it on the task's thread. `wake` ends it early.
        """
        ...

    def wake(self) -> None:
        """Signal new data: end the current or next `wait`. From any thread; never blocks.

        For sources that are notified on their own thread, such as a listener's.
        """
        ...

    def report_errant(self, record: SourceRecord, error: BaseException) -> None:
        """Give up a record that cannot be read as it should be, with what is known of it as its value.

        It is treated as one that a converter failed on: counted, logged, kept as a dead letter, as `errors.*` say.
        Call it inside of poll, before the records behind it are returned: the dead letter is written with those, and no
        offset past it is committed before.
        Errors: ConnectError if errors are not tolerated (`errors.tolerance=none`); let it fail the task.
        Differs: Java's sources have no such thing.
        """
        ...

    def plugin_metrics(self) -> PluginMetrics:
        """Where the task adds metrics of its own, with the tags `connector` and `task` (KIP-877). From any thread."""
        ...


class RecordMetadata(NamedTuple):
    """The position of a record in Kafka. Source: o.a.k.clients.producer.RecordMetadata."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None  # ms, None if the broker gives none
    serialized_key_size: int = -1  # bytes, -1 if there is no key
    serialized_value_size: int = -1


SourcePartitionOffset = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A source partition and the offset to resume after in it; None for no offset."""


class SourceTask(Task):
    """Reads from a system and hands records to Connect, which converts and produces them and commits the offsets.

    Extend it and write `start`, `poll` and `stop`. Source: o.a.k.connect.source.SourceTask.
    """

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        """Keep the context. Called once, on the task's thread, before start. Rarely overridden; call super if so."""
        self.context = context

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Read the settings, open the source and seek to the last committed offset.

        Called once, on the task's thread. May block. See `Task.start`.
        """

    @abstractmethod
    def poll(self) -> list[SourceRecord] | RecordBatch | None:
        """The next records, or None (or an empty list) if there are none right now.

        Called repeatedly on the task's thread, once the previous records were handed to the producer; not while the
        task is paused, nor after a stop was requested, and later if the producer cannot keep up. It may block for a
        while if the source is idle, ideally in `self.context.wait(..)`, which wakes up for a stop or a pause; a poll
        that ignores them is abandoned after `task.shutdown.graceful.timeout.ms`.
        A RecordBatch holds columns instead of records and is many times faster. After a RetriableError poll is called
        again later; any other error fails the task.
        """

    def empty_batch(self) -> RecordBatch | None:
        """A batch of no records with the schemas of those to come; None (the default) where only records tell them.

        Called on the task's thread after polls that gave nothing, by a caller that wants columns of an empty source,
        as `spark.read` does. NOT called by a worker. Differs: Java Connect has no such question.
        """
        return None

    def commit(self) -> None:
        """Hook: offsets were just committed. For sources that keep their own positions (acknowledge a queue).

        Called about every `offset.flush.interval.ms`, on the task's thread, and once at the end. The committed offsets
        may lag behind what poll returned. NOT called while poll runs, nor for a commit that failed or was empty.
        An error is only logged. Should not block for long.
        """

    def update_offsets(self, offsets: Sequence[SourcePartitionOffset]) -> Iterable[SourcePartitionOffset] | None:
        """Hook: these offsets are about to be committed; return others for them, or offsets of further partitions.

        For sources that move on without records to send (heartbeats, filtered tables): without it their offset stays
        where the last record left it. Shape: pairs of a source partition and its offset; offset None removes it, and
        None or an empty list leaves all as it is. `offsets` is empty when no record was acknowledged since the last
        commit. An offset must stand behind every record that poll has returned; what is returned for a partition with
        unacknowledged records has no effect: the next call asks again.
        Called about every `offset.flush.interval.ms` on the task's thread between two polls, at the end, and under
        exactly-once before each commit. Must not block. NOT called while poll runs (then offsets are committed without
        it after a second interval), while the task is paused, after an error, or unless the class overrides it. An
        error is logged, and the offsets are committed as they were.
        Source: KIP-910, updateOffsets(). Differs: pairs in a list, as a Python dict cannot be a dict key.
        """
        return None

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Hook: Kafka has this record, or a transform or a tolerated error dropped it, and metadata is None.

        NOT called for records of a transaction that the task aborts.

        Called once a record, in the order of acknowledgements, on the task's thread. Must not block. An error is
        only logged. `record` is as poll returned it, before transforms. NOT called unless the class overrides it:
        then batches from poll are split into records, which is slower.
        """

    @abstractmethod
    def stop(self) -> None:
        """Close the source.

        Called once, after the last poll, on the task's thread, so it may close what poll uses; even after a failed
        start. A poll that blocks for longer than the shutdown timeout is abandoned, and stop may never be called.
        Differs: Java has nothing that wakes a poll; here `context.wait` returns when the task is to stop.
        """


class ErrantRecordReporter(Protocol):
    """Takes records that a sink task cannot write. Source: o.a.k.connect.sink.ErrantRecordReporter.

    Threads: any. Reports are in the dead letter queue before offsets are committed past them.
    """

    def report(self, record: SinkRecord, error: BaseException) -> Future[None]:
        """Report one record with its error; does not block. The future completes when the report is written.

        Errors: ConnectError if errors are not tolerated (`errors.tolerance=none`).
        """
        ...


class ErrantRecordsError(DataError):
    """A sink cannot write some of the records it was given: which ones, and what is wrong with each.

    For a sink that finds out as it writes what it has gathered, when it has no record at hand to report. Raised by put,
    put_batch, flush or pre_commit: all records since the last commit are passed again without these, so forget what is
    gathered. With `errors.tolerance=all` the named ones become dead letters, as they were read; else the task fails.
    Naming a record twice, or one that was not passed since the last commit, fails the task.
    Differs: Java has no such error.
    """

    def __init__(self, errors: Mapping[tuple[TopicPartition, int], BaseException], *, hint: str | None = None) -> None:
        """`errors`: by the partition and the offset that a record was read from; at least one."""
        self.errors = dict(errors)
        (place, offset), first = next(iter(self.errors.items()))
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        super().__init__(f"The record at {place}, offset {offset}{more} cannot be written: {first}", hint=hint)


class SinkTaskContext(Protocol):
    """What the runtime offers a sink task, as `self.context`. Source: SinkTaskContext.

    Threads: call from the task's thread, that is, inside the task's methods; only request_commit is safe from any.
    """

    def configs(self) -> Mapping[str, str]:
        """The task's current settings, with `${..}` references resolved again. May block on a config provider."""
        ...

    def offset(self, tp: TopicPartition | Mapping[TopicPartition, int], offset: int | None = None) -> None:
        """Continue reading a partition at this offset, or several given as a dict; takes effect before the next put.

        For tasks that keep offsets with their data; normally called in `open`.
        """
        ...

    def plugin_metrics(self) -> PluginMetrics:
        """Where the task adds metrics of its own, with the tags `connector` and `task` (KIP-877). From any thread."""
        ...

    def timeout(self, timeout_ms: int) -> None:
        """How long to wait before the put that is about to raise RetriableError is retried; for that retry only."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """The partitions assigned to this task."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop reading these partitions until `resume`; survives until they are taken away."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        ...

    def request_commit(self) -> None:
        """Request an offset commit soon; only a hint."""
        ...

    def put_within(self, timeout_ms: int) -> None:
        """Have put called again within this time, with no records if there are none; for the next call only.

        For tasks that write some time after the first record; without it an idle put comes every 100 ms.
        Differs: Java has no such method.
        """
        ...

    def is_closing(self) -> bool:
        """Whether this pre_commit is the last of its partitions, which are taken away or the task ends.

        For tasks that do not write all they hold at each commit. Differs: Java has no such method.
        """
        ...

    def is_ending(self) -> bool:
        """Whether this pre_commit is the last of all: nothing comes behind what was put, and nobody gives it again.

        So at the end of `df.write` and of a micro-batch of Spark's: a task that holds records back until they are
        enough must write them now. False where `is_closing` is, and at the end of a worker's task: whoever has the
        partition next reads on from what was committed. Differs: Java has no such method.
        """
        ...

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """For reporting records that cannot be written; None if the connector has no error reporting configured."""
        ...


class SinkTask(Task):
    """Writes what Connect read from Kafka into a system.

    Extend it and write `start`, `put` and `stop`; `flush` when put only buffers. To take columns instead of records
    set `supports_batches = True` and write `put_batch` too. Source: o.a.k.connect.sink.SinkTask.
    """

    TOPICS_CONFIG: ClassVar[str] = "topics"
    TOPICS_REGEX_CONFIG: ClassVar[str] = "topics.regex"

    supports_batches: ClassVar[bool] = False
    """Whether the runtime may call `put_batch`."""
    fewest_in_batch: ClassVar[int] = 0
    """Fewer records of a partition are given to `put`, together with those of others that were fetched beside them.

    For tasks to which a call costs more than its records: each may be a transaction.
    """

    keeps_offsets: bool = False
    """Whether the task commits offsets itself, with what it writes, as one that writes each record once.

    Dead letters of records that never reach it (converters, transformations) are then acknowledged before each put: it
    may go on behind them. Differs: Java has no such thing.
    """

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        """Keep the context. Called once, on the task's thread, before start. Rarely overridden; call super if so."""
        self.context = context

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Read the settings and open the system to write to. Called once, on the task's thread. See `Task.start`."""

    @abstractmethod
    def put(self, records: list[SinkRecord]) -> None:
        """Write or buffer these records.

        Called repeatedly on the task's thread, between open and close, with the records of one consumer poll after
        converters and transforms; with an empty list if there are none, so that a task can act on time. NOT
        called while paused. Records of one partition are in order. It may block, but together with flush for less than
        `max.poll.interval.ms` (5 minutes), or the group revokes the partitions.
        Errors: RetriableError: the same records are passed again after a back-off; ErrantRecordsError: all since the
        last commit are, without those it names; any other error fails the task.
        """

    def put_batch(self, batch: RecordBatch) -> None:
        """Write one batch of columns: records of one topic partition that share their schemas.

        Called instead of `put` if `supports_batches` is True and the records could stay columnar; otherwise, and if a
        batch must be replayed record by record after an error, put is called: implement both. Thread, blocking and
        errors as for put.
        """
        raise NotImplementedError(f"{type(self).__name__} sets supports_batches but has no put_batch")

    def flush(self, current_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything that was put durable; offsets are committed when it returns. Default: nothing.

        Called on the task's thread by `pre_commit`, about every `offset.flush.interval.ms` (also while paused), when
        partitions are taken away and when the task ends, even by an error in put. NOT called before anything was put,
        nor for partitions that were lost. May block like put. After a RetriableError offsets are not committed and
        the records since the last commit are passed again, after an ErrantRecordsError without those it names: forget
        what is gathered. Any other error fails the task. `current_offsets` are the next offsets to read, by partition.
        """

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets that are safe to commit; by default all, after `flush`.

        Called like flush. Override it to commit less than was put; omitted partitions are not committed.
        Shape: offset of the next record to read, as in Kafka; values beyond the current ones are refused and logged.
        """
        self.flush(current_offsets)
        return current_offsets

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are read from now on. For one writer per partition. Default: nothing.

        Called on the task's thread after start and after each rebalance that assigned partitions, before any put of
        theirs. May block briefly. An error fails the task.
        """

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are no longer read. Default: nothing.

        Called on the task's thread before partitions are given away and before stop, after pre_commit for them; also
        for partitions that were lost, when nothing can be committed anymore. NOT called if the process dies.
        """

    @abstractmethod
    def stop(self) -> None:
        """Release all resources. Called once, on the task's thread, after the last put and close; even after a failed
        start. NOT called if the process dies: correctness must not depend on it.
        """
