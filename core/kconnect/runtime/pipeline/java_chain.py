"""Tasks whose whole chain is Java's: records cross as bytes, failures of a stage are settled by our policy.

A chain counts as Java's when the connector is, and each transformation, predicate and converter is Java's too, or a
built-in of ours with a twin among Kafka's own classes that knows all its settings. What a sink is put is then
`TakenByJava`, made by `JavaDecoding`; what poll() of any Java source returned is known by `JavaPolls`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kconnect.api import SinkRecord, SourceRecord, SourceTask, TimestampType
from kconnect.java.plugins import (
    EncodedFailure,
    EncodedPoll,
    Hosted,
    JavaChain,
    JavaPart,
    JavaSinkTask,
    JavaStep,
    Misfit,
    PolledRuns,
    RawRun,
    SinkFailure,
    java_class,
    java_error,
)
from kconnect.java.plugins.encoded import EncodedPart, EncodingTask
from kconnect.model import TopicPartition
from kconnect.runtime.config.connector_config import ConnectorConfig, PluginSpec, prefixed
from kconnect.runtime.config.worker_config import worker_value
from kconnect.runtime.kafka import ByteColumn, ConsumedRun, KafkaBatch
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.inflight import SourcePosition
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.plugin_parts import connector_of
from kconnect.runtime.pipeline.polled import Polled, PolledPart, ReadyUnit, SourceConversion, polled_by
from kconnect.runtime.pipeline.polled_lists import positions_of
from kconnect.runtime.pipeline.put_queue import PutBatch
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_conversion import UsedTopics, fetched_of_run, put_batch
from kconnect.runtime.pipeline.sink_puts import Places, Put
from kconnect.runtime.pipeline.stages import DROPPED, FailurePolicy, Stage, StageError
from kconnect.runtime.plugins import PluginRegistry

_VERSION = "plugin.version"
_TWINS = ("org.apache.kafka.connect.transforms.", "org.apache.kafka.connect.storage.", "org.apache.kafka.connect.json.",
          "org.apache.kafka.connect.converters.")  # fmt: skip

BEYOND_JAVA: Final[Mapping[str, str]] = {"field.syntax.version": "V1", "schemas.infer.enable": "false"}
"""Settings of built-ins that Kafka's class of that name would ignore, and the value that asks for no more than it does.
"""
KNOWS_IN_JAVA: Final = {"field.syntax.version": "org.apache.kafka.connect.transforms.ExtractField"}
"""The one class of Kafka's that has such a setting all the same."""


def java_chain(config: ConnectorConfig, worker: Mapping[str, str], plugins: PluginRegistry) -> JavaChain | None:
    """The chain, when all of it can run in Java; None when a part of it is Python's alone."""
    steps: list[JavaStep] = []
    beside = connector_of(config.originals, plugins)
    for spec in config.transforms:
        wanted = spec.transform.config.get(_VERSION)
        found = plugins.transformation(spec.transform.type, wanted, beside)
        transformation = _part(plugins, found, spec.transform, "transformation")
        predicate = None
        if spec.predicate is not None:
            wanted = spec.predicate.config.get(_VERSION)
            predicate = _part(
                plugins, plugins.predicate(spec.predicate.type, wanted, beside), spec.predicate, "predicate"
            )
            if predicate is None:
                return None
        if transformation is None:
            return None
        steps.append(JavaStep(transformation, predicate, spec.negate))
    key = _converter(config.key_converter, "key.converter", config, worker, plugins)
    value = _converter(config.value_converter, "value.converter", config, worker, plugins)
    header = _converter(config.header_converter, "header.converter", config, worker, plugins)
    if key is None or value is None or header is None:
        return None
    return JavaChain(tuple(steps), key, value, header)


