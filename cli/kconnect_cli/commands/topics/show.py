"""`connect topics config|status|offsets show`, `get`: the topics' contents and the value of one key, now, earlier,
live.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import ConnectError, NotFoundError, did_you_mean
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ON_CLUSTER, ClusterOptions, cluster_of
from kconnect_cli.options.looks import Follow
from kconnect_cli.options.topic_bounds import At, AtEach, Until, bounds_of
from kconnect_cli.options.topic_groups import internal_topic
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, json_cell, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, ShowSecrets, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess, InternalTopic
    from kconnect.admin.direct.read.reader import Bounds, ClusterReader, ConfigView, OffsetView, StatusView
    from kconnect.model import ConnectorOffset
    from kconnect_cli.options.topic_groups import TopicGroups

    View = ConfigView | StatusView | OffsetView


_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these connectors.", show_default=False)]
_Raw = Annotated[bool, typer.Option("--raw", help="Raw records: place, time, key, value, size; JSON: one per line.")]


def mount(groups: TopicGroups) -> None:
    """Add the commands to their groups."""
    for group, show in ((groups.config, config_show), (groups.status, status_show), (groups.offsets, offsets_show)):
        group.command("show", cls=ON_CLUSTER)(show)
    for word, group in groups.each:
        group.command("get", cls=ON_CLUSTER)(_get_of(word))


def config_show(
    ctx: typer.Context,
    names: _Names = None,
    at: At = None,
    until: Until = None,
    raw: _Raw = False,
    follow: Follow = False,
    show_secrets: ShowSecrets = False,
) -> None:
    """Show connectors, their tasks and target states, the session key and logger levels, as a worker reads them.

    With names: all their settings. Secrets are masked: settings whose names say so, and those of type PASSWORD in a
    connector that is installed here.

    JSON: an object with offset (that of the next record), session_key, loggers, and connectors, each with name, type,
    class, target_state, tasks (how many are committed), inconsistent, lost_tasks, task_count_record, pending_fencing,
    records (the positions of config and target state), config, task_configs.
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    bounds = bounds_of(at, until, follow, has_one_partition=True)
    _show(session, cluster, "config", TopicQuery(names or (), bounds, raw, follow, show_secrets))


