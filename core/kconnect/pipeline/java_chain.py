"""Tasks whose whole chain is Java's: records cross as bytes, failures of a stage are settled by our policy.

A chain counts as Java's when the connector is, and each transformation, predicate and converter is Java's too, or a
built-in of ours with a twin among Kafka's own classes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kconnect.api import SinkRecord, TimestampType
from kconnect.config.connector_config import ConnectorConfig, PluginSpec, prefixed
from kconnect.java_plugins import (
    EncodedFailure,
    EncodedPoll,
    Hosted,
    JavaChain,
    JavaPart,
    JavaSinkTask,
    JavaSourceTask,
    JavaStep,
    RawRun,
    java_class,
    java_error,
)
from kconnect.java_plugins.encoded import EncodedPart
from kconnect.kafka import ByteColumn
from kconnect.model import TopicPartition
from kconnect.pipeline.conversion import FetchedBatch, KafkaBatch
from kconnect.pipeline.inflight import SourcePosition
from kconnect.pipeline.plugin_parts import worker_value
from kconnect.pipeline.stages import DROPPED, FailurePolicy, RaiseAlways, Stage, StageError
from kconnect.plugins import PluginRegistry

_TWINS = ("org.apache.kafka.connect.transforms.", "org.apache.kafka.connect.storage.", "org.apache.kafka.connect.json.",
          "org.apache.kafka.connect.converters.")  # fmt: skip


def java_chain(config: ConnectorConfig, worker: Mapping[str, str], plugins: PluginRegistry) -> JavaChain | None:
    """The chain, when all of it can run in Java; None when a part of it is Python's alone."""
    steps: list[JavaStep] = []
    for spec in config.transforms:
        transformation = _part(plugins, plugins.transformation(spec.transform.type), spec.transform)
        predicate = None
        if spec.predicate is not None:
            predicate = _part(plugins, plugins.predicate(spec.predicate.type), spec.predicate)
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
    name = named or worker_value(worker, key)
    return _part(plugins, find(name), PluginSpec(key, name, settings))


def _part(plugins: PluginRegistry, found: type[Any], spec: PluginSpec) -> JavaPart | None:
    config = {name: value for name, value in spec.config.items() if value is not None}
    if issubclass(found, Hosted):
        return JavaPart(found.java_class, found.folder, config)
    java_name = plugins.java_name(found)
    return JavaPart(java_name, None, config) if java_name.startswith(_TWINS) else None


class EncodedUnit:
    """What one poll of a Java source has become: batches, and where to resume after them."""

    def __init__(self, poll: EncodedPoll) -> None:
        self.task = poll.task
        self.batches: list[KafkaBatch] = []
        self.numbers: list[list[int]] = []
        """Of each batch the numbers by which Java knows its records."""
        self.polled = 0
        self._first = poll.first + poll.start
        self._positions: dict[str, SourcePosition] = {}

    @property
    def positions(self) -> list[SourcePosition]:
        """The last offset of each source partition."""
        return list(self._positions.values())

    def add(self, poll: EncodedPoll) -> None:
        """The next part of the poll, up to a record that failed."""
        for part in poll.parts:
            if len(part.values):
                self.batches.append(_batch(part))
                self.numbers.append([poll.first + row for row in part.rows.to_pylist()])
        for partition, offset in poll.positions:
            self._positions[json.dumps(partition)] = (partition, offset)
        self.polled += poll.done

    def acknowledged(self) -> None:
        """Kafka has all of it. Threads: any."""
        self.task.acknowledged(self._first, self.polled)


class EncodedPolls:
    """Has our policy settle the records that Java's stages could not do. Threads: the task's."""

    def __init__(self, policy: FailurePolicy | None = None) -> None:
        self._policy: FailurePolicy = policy or RaiseAlways()

    def fill(self, unit: EncodedUnit, poll: EncodedPoll) -> None:
        """Add all of a poll to its unit. Errors: StageError; the unit then has what came before the record."""
        unit.add(poll)
        while poll.failure is not None:
            failure, task = poll.failure, poll.task
            error = self._error(poll, failure)
            outcome = self._policy.on_failure(error, partial(self._again, task, failure.row))
            if outcome is DROPPED:
                unit.polled += 1
                poll = task.go_on(failure.row + 1)
            else:
                poll = outcome
            unit.add(poll)

    def _again(self, task: JavaSourceTask, row: int) -> EncodedPoll:
        """The rest of the poll, beginning with the record that failed. Errors: as then, if it fails again."""
        found = task.go_on(row)
        if found.failure is not None and found.failure.row == row:
            raise java_error(found.failure.error, task.folder)
        return found

    @staticmethod
    def _error(poll: EncodedPoll, failure: EncodedFailure) -> StageError:
        plugin = java_class(failure.java_class, None, Hosted)
        return StageError(
            Stage[failure.stage], plugin, poll.task.record(failure.row), java_error(failure.error, poll.task.folder)
        )


def _batch(part: EncodedPart) -> KafkaBatch:
    return KafkaBatch(
        part.topic,
        part.partition,
        None if part.keys.null_count == len(part.keys) else ByteColumn(part.keys),
        ByteColumn(part.values),
        None if part.times is None else list(part.times),
        part.headers,
    )


@dataclass(slots=True)
class TakenByJava:
    """Records of one fetch that a Java sink task has converted and transformed, and puts together."""

    task: JavaSinkTask

    def __len__(self) -> int:
        return self.task.taken

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget those of these partitions."""
        self.task.drop(partitions)


class JavaDecoding:
    """Gives fetched records to a Java sink task; our policy settles what its stages could not do.

    Threads: the task's.
    """

    def __init__(self, task: JavaSinkTask, policy: FailurePolicy) -> None:
        self._task = task
        self._policy = policy

    def take(self, fetched: FetchedBatch) -> TakenByJava:
        """Errors: StageError for a failing record that is not tolerated."""
        failure = self._task.take(raw_run(fetched))
        while failure is not None:
            row = failure.row
            outcome = self._policy.on_failure(self._error(fetched, failure), partial(self._again, row))
            failure = self._task.go_on(row + 1) if outcome is DROPPED else outcome
        return TakenByJava(self._task)

    def _again(self, row: int) -> EncodedFailure | None:
        """The next failure after a record that went well now. Errors: as before, if it fails again."""
        failure = self._task.go_on(row)
        if failure is not None and failure.row == row:
            raise java_error(failure.error, self._task.folder)
        return failure

    def _error(self, fetched: FetchedBatch, failure: EncodedFailure) -> StageError:
        plugin = java_class(failure.java_class, None, Hosted)
        return StageError(
            Stage[failure.stage], plugin, fetched.row(failure.row), java_error(failure.error, self._task.folder)
        )


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


def reported_record(run: RawRun) -> SinkRecord:
    """A record that a Java task reports, which RawRecords knows by the bytes it came with."""
    record = SinkRecord(run.topic, run.partition, None, None, None, None, run.offsets[0])
    record._origin = FetchedBatch(
        run.topic,
        run.partition,
        list(run.offsets),
        None if run.keys is None else list(run.keys),
        list(run.values),
        None if run.times is None else list(run.times),
        TimestampType(run.time_type),
        [list(run.headers[0])] if run.headers and run.headers[0] else None,
    )
    return record