def _converter(
    named: str | None, key: str, config: ConnectorConfig, worker: Mapping[str, str], plugins: PluginRegistry
) -> JavaPart | None:
    """The connector's converter, or the worker's with the worker's settings where it names none, as in Java."""
    settings = prefixed(worker if named is None else config.originals, f"{key}.")
    find: Any = plugins.header_converter if key == "header.converter" else plugins.converter
    name, wanted = named or worker_value(worker, key), settings.get(_VERSION)
    found = find(name, wanted, None if wanted else connector_of(config.originals, plugins))
    return _part(plugins, found, PluginSpec(key.removesuffix(".converter"), name, settings), "converter")


def _part(plugins: PluginRegistry, found: type[Any], spec: PluginSpec, kind: str) -> JavaPart | None:
    """Errors: ConfigError when its version is not the one that its settings request."""
    config = {name: value for name, value in spec.config.items() if value is not None}
    place = f"{spec.alias}.converter" if kind == "converter" else f"{kind}s.{spec.alias}"
    place = place.replace("transformations.", "transforms.", 1)
    if config.get(_VERSION) is not None:
        plugins.require_version(found(), config[_VERSION])
    if issubclass(found, Hosted):
        return JavaPart(found.java_class, found.folder, config, {kind: spec.alias}, place)
    java_name = plugins.java_name(found)
    if not java_name.startswith(_TWINS) or _asks_beyond_java(java_name, config):
        return None
    return JavaPart(java_name, None, config, {kind: spec.alias}, place)


def _asks_beyond_java(java_name: str, config: Mapping[str, str]) -> bool:
    """Whether Kafka's class would leave out what a setting asks for."""
    return any(
        config.get(setting, plain).strip().upper() != plain.upper()
        for setting, plain in BEYOND_JAVA.items()
        if java_name.partition("$")[0] != KNOWS_IN_JAVA.get(setting)
    )


class TakenByJava:
    """Records of one fetch that Java converts, transforms and puts together, meanwhile. Implements Put."""

    def __init__(self, task: JavaSinkTask, policy: FailurePolicy, calling: Calling) -> None:
        self._task = task
        self._policy = policy
        self._calling = calling
        self._batch = task.new_batch()

    def __len__(self) -> int:
        return self._batch.records

    @property
    def size(self) -> int:
        """Bytes that Java was sent."""
        return self._batch.size

    @property
    def is_under_way(self) -> bool:
        """Java has not answered yet, as far as is known."""
        return self._batch.unanswered > 0

    @property
    def fetched(self) -> Sequence[FetchedBatch]:
        """Returns None: Java knows what failing records were read as."""
        return ()

    @property
    def put_ms(self) -> float | None:
        return self._batch.put_ms

    def add(self, fetched: FetchedBatch) -> None:
        """Give Java records of one partition."""
        self._task.take(self._batch, raw_run(fetched))

    def put_soon(self) -> None:
        """Have Java put them when it has converted all of them, and put what came before."""
        self._task.put_soon(self._batch)

    def settle(self) -> bool:
        with self._calling(self._task, "put"):
            self._task.settle(self._batch)
            error, self._batch.error = self._batch.error, None
            if error is not None:
                raise error
        return self._batch.is_put

    def put(self, calls: SinkCalls) -> None:
        self._settle_failures()
        with self._calling(self._task, "put"):
            self._task.put_now(self._batch)

    def join(self, other: Put) -> bool:
        """Each run of a fetch has the same one."""
        return other is self

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        self._task.drop(self._batch, partitions)

    def take_out(self, places: Places) -> Sequence[SinkRecord]:
        """Returns None: a task of Java's reports its records by itself."""
        return ()

    def _settle_failures(self) -> None:
        """Have our policy settle the records that stages could not do. Errors: StageError for one not tolerated."""
        while self._batch.failures:
            failure = self._batch.failures.popleft()
            outcome = self._policy.on_failure(self._error(failure), partial(self._again, failure))
            if outcome is DROPPED:
                outcome = self._task.go_on(self._batch, failure.part, failure.row + 1)
            if outcome is not None:
                self._batch.failures.appendleft(outcome)

    def _again(self, failure: SinkFailure) -> SinkFailure | None:
        """The next failure after a record that went well now. Errors: as before, if it fails again."""
        found = self._task.go_on(self._batch, failure.part, failure.row)
        if found is not None and found.row == failure.row:
            raise java_error(found.error, self._task.folder)
        return found

    def _error(self, failure: SinkFailure) -> StageError:
        plugin = java_class(failure.java_class, None, Hosted)
        record, error = fetched_of(failure.raw).row(0), java_error(failure.error, self._task.folder)
        return StageError(Stage[failure.stage], plugin, record, error, failure.place)


