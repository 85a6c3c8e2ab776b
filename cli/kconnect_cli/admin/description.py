"""Everything about one connector, from workers or from the topics; what cannot be read is a note, not an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.admin.cluster.activity import NO_ACTIVITY, Activity
from kconnect.errors import ConnectError, NotFoundError
from kconnect.logs.traces import root_cause
from kconnect.runtime.health.flow_metrics import NO_METRICS
from kconnect_cli.admin.live_workers import look_at_group, notes_on_life
from kconnect_cli.admin.sink_lags import is_of_sink, offsets_and_lags
from kconnect_cli.options.cluster import cluster_of
from kconnect_cli.screen.status_rows import more_of

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Cluster
    from kconnect.model import BatchShare, ConnectorStatus
    from kconnect_cli.session import CliSession

T = TypeVar("T")

_LAST_CHANGES = 5


def description_of(session: CliSession, name: str, mask: Callable[..., dict[str, str]]) -> dict[str, Any]:
    """Null is what is not known.

    Shape: name, type, state, worker_id; trace, cause and restarts if it failed; records_per_s, lag, errors; tasks:
    [{id, state, worker_id, condition, restarts, trace, cause, records_per_s, records, errors}]; mbeans: [{task, name,
    labels, value}]; forms: {batches, by_records, because}, where columns were tried; config; topics; offsets:
    [{partition, offset, end_offset, lag}]; changes: [{timestamp, kind, sentence, settings, ..}]; notes: what is not
    known, and why.

    Errors: NotFoundError; ConnectError when neither state nor config can be read.
    """
    reader, notes = session.reader, list[str]()
    info = session.on_connector(name, reader.connector)
    status = session.on_connector(name, reader.connector_status)
    known = _moves(reader, status, notes) if session.direct is None else NO_ACTIVITY
    moves = known or NO_ACTIVITY
    # Beside the worker's answers: what waits for the brokers in both costs the time once
    changes = _begun(partial(_changes, is_java=known is None), session, name)
    mbeans = _begun(_mbeans, session, name)
    if reader.held_up is None:
        offsets, lag = _offsets(session, name, notes)
    else:  # they would wait for the same
        offsets, lag = None, None
        notes.append(f"{reader.held_up}. Its offsets are not known.")
    document: dict[str, Any] = {
        "name": name,
        "type": str(info.type),
        "state": str(status.connector.state),
        "worker_id": status.connector.worker_id,
        **more_of(status.connector),
        **_failure(status.connector.trace),
        "records_per_s": moves.metrics.rate,
        "lag": moves.metrics.lag if lag is None else lag,
        "errors": moves.metrics.errors,
        "tasks": _tasks(status, moves),
        "mbeans": mbeans(notes),
        "forms": _forms([found.forms for found in moves.tasks.values() if found.forms is not None]),
        "config": mask(info.config),
        "topics": _topics(session, name, notes),
        "offsets": offsets,
        "changes": changes(notes),
    }
    if session.direct is not None:
        notes += notes_on_life(session.direct, look_at_group(session.direct), [name])
    return {**document, "notes": notes}


def _moves(reader: Cluster, status: ConnectorStatus, notes: list[str]) -> Activity | None:
    """Returns None of Java's workers, which tell nothing over REST."""
    try:
        found = reader.activities({})  # the lag is asked for with the offsets
    except ConnectError as err:
        notes.append(f"Rates, errors and lag are not known: {err}")
        return NO_ACTIVITY
    if found is None:
        notes.append("Rates and errors are not known: Java's workers do not tell them over REST.")
        return None
    moves = found.get(status.name, NO_ACTIVITY)
    if silent := sorted({task.worker_id for task in status.tasks if task.state == "RUNNING"
                         and task.id not in moves.tasks}):  # fmt: skip
        notes.append(f"Some rates are not known: {reader.place} gets no answer from {', '.join(silent)}.")
    return moves


def _forms(tasks: Sequence[BatchShare]) -> dict[str, Any] | None:
    """How the batches of all tasks went; the reason is that of the task with the most by records."""
    if not tasks:
        return None
    most = max(tasks, key=lambda each: each.by_records)
    whole = (sum(each.batches for each in tasks), sum(each.by_records for each in tasks))
    return replace(most, batches=whole[0], by_records=whole[1]).to_json()


