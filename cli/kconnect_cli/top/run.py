"""Puts the screen together and takes it apart: watches first, so that answers come while Textual is being imported.

Requests are what keys ask for: parts of a connector, and changes, each on a thread of its own with a deadline.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from kconnect.admin.cluster.rest_changes import RestChanges
from kconnect.client.masks import Masks
from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import TaskId
from kconnect_cli.exits import explain
from kconnect_cli.options.cluster import cluster_of
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import json_cell, plain_table
from kconnect_cli.top.events import (
    Action,
    Event,
    Fetch,
    Fetched,
    LookNow,
    Made,
    Make,
    Part,
    Prepare,
    Prepared,
    Refused,
    Resized,
    Verb,
)
from kconnect_cli.top.facts import ClusterFacts
from kconnect_cli.top.inbox import Inbox
from kconnect_cli.top.screen_state import TopState
from kconnect_cli.top.state import step
from kconnect_cli.top.styles import STYLES
from kconnect_cli.top.view import Drawn, draw
from kconnect_cli.top.watches import ANSWER_S, DirectWatches, Keeps, RestWatches, Watches

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, Cluster, PreparedChange
    from kconnect.admin.direct.client import DirectClient
    from kconnect.client import ClientAccess, ConnectClient
    from kconnect_cli.session import CliSession


# What a key asks for: a worker that collects many offsets takes longer than one that tells states
_REQUEST_S = 15.0
_STOP_S = 1.0
# Textual begins and ends with the same: a second time changes nothing
_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[<u\x1b[?2004l\x1b[?1004l\x1b[?1049l\x1b[?25h"
_CODES: Final = {
    "red": "31", "green": "32", "yellow": "33", "cyan": "36",
    "bold": "1", "dim": "2", "underline": "4", "reverse": "7",
}  # fmt: skip


def run_screen(
    session: CliSession, keeps: Keeps, interval_s: float, second: Callable[[], DirectClient] | None = None
) -> int:
    """Shows the screen until it is left; gives the exit code. `second`: another client of the topics, with --direct.

    Errors: those of a login that cannot be read. Whoever does not answer is reported on the screen.
    """
    inbox = Inbox()
    watches, requests, state = _parts(session, keeps, interval_s, inbox.put, second)

    def carry_out(request: Fetch | Prepare | Make | LookNow) -> None:
        if isinstance(request, LookNow):
            watches.look_now()
        else:
            requests.carry_out(request)

    watches.start()
    try:
        # What libraries log would be written over the screen, which tells what fails in its own way
        logging.getLogger().addHandler(logging.NullHandler())
        return _shown(state, inbox, carry_out)
    finally:
        watches.stop(_STOP_S)


def _shown(state: TopState, inbox: Inbox, carry_out: Callable[[Fetch | Prepare | Make | LookNow], None]) -> int:
    """The screen from its first frame to its end."""
    size = shutil.get_terminal_size()
    state, _ = step(state, Resized(size.columns, size.lines), time.monotonic())
    colours = "NO_COLOR" not in os.environ
    with signals_raise(), FirstFrame(colours=colours) as frame, _EarlyScreen(state, inbox, frame) as early:
        # Modules are no garbage: looking for it meanwhile takes a tenth of the import's time
        gc.disable()
        from kconnect_cli.top.app import TopApp

        gc.enable()
        code = TopApp(early.ended(), inbox, carry_out).run(mouse=False)
    return 0 if code is None else code


class _EarlyScreen:
    """Shows answers that come while Textual is being imported. A context manager. Threads: any wakes it."""

    def __init__(self, state: TopState, inbox: Inbox, frame: FirstFrame) -> None:
        self._lock = threading.Lock()  # guards the two below, and the terminal
        self._is_over = False
        self._state = state
        self._inbox = inbox
        self._frame = frame
        frame.show(draw(state))
        inbox.wake = self._take
        self._take()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Also when a signal ends the import: nothing may be drawn when the terminal has been given back."""
        self.ended()

    def ended(self) -> TopState:
        """What is on the screen; nothing is drawn any more."""
        self._inbox.wake = lambda: None
        with self._lock:
            self._is_over = True
            return self._state

    def _take(self) -> None:
        with self._lock:
            for event in () if self._is_over else self._inbox.taken():
                self._state, _ = step(self._state, event, time.monotonic())
                self._frame.show(draw(self._state))