def status_show(
    ctx: typer.Context,
    names: _Names = None,
    at: AtEach = None,
    until: Until = None,
    raw: _Raw = False,
    follow: Follow = False,
) -> None:
    """Show the statuses that workers have written: states, workers, generations, traces; and the topics in use.

    JSON: a list of connectors, each with name, connector (state, worker_id, generation, version, trace), tasks (the
    same with id), topics (name, task, discovered).
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    bounds = bounds_of(at, until, follow)
    _show(session, cluster, "status", TopicQuery(names or (), bounds, raw, follow, True))


def offsets_show(
    ctx: typer.Context,
    names: _Names = None,
    at: AtEach = None,
    until: Until = None,
    raw: _Raw = False,
    follow: Follow = False,
) -> None:
    """Show the committed offsets of sources. `-o json` is valid input for `connect offsets alter`.

    --offset-topic names the topic of connectors that have their own (offsets.storage.topic).
    """
    session = session_of(ctx)
    cluster = cluster_of(session)
    bounds = bounds_of(at, until, follow)
    _show(session, cluster, "offsets", TopicQuery(names or (), bounds, raw, follow, True))


def _show(session: CliSession, cluster: ClusterOptions, word: str, query: TopicQuery) -> None:
    from kconnect.admin.direct.read.reader import ClusterReader

    which, access = internal_topic(word), cluster.access()
    with signals_raise(), client_problems_shown(session, query.follow), ClusterReader(access) as reader:
        if query.raw:
            show_records(session, access, reader, which, query)
            return
        view = _READ[word](reader, query.bounds)
        _check(session, access, which, view, query)
        _WRITE[word](session, view, query, access)
        if query.follow:
            sys.stdout.flush()
            follow_changes(session, reader, which, view, query)


def _check(session: CliSession, access: ClusterAccess, which: InternalTopic, view: View, query: TopicQuery) -> None:
    """Errors: NotFoundError for a connector that is not in the topic."""
    from kconnect.admin.direct.read.documents import known_connectors

    topic = access.topic(which)
    if not view.seen.records:
        session.say(f"Topic {topic} holds no records{' up to there' if query.bounds != type(query.bounds)() else ''}.")
    elif view.seen.strangers:
        session.say(f"Keys of no known kind: {view.seen.strangers}. connect topics doctor names them.")
    if not query.names or query.follow:
        return
    known = known_connectors(view)
    for name in query.names:
        if name not in known:
            raise NotFoundError(f"Topic {topic} has no connector {name}", hint=_near(name, known))


def _write_configs(session: CliSession, view: ConfigView, query: TopicQuery, access: ClusterAccess) -> None:
    from kconnect.admin.direct.read.documents import config_document
    from kconnect.admin.direct.read.installed_plugins import secret_masks
    from kconnect_cli.screen.topic_pages import config_page, config_table

    settings = bool(query.names) or session.output in (Format.JSON, Format.YAML)
    now_ms = round(time.time() * 1000)
    masks = secret_masks(access, reveal=query.reveal)
    document = config_document(view, query.only, masks=masks, settings=settings, now_ms=now_ms)
    if session.output in (Format.JSON, Format.YAML):
        write_object(document, session.output)
    elif session.output is Format.NAME:
        _write_names(row["name"] for row in document["connectors"])
    elif query.names:
        by_name = {row["name"]: row for row in document["connectors"]}
        write_text("\n".join(config_page(by_name[name]) for name in dict.fromkeys(query.names) if name in by_name))
    else:
        write_text(config_table(document))


def _write_statuses(session: CliSession, view: StatusView, query: TopicQuery, _: ClusterAccess) -> None:
    from kconnect.admin.direct.read.documents import status_document
    from kconnect_cli.screen.topic_pages import status_table

    document = status_document(view, query.only)
    if session.output in (Format.JSON, Format.YAML):
        write_object(document, session.output)
    elif session.output is Format.NAME:
        _write_names(row["name"] for row in document)
    else:
        write_text(status_table(document))


def _write_offsets(session: CliSession, view: OffsetView, query: TopicQuery, _: ClusterAccess) -> None:
    from kconnect.model import offsets_from_json
    from kconnect.runtime.storage.offset_document import offsets_document as document_of
    from kconnect_cli.files.offset_files import offsets_document

    document = document_of(view.entries, connectors=query.only, skip=session.say)
    found: dict[str, Sequence[ConnectorOffset]] = {
        name: offsets_from_json(document.get(name, {"offsets": []}))
        for name in sorted(document if query.only is None else set(query.names))
    }
    if session.output in (Format.JSON, Format.YAML):
        write_object(offsets_document(found, one=len(query.names) == 1), session.output)
    elif session.output is Format.NAME:
        _write_names(found)
    else:
        rows = [
            {"name": name, "partition": json_cell(item.partition), "offset": json_cell(item.offset)}
            for name, items in found.items()
            for item in items
        ]
        write_rows(rows, _OFFSET_COLUMNS, session.output)


_OFFSET_COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("PARTITION", lambda row: row["partition"]),
    Column("OFFSET", lambda row: row["offset"]),
)
_READ: Mapping[str, Callable[[ClusterReader, Bounds], Any]] = {
    "config": lambda reader, bounds: reader.configs(bounds),
    "status": lambda reader, bounds: reader.statuses(bounds),
    "offsets": lambda reader, bounds: reader.offsets(bounds),
}
_WRITE: Mapping[str, Callable[[CliSession, Any, TopicQuery, ClusterAccess], None]] = {
    "config": _write_configs,
    "status": _write_statuses,
    "offsets": _write_offsets,
}


def _write_names(names: Iterable[str]) -> None:
    write_text("".join(f"{name}\n" for name in names))


def _near(name: str, known: Iterable[str]) -> str | None:
    names = sorted(known)
    shown = f"It knows {', '.join(names[:10])}{', ..' if len(names) > 10 else ''}" if names else None
    return did_you_mean(name, names) or shown


@dataclass(frozen=True, slots=True)
class TopicQuery:
    """What to show of a topic, and how."""

    names: Sequence[str]
    bounds: Bounds
    raw: bool
    follow: bool
    reveal: bool

    @property
    def only(self) -> frozenset[str] | None:
        """The connectors that are meant; None for all."""
        return frozenset(self.names) or None


def show_records(
    session: CliSession, access: ClusterAccess, reader: ClusterReader, which: InternalTopic, query: TopicQuery
) -> None:
    """Record by record, as they arrive: nothing is kept."""
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.read.installed_plugins import secret_masks
    from kconnect.admin.direct.read.record_json import connector_of, shown_record
    from kconnect_cli.screen.topic_pages import RAW_HEAD, raw_line, write_line

    masks = secret_masks(access, reveal=query.reveal)
    if which is InternalTopic.CONFIG and not query.reveal:  # compaction may have left tasks before their connector
        masks.learn(reader.configs(any_kind=True).snapshot.configs)
    if session.output is Format.TABLE:
        write_text(RAW_HEAD)
    records = reader.records(which, follow=Event()) if query.follow else reader.records(which, query.bounds)
    for record in records:
        if query.only is not None and connector_of(which, record.key) not in query.only:
            continue
        row = shown_record(record, masks.value(which, record.key, record.value))
        write_line(row, session.output, raw_line(row))
        if query.follow:
            sys.stdout.flush()


def follow_changes(
    session: CliSession, reader: ClusterReader, which: InternalTopic, view: View, query: TopicQuery
) -> None:
    """Describes each record written from now on, until a signal ends the command."""
    from kconnect.admin.direct.read.documents import describer_of
    from kconnect.admin.direct.read.record_json import connector_of, shown_record
    from kconnect_cli.screen.topic_pages import safe, write_line

    describe = describer_of(which, getattr(view, "fold", None))
    begin = view.seen.next_offsets
    for record in reader.records(which, begin=begin, follow=Event()):
        change, connector = describe(record), connector_of(which, record.key)
        if query.only is not None and connector not in query.only:
            continue
        place = shown_record(record, None)
        row = {key: place[key] for key in ("partition", "offset", "timestamp", "key")}
        row |= {"connector": connector, "change": change}
        write_line(row, session.output, f"{place['timestamp']} {record.partition}:{record.offset} {safe(change)}\n")
        sys.stdout.flush()


@contextmanager
def client_problems_shown(session: CliSession, follow: bool) -> Iterator[None]:
    """While a topic is followed: reports client problems that do not end it, such as an unreachable broker."""
    handler = logging.NullHandler() if not follow or session.verbose else _Reported(session)
    logger = logging.getLogger("kconnect")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Reported(logging.Handler):
    def __init__(self, session: CliSession) -> None:
        super().__init__(logging.WARNING)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        self._session.say(record.getMessage())


_Key = Annotated[str, typer.Argument(metavar="KEY", help="The key; base64:.. for bytes.", show_default=False)]
_RawValue = Annotated[bool, typer.Option("--raw", help="The value as it is, byte for byte.")]


def _get_of(word: str) -> Callable[..., None]:
    def get(
        ctx: typer.Context,
        key: _Key,
        raw: _RawValue = False,
        at: AtEach = None,
        until: Until = None,
        show_secrets: ShowSecrets = False,
    ) -> None:
        """Print the value of the newest record of a key, as JSON; its position is printed on stderr.

        Secrets are masked. For an unknown key, similar ones are listed.
        """
        session = session_of(ctx)
        cluster = cluster_of(session)
        bounds = bounds_of(at, until, has_one_partition=word == "config")
        _get(session, cluster, internal_topic(word), (key, bounds, raw, show_secrets))

    return get


def _get(
    session: CliSession, cluster: ClusterOptions, which: InternalTopic, asked: tuple[str, Bounds, bool, bool]
) -> None:
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.read.documents import look_up
    from kconnect.admin.direct.read.installed_plugins import secret_masks
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.admin.direct.read.record_json import bytes_of
    from kconnect.clock import moment

    key, bounds, raw, reveal = asked
    try:
        wanted = bytes_of(key)
    except ValueError as err:
        raise UsageProblem(f"{key} is not Base64: {err}") from err
    access = cluster.access()
    topic = access.topic(which)
    with signals_raise(), ClusterReader(access) as reader:
        found = look_up(reader.records(which, bounds), wanted, is_offset=which is InternalTopic.OFFSET)
        masks = secret_masks(access, reveal=reveal)
        if which is InternalTopic.CONFIG and not reveal:
            masks.learn(reader.configs(any_kind=True).snapshot.configs)
    record = found.record
    if record is None or record.value is None:
        sentence = f"Topic {topic} has no key {key}"
        if record is not None:
            when = moment(record.timestamp_ms) or "no time"
            sentence += f": it was deleted at {record.partition}:{record.offset}, {when}"
        raise NotFoundError(sentence, hint=f"Similar keys: {' '.join(found.near)}" if found.near else None)
    session.say(f"{topic} {record.partition}:{record.offset}, {moment(record.timestamp_ms) or 'no time'}")
    _write_value(session, key, masks.value(which, record.key, record.value), raw)


def _write_value(session: CliSession, key: str, value: bytes | None, raw: bool) -> None:
    """Byte for byte; or as readable JSON, unchanged if it is not JSON."""
    import json

    data = value or b""
    if session.output is Format.NAME:
        write_text(f"{key}\n")
        return
    if not raw:
        try:
            write_object(json.loads(data), session.output)
            return
        except (ValueError, RecursionError):
            session.say("The value is not JSON.")
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        raise ConnectError("Standard output does not accept bytes")
    stream.write(data if raw else data + b"\n")
    stream.flush()