class JavaDecoding:
    """Gives what is fetched to a Java sink task, a batch for each fetch. Implements SinkForms."""

    def __init__(
        self, task: JavaSinkTask, policy: FailurePolicy, used_topics: UsedTopics, calling: Calling = plugin_call
    ) -> None:
        self._task = task
        self._policy = policy
        self._used_topics = used_topics
        self._calling = calling
        self._batch: TakenByJava | None = None

    def batch_of(self, run: ConsumedRun) -> PutBatch:
        if self._batch is None:
            self._batch = TakenByJava(self._task, self._policy, self._calling)
        self._batch.add(fetched_of_run(run))
        self._used_topics((run.topic,))
        return put_batch(run, self._batch)

    def ended(self, *, puts: bool) -> None:
        batch, self._batch = self._batch, None
        if batch is not None and puts:
            batch.put_soon()


def raw_run(fetched: FetchedBatch) -> RawRun:
    """Fetched records in the form that Java's plugins take."""
    return RawRun(
        fetched.topic,
        fetched.partition,
        fetched.offsets,
        fetched.keys,
        fetched.values,
        fetched.timestamps,
        fetched.timestamp_type.value,
        fetched.headers,
    )


def raw_record(raw_records: RawRecords, topic: str, partition: int, offset: int) -> RawRun | None:
    """What a record that is being put was read as, a run of one row."""
    row = raw_records.at(topic, partition, offset)
    if row is None:
        return None
    return RawRun(
        topic,
        partition,
        [offset],
        [row.key],
        [row.value],
        [row.timestamp],
        row.timestamp_type.value,
        [row.headers],
    )


def reported_record(run: RawRun) -> SinkRecord:
    """A record that a Java task reports, which RawRecords knows by the bytes it came with."""
    record = SinkRecord(run.topic, run.partition, None, None, None, None, run.offsets[0])
    record._origin = fetched_of(run)
    return record


def fetched_of(run: RawRun) -> FetchedBatch:
    """Records as Java reported them, in the form in which they were fetched."""
    return FetchedBatch(
        run.topic,
        run.partition,
        list(run.offsets),
        None if run.keys is None else list(run.keys),
        list(run.values),
        None if run.times is None else list(run.times),
        TimestampType(run.time_type),
        [list(run.headers[0])] if run.headers and run.headers[0] else None,
    )


class JavaPolls:
    """Gives the form of what a Java source's poll() returned; `policy` settles the records its stages could not do."""

    def __init__(self, policy: FailurePolicy) -> None:
        self._policy = policy

    def __call__(self, task: SourceTask, given: Any) -> Polled | None:
        if isinstance(given, EncodedPoll):
            return _EncodedByJava(given, self._policy)
        if isinstance(given, PolledRuns):
            return _Runs(task, given, self._policy)
        return polled_by(task, given)


class _Runs:
    """Records in several forms. Implements Polled."""

    def __init__(self, task: SourceTask, polled: PolledRuns, policy: FailurePolicy) -> None:
        self.size = len(polled)
        runs = [_Misfit(run, policy) if isinstance(run, Misfit) else polled_by(task, run) for run in polled.runs]
        self.parts: Sequence[PolledPart] = [part for run in runs if run is not None for part in run.parts]


class _OwnPart:
    """The base of a poll that is one part. Implements Polled and PolledPart, but for the units."""

    makes_records: Final = True

    @property
    def parts(self) -> Sequence[PolledPart]:
        return (self,)  # type: ignore[return-value]  # what is derived has size and units

    def records(self) -> Sequence[SourceRecord]:
        """Returns none: Java ends its transactions itself, between polls."""
        return ()


