"""PythonSink: a function of the user's is called with what comes from Kafka."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectError,
    DataError,
    RecordBatch,
    RetriableError,
    SinkRecord,
    SinkTask,
)
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector, raised_by
from kconnect.builtin.connectors.python.made_records import table_of, table_of_records
from kconnect.builtin.connectors.python.user_code import ARGUMENTS_PREFIX, UserFunction, takes_of
from kconnect.builtin.user_functions import FUNCTION_CONFIG
from kconnect.builtin.version import KAFKA_VERSION

TAKES_CONFIG = "function.takes"
AUTO, RECORD, RECORDS, ARROW = "auto", "record", "records", "arrow"
_GIVEN = ("config",)
# What Python raises for a value that is not as it should be; pyarrow's errors of values are some of them
_OF_VALUES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError, DataError)
_T, _I = ConfigDef.Type, ConfigDef.Importance
CONFIG = (
    ConfigDef()
    .define_prefix(ARGUMENTS_PREFIX)
    .define(
        FUNCTION_CONFIG,
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "module:function, which stores what it is called with before it returns. It may be async. "
        "function.args.NAME=VALUE gives it more arguments.",
    )
    .define(
        TAKES_CONFIG,
        _T.STRING,
        AUTO,
        ConfigDef.ValidString.in_(AUTO, RECORD, RECORDS, ARROW),
        _I.HIGH,
        "What its first argument is: a SinkRecord, a list of them, or a pyarrow.Table of their values; auto: as the "
        "annotation says, a record without one.",
    )
)


class PythonSinkConnector(UniformSinkConnector):
    """Calls one function; each task in its own slot. Any offset is fine: only the function knows what it has stored."""

    table = CONFIG

    def start(self, props: Mapping[str, str]) -> None:
        _function(props)
        super().start(props)

    def task_class(self) -> type[SinkTask]:
        return PythonSinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """Gives the problems of the function, whose module is imported."""
        return raised_by(partial(_function, props), CONFIG, FUNCTION_CONFIG)


def _function(props: Mapping[str, str]) -> UserFunction:
    function = UserFunction(CONFIG.parse(props)[FUNCTION_CONFIG], props, _GIVEN, first=True)
    if inspect.isgeneratorfunction(function.call) or inspect.isasyncgenfunction(function.call):
        problem = "It is a generator: nothing of it would run. A sink's function takes records and returns"
        raise ConfigError.invalid(FUNCTION_CONFIG, function.name, problem)
    return function


class PythonSinkTask(SinkTask):
    """Offsets are committed for what the function has returned from.

    A record that the function raises for is given up: the error reporter gets it, or the task fails. Of many records
    those are found by calling it again with fewer of them. What is no record's fault fails the task: an OSError, and
    an error that is not one of values, where no record of several can be stored.
    After a RetriableError all records of the put come again, those before it too.
    """

    supports_batches = True

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        function = self._function = _function(props)
        chosen = CONFIG.parse(props)[TAKES_CONFIG]
        self._takes: str = (takes_of(function.call) or RECORD) if chosen == AUTO else chosen
        self._arguments = function.arguments(config=dict(props))
        if inspect.iscoroutinefunction(function.call):
            self._runner = asyncio.Runner()

    def put(self, records: list[SinkRecord]) -> None:
        if not records:
            return
        if self._takes == RECORD:
            for record in records:
                self._store_one(record)
        elif self._takes == RECORDS:
            self._store(len(records), lambda start, stop: records[start:stop], records.__getitem__)
        else:
            for part in _by_schema(records):
                self._store(len(part), partial(_table, part), part.__getitem__)

    def put_batch(self, batch: RecordBatch) -> None:
        if self._takes == ARROW:
            self._store(
                len(batch),
                lambda start, stop: table_of(batch.slice(start, stop - start)),
                lambda row: batch.slice(row, 1).to_records()[0],  # type: ignore[arg-type,return-value]  # a sink's
            )
        else:
            self.put(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records

    def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _store_one(self, record: SinkRecord) -> None:
        try:
            self._call(record)
        except RetriableError:
            raise
        except ConnectError as error:
            self._give_up(record, error)

    def _store(self, count: int, given: Callable[[int, int], Any], record: Callable[[int], SinkRecord]) -> None:
        """Call the function with rows; where it raises, find the rows it raises for. Errors: what is no row's fault."""
        try:
            return self._call(given(0, count))
        except RetriableError:
            raise
        except ConnectError as error:
            if count == 1:
                return self._give_up(record(0), error)
            if not _may_be_of_data(error) or self.context.errant_record_reporter() is None:
                raise
            whole = error
        refused: list[tuple[int, ConnectError]] = []
        spans = [(count // 2, count), (0, count // 2)]
        while spans:
            start, stop = spans.pop()
            try:
                self._call(given(start, stop))
            except RetriableError:
                raise
            except ConnectError as error:
                if not _may_be_of_data(error):
                    raise
                if stop - start == 1:
                    refused.append((start, error))
                else:
                    middle = (start + stop) // 2
                    spans += [(middle, stop), (start, middle)]
        if len(refused) == count and not all(isinstance(why.__cause__, _OF_VALUES) for _, why in refused):
            raise whole
        for row, why in refused:
            self._give_up(record(row), why)

    def _give_up(self, record: SinkRecord, error: ConnectError) -> None:
        """To the error reporter if there is one; else the task fails, with the record's position."""
        where = f"{record.original_topic}-{record.original_kafka_partition}, offset {record.original_kafka_offset}"
        failure = ConnectError(f"{error} (the record at {where})")
        failure.__cause__ = error.__cause__
        reporter = self.context.errant_record_reporter()
        if reporter is None or not _may_be_of_data(error):
            raise failure from error.__cause__
        reporter.report(record, failure)

    def _call(self, given: Any) -> None:
        call: Callable[..., Any] = self._function.call
        try:
            if self._runner is not None:
                self._runner.run(call(given, **self._arguments))
            else:
                call(given, **self._arguments)
        except (Exception, SystemExit) as err:  # the function's own
            raise self._function.failure(err) from err


def _may_be_of_data(error: ConnectError) -> bool:
    """Whether what the function raised may be a record's fault; a disk, a network and a memory are none's."""
    return not isinstance(error.__cause__, OSError | MemoryError)


def _table(records: Sequence[SinkRecord], start: int, stop: int) -> Any:
    records = records[start:stop]
    batch = RecordBatch.from_records(records) if records[0].value_schema is not None else None
    return table_of_records([one.value for one in records]) if batch is None else table_of(batch)


def _by_schema(records: Sequence[SinkRecord]) -> list[list[SinkRecord]]:
    """Neighbouring records of one schema, topic and partition, which are one table."""
    found: list[list[SinkRecord]] = []
    for record in records:
        last = found[-1][-1] if found else None
        is_like = last is not None and (last.topic, last.kafka_partition) == (record.topic, record.kafka_partition)
        if last is not None and is_like and last.value_schema == record.value_schema:
            found[-1].append(record)
        else:
            found.append([record])
    return found
