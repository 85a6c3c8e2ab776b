"""What keys ask for: parts of a connector, and changes, each on a thread of its own with a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kconnect.admin.cluster.rest_changes import RestChanges
from kconnect.client.masks import Masks
from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import TaskId
from kconnect_cli.exits import explain
from kconnect_cli.screen.output import json_cell, plain_table
from kconnect_cli.top.events import Action, Event, Fetch, Fetched, Made, Make, Part, Prepare, Prepared, Refused, Verb

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, Cluster, PreparedChange
    from kconnect.admin.direct.client import DirectClient
    from kconnect.client import ClientAccess, ConnectClient

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
