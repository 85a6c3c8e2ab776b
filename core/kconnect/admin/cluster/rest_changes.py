"""RestChanges: connectors changed by a worker, over its REST API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kconnect.client.offset_history import offset_text
from kconnect.errors import BadRequestError, ConnectError
from kconnect.logs.java_messages import is_failed_start
from kconnect.model import ConnectorOffset, ConnectorStatus, ConnectorType, RunState, TargetState, TaskId

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.client import ConnectClient


@dataclass(frozen=True, slots=True)
class RestChange:
    """One request, and what it will change, as far as is known beforehand. Implements PreparedChange."""

    request: Callable[[], str]
    """Makes it; gives a sentence on what was done."""
    describe: Callable[[], Sequence[str]] = tuple
    needs_consent: bool = False

    @property
    def is_empty(self) -> bool:
        """Never: the worker decides whether there is anything to do."""
        return False

    def description(self) -> Sequence[str]:
        return self.describe()

    def check(self) -> Sequence[str]:
        """Returns None: the worker checks each request."""
        return ()

    def make(self) -> Sequence[str]:
        return (self.request(),)


class RestChanges:
    """Implements Changes. `connect` gives the client, once something is asked of the worker.

    `brokers`: where a sink's new offsets are looked up before a worker is given them; None: the worker warns.
    """

    def __init__(self, connect: Callable[[], ConnectClient], brokers: ClusterAccess | None = None) -> None:
        self._connect = connect
        self._brokers = brokers

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target_state: TargetState | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> RestChange:
        """Differs from its twin on the topics: the worker finds out whether it may be created, when it is asked to."""

        def request() -> str:
            client = self._connect()
            with cause_of_failed_start(client, name):
                state = None if target_state is None else target_state.in_statuses
                info = client.create_connector(name, config, initial_state=state, offsets=offsets)
            return f"created {info.name}"

        return RestChange(request)

    def put_config(self, name: str, config: Mapping[str, str], tag: str | None = None) -> RestChange:
        def act(client: ConnectClient) -> None:
            with cause_of_failed_start(client, name):
                client.put_connector_config(name, config, if_match=if_match(tag))

        return self._request(f"updated {name}", act)

    def pause(self, name: str) -> RestChange:
        return self._request(f"paused {name}", lambda client: client.pause_connector(name))

    def resume(self, name: str) -> RestChange:
        return self._request(f"resumed {name}", lambda client: client.resume_connector(name))

    def stop(self, name: str) -> RestChange:
        return self._request(f"stopped {name}", lambda client: client.stop_connector(name))

    def delete(self, name: str, tag: str | None = None) -> RestChange:
        expected = if_match(tag)
        done = f"deleted {name}"
        return self._request(done, lambda client: client.delete_connector(name, if_match=expected), needs_consent=True)

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> RestChange:
        """What it says is what the worker did: the parts that it restarted, and those that FAILED and were left."""

        def request() -> str:
            client = self._connect()
            if not (include_tasks or only_failed):
                client.restart_connector(name)
                left: Sequence[int] = ()
                with suppress(ConnectError):  # it was restarted, whatever may be known of its tasks
                    left = _failed_tasks(client.connector_status(name))
                return f"restarted {name}{_left(name, left)}"
            status = client.restart_connector(name, include_tasks=include_tasks, only_failed=only_failed)
            assert status is not None, "a restart by a plan answers with its status"
            tasks = [task.id for task in status.tasks if task.state is RunState.RESTARTING]
            parts = ["the connector"] if status.connector.state is RunState.RESTARTING else []
            parts += [f"{'task' if len(tasks) == 1 else 'tasks'} {', '.join(map(str, tasks))}"] if tasks else []
            left = () if include_tasks else _failed_tasks(status)
            if not parts:
                why = "nothing of it has FAILED" if include_tasks else "the connector itself has not FAILED"
                return f"restarted nothing of {name}: {why}{_left(name, left)}"
            return f"restarted {name}: {' and '.join(parts)}{_left(name, left)}"

        return RestChange(request, needs_consent=True)

    def restart_task(self, task: TaskId) -> RestChange:
        done = f"restarted {task.connector} task {task.task}"
        return self._request(done, lambda client: client.restart_task(task), needs_consent=True)

    def alter_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None, action: str | None = None
    ) -> RestChange:
        """Errors: BadRequestError for offsets at which nothing can be read."""
        notes = self._unchecked(name, offsets)

        def request() -> str:
            client = self._connect()
            reported = client.alter_connector_offsets(name, offsets, if_match=if_match(tag), action=action)
            return f"{name}: {reported}"

        def describe() -> Sequence[str]:
            old = self._connect().connector_offsets(name)
            return (*notes, f"Alter offsets of {name}", offset_table(old, offsets))

        return RestChange(request, describe, needs_consent=True)

    def reset_offsets(self, name: str, tag: str | None = None) -> RestChange:
        def request() -> str:
            return f"{name}: {self._connect().reset_connector_offsets(name, if_match=if_match(tag))}"

        def describe() -> Sequence[str]:
            old = self._connect().connector_offsets(name)
            none = [ConnectorOffset(offset.partition, None) for offset in old]
            return (f"Reset offsets of {name}", offset_table(old, none))

        return RestChange(request, describe, needs_consent=True)

    def _unchecked(self, name: str, wanted: Sequence[ConnectorOffset]) -> list[str]:
        """Why a sink's offsets were not looked up in its topics. Errors: BadRequestError where nothing can be read."""
        if self._brokers is None:
            return []
        client = self._connect()
        info = client.connector(name)
        if info.type is not ConnectorType.SINK:
            return []
        from kconnect.admin.direct.offsets.changes import check_readable

        cluster_id = client.server_info().get("kafka_cluster_id")
        try:
            why = check_readable(self._brokers, info, wanted, cluster_id)
        except BadRequestError:
            raise
        except ConnectError as err:  # the worker warns in its answer
            why = str(err)
        return [f"Not checked whether these offsets of {name} can be read: {why}."] if why else []

    def _request(self, done: str, act: Callable[[ConnectClient], object], *, needs_consent: bool = False) -> RestChange:
        def request() -> str:
            act(self._connect())
            return done

        return RestChange(request, needs_consent=needs_consent)