def _mbeans(session: CliSession, name: str, notes: list[str]) -> list[dict[str, Any]] | None:
    """The numbers that MBeans of its tasks show now; null from the topics, and of Java's workers."""
    if session.direct is not None:
        return None
    try:
        with session.another_client() as client:  # on a thread of its own, beside that of the other questions
            tasks = client.history(name, cluster=True)["tasks"]
    except NotFoundError:
        return None
    except ConnectError as err:
        notes.append(f"Its MBeans are not known: {err}")
        return None
    return [
        {"task": task["task"], **{key: each[key] for key in ("name", "labels", "value")}}
        for task in tasks
        for each in task.get("mbeans", ())
        if each["value"] is not None
    ]


def _tasks(status: ConnectorStatus, moves: Activity) -> list[dict[str, Any]]:
    rows = []
    for task in status.tasks:
        found = moves.tasks.get(task.id, NO_METRICS)
        rows.append(
            {
                "id": task.id,
                "state": str(task.state),
                "worker_id": task.worker_id,
                **more_of(task),
                **_failure(task.trace),
                "records_per_s": found.rate,
                "records": found.records,
                "errors": found.errors,
            }
        )
    return rows


def _failure(trace: str | None) -> dict[str, str]:
    return {"trace": trace, "cause": root_cause(trace)} if trace else {}


def _topics(session: CliSession, name: str, notes: list[str]) -> list[str] | None:
    known = len(notes)
    found = _tried(notes, "topics", lambda: session.reader.topics(name))
    if found is None and len(notes) == known:
        notes.append("Its topics are not known: the worker does not track them (topic.tracking.enable).")
    return None if found is None else sorted(found)


def _offsets(session: CliSession, name: str, notes: list[str]) -> tuple[list[dict[str, Any]] | None, int | None]:
    """Gives the offsets of a sink with end and lag where they are known; and the lag of all partitions."""
    read = _tried(notes, "offsets", lambda: offsets_and_lags(session, [name]))
    if read is None:
        return None, None
    found, lags = read
    lag = lags.get(name)
    if lag is not None and lag.problem is not None:
        notes.append(f"Its lag is not known: {lag.problem}")
    elif lag is None and is_of_sink(found[name]):
        notes.append("Its lag is not known, as the worker does not tell it: --worker FILE or --bootstrap-servers does.")
    ends = {(item.topic, item.partition): item for item in (() if lag is None else lag.partitions)}
    rows = []
    for each in found[name]:
        known = ends.get((str(each.partition.get("kafka_topic")), each.partition.get("kafka_partition", -1)))
        more = {} if known is None else {"end_offset": known.end_offset, "lag": known.lag}
        rows.append({**each.to_json(), **more})
    return rows, None if lag is None else lag.total


def _begun(read: Callable[[CliSession, str, list[str]], T], session: CliSession, name: str) -> Callable[[list[str]], T]:
    """Begin to read on a thread of its own; gives what waits for the end, and adds its notes to those."""
    from concurrent.futures import ThreadPoolExecutor

    reported: list[str] = []
    pool = ThreadPoolExecutor(1, "describes")
    future = pool.submit(read, session, name, reported)
    pool.shutdown(wait=False)

    def end(notes: list[str]) -> T:
        found = future.result()
        notes += reported
        return found

    return end


def _changes(session: CliSession, name: str, notes: list[str], *, is_java: bool = False) -> list[dict[str, Any]] | None:
    """The last versions of its config, newest last."""
    options = cluster_of(session)
    if not options.is_given:
        file = " --worker FILE" if is_java else ""
        notes.append(f"connect config history {quote(name)}{file} shows the last changes of its config.")
        return None
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.history.connector_history import config_history, history_to_json
    from kconnect.admin.direct.read.installed_plugins import secret_masks
    from kconnect.admin.direct.read.reader import ClusterReader

    def read() -> list[dict[str, Any]]:
        access = options.access()
        with ClusterReader(access) as reader:
            found = config_history(reader.records(InternalTopic.CONFIG), name)
        return list(history_to_json(found, secret_masks(access))["versions"][-_LAST_CHANGES:])

    return _tried(notes, "last changes", read)


def _tried(notes: list[str], what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (ConnectError, FileNotFoundError) as err:
        notes.append(f"Its {what} are not known: {err}")
        return None
