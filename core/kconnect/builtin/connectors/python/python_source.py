"""PythonSource: what a function of the user's gives, as records."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from kconnect.api import (
    Config,
    ConfigDef,
    ExactlyOnceSupport,
    RecordBatch,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.builtin.connectors.checked_settings import raised_by, with_problems
from kconnect.builtin.connectors.python.feed import Feed
from kconnect.builtin.connectors.python.made_records import RecordMaker, given_offset
from kconnect.builtin.connectors.python.user_code import ARGUMENTS_PREFIX, FUNCTION_CONFIG, UserFunction
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

_GIVEN = ("offset", "config", "task", "tasks")
# What a task of several is told: settings of its own, beside the connector's
_TASK, _TASKS = "kconnect.python.task", "kconnect.python.tasks"
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
        "module:function, a generator, or a function that returns what is new. It gives dicts or other values, pairs "
        "(key, value), SourceRecords, Arrow tables. With a parameter `offset` it gives pairs (record, offset) and gets "
        "the last committed offset at its start. With a parameter `task` it is called by each of tasks.max tasks, with "
        "its number from 0, and `tasks` is how many there are. function.args.NAME=VALUE gives it more arguments.",
    )
    .define("topic", _T.STRING, ConfigDef.NO_DEFAULT, ConfigDef.NonEmptyString(), _I.HIGH, "Topic of the records.")
    .define(
        "poll.interval.ms",
        _T.LONG,
        -1,
        ConfigDef.Range.at_least(-1),
        _I.MEDIUM,
        "When it is called again after its end; -1: a generator never, any other function after a second.",
    )
    .define(
        "batch.records",
        _T.INT,
        2000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "Most records of one poll.",
    )
)
_AGAIN_S = 1.0
_IDLE_S = 0.5
# Of the five seconds that a stop may take (task.shutdown.graceful.timeout.ms)
_STOP_S = 3.0


class PythonSourceConnector(SourceConnector):
    """Calls one function, in one task, or in several where it takes the number of its task."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        _function(props)
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return PythonSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One config, unless the function divides its work by the number of its task."""
        if not _function(self._props).takes("task"):
            return [dict(self._props)]
        return [{**self._props, _TASK: str(number), _TASKS: str(max_tasks)} for number in range(max_tasks)]

    def stop(self) -> None:
        """Nothing runs besides the task."""

    def config(self) -> ConfigDef:
        return CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Also looks for the function, which imports its module."""
        look = partial(raised_by, partial(_function, configs), CONFIG, FUNCTION_CONFIG)
        return with_problems(super().validate(configs), look)

    def version(self) -> str:
        return KAFKA_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported for a function that takes an offset, and so gives one with each record."""
        has_offsets = _function(config).takes("offset")
        return ExactlyOnceSupport.SUPPORTED if has_offsets else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        """Only the function knows what an offset means."""
        return True


def _function(props: Mapping[str, str]) -> UserFunction:
    return UserFunction(CONFIG.parse(props)[FUNCTION_CONFIG], props, _GIVEN)


class PythonSourceTask(SourceTask):
    """A poll gives what the function, on a thread of its own, has given since the last."""

    def __init__(self) -> None:
        self._feed: Feed | None = None

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self._function = function = _function(props)
        self._props = dict(props)
        self._partition: dict[str, Any] = {FUNCTION_CONFIG: function.name}
        self._number, self._tasks = int(props.get(_TASK, "0")), int(props.get(_TASKS, "1"))
        if function.takes("task"):
            self._partition["task"] = self._number
        self._maker = RecordMaker(function.name, config["topic"], self._partition, has_offsets=function.takes("offset"))
        self._offset = self.context.offset_storage_reader().offset(self._partition)
        self._interval_s: float | None = None
        if config["poll.interval.ms"] >= 0:
            self._interval_s = config["poll.interval.ms"] / 1000
        elif not _is_generator(function):
            self._interval_s = _AGAIN_S
        self._most: int = config["batch.records"]
        self._waiting: deque[Any] = deque()
        self._next_call_s: float | None = 0.0

    def poll(self) -> list[SourceRecord] | RecordBatch | None:
        """Errors: ConnectError that names function, file and line; RetriableError if the function raised one."""
        feed = self._feed
        if feed is None and self._next_call_s is not None and time.monotonic() >= self._next_call_s:
            feed = self._call()
        if not self._waiting and feed is not None:
            self._waiting.extend(self._taken(feed))
        if self._waiting:
            return self._given()
        if self._feed is not None and self._feed.is_done:
            self._ended()
        left_s = _IDLE_S if self._next_call_s is None else self._next_call_s - time.monotonic()
        self.context.wait(_IDLE_S if self._feed is not None else max(0.0, min(_IDLE_S, left_s)))
        return None

    def stop(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None and not feed.stop(_STOP_S):
            log.warning("%s runs on: it has not given anything for %g s after the stop", self._function.name, _STOP_S)

    def _call(self) -> Feed:
        given = {"task": self._number, "tasks": self._tasks}
        arguments = self._function.arguments(offset=given_offset(self._offset), config=dict(self._props), **given)
        call = self._function.call
        feed = self._feed = Feed(self._function.name, lambda: call(**arguments), self.context.wake)
        feed.start()
        return feed

    def _taken(self, feed: Feed) -> list[Any]:
        try:
            return feed.take(self._most)
        except BaseException as err:  # the function's own, SystemExit too
            self._feed = None
            failure = self._function.failure(err)
            if isinstance(failure, RetriableError):
                self._next_call_s = 0.0
            raise failure from err

    def _given(self) -> list[SourceRecord] | RecordBatch | None:
        """The waiting items up to the first that is columns, or that one."""
        records: list[SourceRecord] = []
        while self._waiting:
            batch = self._maker.batch(self._waiting[0])
            if batch is not None:
                if records:
                    break
                self._waiting.popleft()
                if not len(batch):
                    continue
                if batch.source_offsets:
                    self._offset = batch.last_source_offset()
                return batch
            item = self._waiting.popleft()
            if item is None:
                continue  # nothing new, says the function
            record = self._maker.record(item)
            if record.source_offset is not None and record.source_partition == self._partition:
                self._offset = record.source_offset
            records.append(record)
        return records or None

    def _ended(self) -> None:
        self._feed = None
        self._next_call_s = None if self._interval_s is None else time.monotonic() + self._interval_s
        if self._interval_s is None:
            log.info("%s has ended; nothing more comes from it (poll.interval.ms=-1)", self._function.name)


def _is_generator(function: UserFunction) -> bool:
    import inspect

    return inspect.isgeneratorfunction(function.call) or inspect.isasyncgenfunction(function.call)