def _failed_tasks(status: ConnectorStatus) -> Sequence[int]:
    return [task.id for task in status.tasks if task.state is RunState.FAILED]


def _left(name: str, tasks: Sequence[int]) -> str:
    """What a restart left as it was, and the command that restarts that, too; empty for nothing."""
    if not tasks:
        return ""
    which = f"task {tasks[0]} is" if len(tasks) == 1 else f"tasks {', '.join(map(str, tasks))} are"
    return f", and no task: {which} still FAILED; connect connectors restart {name} --include-tasks --only-failed"


def if_match(tag: str | None) -> str | None:
    """What goes to a worker: its own tag, which is in quotes; not one that a page made of what it saw."""
    return tag if tag is not None and tag.startswith('"') else None


def offset_table(old: Sequence[ConnectorOffset], new: Sequence[ConnectorOffset]) -> str:
    """Old and new value of every partition that is named, for people."""
    before = {offset_text(offset.partition): offset_text(offset.offset) for offset in old}
    rows = [
        (offset_text(offset.partition), before.get(offset_text(offset.partition), "-"), offset_text(offset.offset))
        for offset in new
    ]
    if not rows:
        return "There are no committed offsets."
    lines = [("PARTITION", "OLD", "NEW"), *rows]
    first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
    return "\n".join(f"{line[0]:<{first}}   {line[1]:<{second}}   {line[2]}" for line in lines)


@contextmanager
def cause_of_failed_start(client: ConnectClient, name: str) -> Iterator[None]:
    """Around a request that starts a connector: if it fails to start, the error says why, and that it exists now.

    The worker's answer does not say why; the connector's status has the trace.
    """
    try:
        yield
    except ConnectError as err:
        if not is_failed_start(str(err)):
            raise
        trace = client.connector_status(name).connector.trace
        from kconnect.logs.traces import root_cause

        cause = root_cause(trace) or "the worker does not say why"
        raise ConnectError(
            f"Connector {name} exists now, but is FAILED: {cause}",
            hint=f"Correct its settings: connect config set {name} KEY=VALUE. "
            f"connect connectors show {name} has the trace; connect connectors delete {name} removes it.",
        ) from err