class _Misfit(_OwnPart):
    """A record that cannot cross as it is, to be settled by our policy. Implements Polled and PolledPart."""

    size: Final = 1

    def __init__(self, misfit: Misfit, policy: FailurePolicy) -> None:
        self._misfit = misfit
        self._policy = policy

    def units(self, conversion: SourceConversion) -> Iterator[ReadyUnit]:
        record, error = self._misfit.record, self._misfit.error
        self._policy.on_failure(StageError(Stage.TASK_POLL, type(conversion.task), record, error), self._again)
        tokens = (record,) if conversion.wants_each else None
        yield ReadyUnit(positions_of([record]), 1, 0, (), (), (None,), tokens)

    def _again(self) -> None:
        raise self._misfit.error


class _EncodedByJava(_OwnPart):
    """A poll that Java has transformed and converted. Implements Polled and PolledPart. Threads: the task's."""

    def __init__(self, poll: EncodedPoll, policy: FailurePolicy) -> None:
        self.size = len(poll)
        self._poll = poll
        self._policy = policy
        self._batches: list[KafkaBatch] = []
        self._first = poll.first + poll.begin
        self._numbers: list[int] = []
        """By which Java knows the records of all batches: those from `_first` on but for dropped ones."""
        self._positions: dict[str, SourcePosition] = {}
        self._done = 0

    def units(self, conversion: SourceConversion) -> Iterator[ReadyUnit]:
        try:
            self._settle_failures()
        except StageError:
            if conversion.sends_before_failure and self._done:
                yield self._unit()
            raise
        yield self._unit()

    def _unit(self) -> ReadyUnit:
        positions, topics = list(self._positions.values()), {batch.topic for batch in self._batches}
        kept = len(self._numbers)
        if not self._poll.task.wants_each:
            return ReadyUnit(positions, self._done, kept, topics, self._batches)
        made = (record for batch in self._batches for record in batch.records())
        by_number = dict(zip(self._numbers, made, strict=True))
        every = range(self._first, self._first + self._done)
        return ReadyUnit(positions, self._done, kept, topics, (), [by_number.get(number) for number in every], every)

    def _settle_failures(self) -> None:
        """Take all of the poll. Errors: StageError; what came before its record is taken by then."""
        poll = self._poll
        self._take(poll)
        while poll.failure is not None:
            failure, task = poll.failure, poll.task
            outcome = self._policy.on_failure(_error(poll, failure), partial(_again, task, failure.row))
            if outcome is DROPPED:
                self._done += 1
                poll = task.go_on(failure.row + 1)
            else:
                poll = outcome
            self._take(poll)

    def _take(self, poll: EncodedPoll) -> None:
        """The next part of the poll, up to a record that failed."""
        for part in poll.parts:
            if len(part.values):
                self._batches.append(_batch(part))
                self._numbers += [poll.first + row for row in part.rows.to_pylist()]
        for partition, offset in poll.positions:
            self._positions[json.dumps(partition)] = (partition, offset)
        self._done += poll.done


def _again(task: EncodingTask, row: int) -> EncodedPoll:
    """The rest of the poll, beginning with the record that failed. Errors: as then, if it fails again."""
    found = task.go_on(row)
    if found.failure is not None and found.failure.row == row:
        raise java_error(found.failure.error, task.folder)
    return found


def _error(poll: EncodedPoll, failure: EncodedFailure) -> StageError:
    plugin = java_class(failure.java_class, None, Hosted)
    record, error = poll.task.record(failure.row), java_error(failure.error, poll.task.folder)
    return StageError(Stage[failure.stage], plugin, record, error, failure.place)


def _batch(part: EncodedPart) -> KafkaBatch:
    return KafkaBatch(
        part.topic,
        part.partition,
        None if part.keys.null_count == len(part.keys) else ByteColumn(part.keys),
        ByteColumn(part.values),
        None if part.times is None else list(part.times),
        part.headers,
    )