def _parts(
    session: CliSession,
    keeps: Keeps,
    interval_s: float,
    post: Callable[[Event], None],
    second: Callable[[], DirectClient] | None,
) -> tuple[Watches, Requests, TopState]:
    cluster = cluster_of(session)
    lags = cluster.lags(session, wait_s=0.0)
    if session.direct is not None and second is not None:
        facts = ClusterFacts(place=session.direct.place, is_direct=True)
        requests = Requests(post, direct=second())
        return DirectWatches(session.direct, keeps, post, interval_s, lags), requests, TopState(facts=facts)
    client, urls = session.client, session.target.urls  # asks for a password, while there is a plain terminal
    watches = RestWatches(
        lambda urls: session.client_of(urls, timeout_s=ANSWER_S),
        urls,
        keeps,
        post,
        interval_s,
        lags if cluster.is_given else None,
    )
    requests = Requests(
        post,
        connect=lambda: session.client_of(watches.urls, timeout_s=_REQUEST_S),
        workers=lambda: watches.workers,
        access=session.access_to(client.url),
    )
    return watches, requests, TopState(facts=ClusterFacts(place=client.url), now_s=time.monotonic())


class FirstFrame:
    """The alternate screen, and keys kept as they are for Textual. A context manager around all of its life:

    at the end the terminal is as it was, also when a signal came while Textual was starting.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._before: list[Any] | None = None  # as termios types it

    def show(self, drawn: Drawn) -> None:
        """Threads: one at a time."""
        rows = []
        for number, line in enumerate(drawn.lines):
            cursor = ("7",) if number == drawn.cursor else ()
            rows.append("".join(_painted(text, self._codes(style, cursor)) for text, style in line))
        self._write("\x1b[H" + "\r\n".join(f"{row}\x1b[K" for row in rows))

    def __enter__(self) -> Self:
        stdin = sys.__stdin__
        assert stdin is not None
        self._before = termios.tcgetattr(stdin)
        raw = list(self._before)
        raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(stdin, termios.TCSANOW, raw)
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._write(_LEAVE)
        if sys.__stdin__ is not None and self._before is not None:
            termios.tcsetattr(sys.__stdin__, termios.TCSANOW, self._before)

    def _codes(self, style: str, more: tuple[str, ...]) -> tuple[str, ...]:
        look = STYLES[style]
        colour = (_CODES[look.colour],) if look.colour is not None and self._colours else ()
        return (*colour, *(_CODES[attribute] for attribute in look.attributes), *more)

    def _write(self, text: str) -> None:
        assert sys.__stderr__ is not None
        sys.__stderr__.write(text)
        sys.__stderr__.flush()


def _painted(text: str, codes: tuple[str, ...]) -> str:
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text


Post = Callable[[Event], None]

_LOG_LINES = 300


class Requests:
    """Carries requests out. `post` takes what came of each, from any thread.

    `connect` makes a client of the cluster's workers; `direct` is a client of its topics, used by one thread at a time.
    `workers`: URLs of all workers that are known, for their logs, and who we are to them.
    """

    def __init__(
        self,
        post: Post,
        *,
        connect: Callable[[], ConnectClient] | None = None,
        direct: DirectClient | None = None,
        workers: Callable[[], Sequence[str]] = tuple,
        access: ClientAccess | None = None,
    ) -> None:
        self._post = post
        self._workers = workers
        self._access = access
        self._connect = connect
        self._direct = direct
        self._lock = threading.Lock()  # one change at a time, and one use of `direct`
        self._prepared: dict[Action, PreparedChange] = {}  # guarded by _lock

    def carry_out(self, request: Fetch | Prepare | Make) -> None:
        """Returns at once."""
        threading.Thread(target=self._run, args=(request,), name=f"top-{type(request).__name__}", daemon=True).start()

    def _run(self, request: Fetch | Prepare | Make) -> None:
        """Top of the thread: what fails is reported on the screen."""
        try:
            event: Event = self._done(request)
        except Exception as err:
            sentence, hint, _ = explain(err)
            if isinstance(request, Fetch):
                event = Fetched(request.connector, request.part, problem=" ".join(filter(None, (sentence, hint))))
            else:
                event = Refused(request.action, sentence, hint or "")
        self._post(event)

    def _done(self, request: Fetch | Prepare | Make) -> Event:
        """Errors: ConnectError."""
        match request:
            case Fetch(name, Part.LOG):
                return Fetched(name, Part.LOG, tuple(self._log(name)))
            case Fetch(name, part):
                with self._reader() as reader:
                    return Fetched(name, part, tuple(_part(reader, name, part)))
            case Prepare(action):
                with self._lock:
                    change = self._prepared[action] = self._change(action)
                    warnings = list(change.check())
                return Prepared(action, tuple(change.description()), tuple(warnings))
            case Make(action):
                with self._lock:
                    return Made(action, tuple(self._prepared.pop(action).make()))

    def _log(self, name: str) -> Iterator[str]:
        """The last lines of all workers about a connector. Errors: ConnectError."""
        from kconnect_cli.admin.worker_logs import WorkerLogs
        from kconnect_cli.screen.log_text import log_text

        if self._direct is not None:
            raise ConnectError("Workers keep their logs, and with --direct none is asked.")
        said: list[str] = []
        logs = WorkerLogs(self._workers(), self._access, {"connector": name, "limit": _LOG_LINES}, said.append)
        try:
            lines = logs.last()
        except NotFoundError:  # which workers keep none was said
            yield from said
            return
        for line in lines:
            yield from log_text(line, with_worker=logs.workers > 1, colours=False).splitlines()
        yield from said if lines else [*said, f"No lines about {name} among the last that the workers keep."]

    @contextmanager
    def _reader(self) -> Iterator[Cluster]:
        if self._direct is not None:
            with self._lock:
                from kconnect.admin.cluster.topic_cluster import TopicCluster

                self._direct.forget()
                yield TopicCluster(self._direct)
            return
        assert self._connect is not None
        from kconnect.admin.cluster.rest_cluster import RestCluster, WorkerKind

        with self._connect() as client:
            yield RestCluster(client, WorkerKind())

    def _change(self, action: Action) -> PreparedChange:
        """Errors: ConnectError, also when it may not be made as things are."""
        match action.verb:
            case Verb.PAUSE:
                return self._admin().pause(action.connector)
            case Verb.RESUME:
                return self._admin().resume(action.connector)
            case Verb.STOP:
                return self._admin().stop(action.connector)
            case Verb.RESTART_TASK if action.task is not None:
                return self._admin().restart_task(TaskId(action.connector, action.task))
        is_whole = action.verb in (Verb.RESTART_ALL, Verb.RESTART_FAILED)
        only_failed = action.verb is Verb.RESTART_FAILED
        return self._admin().restart(action.connector, include_tasks=is_whole, only_failed=only_failed)

    def _admin(self) -> Changes:
        if self._direct is None:
            return RestChanges(self._connected)
        from kconnect.admin.cluster.topic_changes import TopicChanges

        self._direct.forget()
        return TopicChanges(self._direct)

    def _connected(self) -> ConnectClient:
        assert self._connect is not None
        return self._connect()


def _part(reader: Cluster, name: str, part: Part) -> Iterator[str]:
    """The lines of a part. Errors: ConnectError."""
    match part:
        case Part.CONFIG:
            config = Masks(reader).masked(reader.connector(name).config)
            yield from (f"{key} = {value}" for key, value in sorted(config.items()))
        case Part.OFFSETS:
            offsets = reader.connector_offsets(name)
            rows = [(json_cell(each.partition), json_cell(each.offset)) for each in offsets]
            if rows:
                yield from plain_table(("PARTITION", "OFFSET"), rows).splitlines()
            else:
                yield "No offsets have been committed yet."
