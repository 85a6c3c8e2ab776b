"""PythonSource: what a function of the user's gives, as records."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kconnect.api import (
    Config,
    ConfigDef,
    DataError,
    ExactlyOnceSupport,
    RecordBatch,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.builtin.connectors.checked_settings import raised_by, with_problems
from kconnect.builtin.connectors.python.made_records import RecordMaker, given_offset, materialized
from kconnect.builtin.connectors.python.user_code import ARGUMENTS_PREFIX, UserFunction
from kconnect.builtin.user_functions import FUNCTION_CONFIG
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

_GIVEN = ("offset", "config", "task", "tasks")
# What a task of several gets: settings of its own, beside the connector's
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
        self._maker = RecordMaker(
            function.name,
            config["topic"],
            self._partition,
            has_offsets=function.takes("offset"),
            give_up=self._give_up,
        )
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
            if self._maker.has_columns(self._waiting[0]):
                if records:
                    break
                batch = self._maker.batch(self._waiting.popleft())
                if not len(batch):
                    continue
                if batch.source_offsets:
                    self._offset = batch.last_source_offset()
                return batch
            item = self._waiting.popleft()
            if item is None:
                continue  # nothing new, says the function
            record = self._maker.record(item)
            if record is None:
                continue
            if record.source_offset is not None and record.source_partition == self._partition:
                self._offset = record.source_offset
            records.append(record)
        return records or None

    def _give_up(self, record: SourceRecord, error: DataError) -> None:
        """Errors: those of `report_errant`, where no record may be left out."""
        self.context.report_errant(record, error)
        if record.source_offset is not None:
            self._offset = record.source_offset

    def _ended(self) -> None:
        self._feed = None
        self._next_call_s = None if self._interval_s is None else time.monotonic() + self._interval_s
        if self._interval_s is None:
            log.info("%s has ended; nothing more comes from it (poll.interval.ms=-1)", self._function.name)


def _is_generator(function: UserFunction) -> bool:
    return inspect.isgeneratorfunction(function.call) or inspect.isasyncgenfunction(function.call)


# A few polls' worth: the function waits when Kafka is slower than it is
_MOST_WAITING = 20_000
_ASYNC_PAUSE_S = 0.005


class Feed:
    """One call of a generator, a function, or an asynchronous one of either. States: start() -> .. -> stop().

    Threads: the caller's, and `python-source-NAME`, which runs the function and calls `wake` for what is new.
    """

    def __init__(self, name: str, call: Callable[[], Any], wake: Callable[[], None]) -> None:
        self._call, self._wake = call, wake
        self._items: deque[Any] = deque()
        self._room = threading.Condition()  # notified when items were taken, and by stop()
        self._is_stopping = False
        self._is_over = False
        self._failure: BaseException | None = None
        self._stop_async: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"python-source-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, most: int) -> list[Any]:
        """What it gave since, at most so many items. Errors: what the function raised, after all that it gave."""
        was_over = self._is_over  # looked at before the items: what comes after is taken the next time
        items = self._items
        found = [items.popleft() for _ in range(min(most, len(items)))]
        if found:
            with self._room:
                self._room.notify_all()
        elif was_over and self._failure is not None:
            raise self._failure
        return found

    @property
    def is_done(self) -> bool:
        """Whether the function has ended, and all was taken."""
        return self._is_over and not self._items and self._failure is None

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end, and wait; False if it runs on, in code that takes its time."""
        with self._room:
            self._is_stopping = True
            self._room.notify_all()
            stop_async = self._stop_async
        if stop_async is not None:
            stop_async()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # --- on its thread ---

    def _run(self) -> None:
        try:
            made = self._call()
            if inspect.isasyncgen(made) or inspect.isawaitable(made):
                asyncio.run(self._take_async(made))
            elif inspect.isgenerator(made) or (isinstance(made, Iterable) and hasattr(made, "__next__")):
                self._take_from(made)
            else:
                self._put_result(made)
        except asyncio.CancelledError:
            log.debug("%s was stopped", self._thread.name)
        except BaseException as err:  # the function's own, SystemExit too: reported by take()
            self._failure = err
        finally:
            self._is_over = True
            self._wake()

    def _take_from(self, made: Any) -> None:
        try:
            for item in made:
                if not self._put(item):
                    return
        finally:
            close = getattr(made, "close", None)
            if close is not None:
                close()

    def _put_result(self, made: Any) -> None:
        """What a function returned: a list is its items."""
        for item in made if isinstance(made, list) else [made]:
            if not self._put(item):
                return

    def _put(self, item: Any) -> bool:
        """False if the feed should end. Waits while too much is waiting."""
        if len(self._items) >= _MOST_WAITING:
            with self._room:
                self._room.wait_for(lambda: self._is_stopping or len(self._items) < _MOST_WAITING)
        if self._is_stopping:
            return False
        self._items.append(materialized(item))
        if len(self._items) == 1:
            self._wake()
        return True

    async def _take_async(self, made: Any) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._room:
            if self._is_stopping:
                return
            self._stop_async = lambda: _cancel(loop, task)
        try:
            if not isinstance(made, AsyncIterable):
                self._put_result(await made)
                return
            async for item in made:
                while len(self._items) >= _MOST_WAITING:
                    await asyncio.sleep(_ASYNC_PAUSE_S)
                self._put(item)
        finally:
            with self._room:
                self._stop_async = None


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:  # the loop has just ended by itself
        log.debug("%s has ended already", task)
