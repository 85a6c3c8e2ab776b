"""`connect records`: records of a topic, decoded for people; options say which."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ClusterArguments, cluster_of
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.looks import Follow
from kconnect_cli.options.shared import takes
from kconnect_cli.options.topic_points import milliseconds_of
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Format
from kconnect_cli.screen.topic_pages import RecordFormat, RecordWriter
from kconnect_cli.session import CliSession, ShowSecrets, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.records import Range, RecordFilter
    from kconnect.model import AtTime, Edge

REGISTRY_VARIABLE = "KCONNECT_REGISTRY"
# A look takes a worker some milliseconds
_FOLLOW_EVERY_S = 0.5
_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.", show_default=False)]
_Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=0, help="End after N records.", show_default=False)
]
_KEY_HELP = "Only records with this key, as shown, or base64:..."
_Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help=_KEY_HELP, show_default=False)]
_WHERE_HELP = "Only records for which this holds: what follows WHERE in Spark's dialect, as for SqlPredicate."
_Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help=_WHERE_HELP, show_default=False)]
_AS_HELP = "Decode by the converters of this connector."
_As = Annotated[str | None, typer.Option("--as", metavar="CONNECTOR", help=_AS_HELP, show_default=False)]
_REGISTRY_HELP = "Decode by this schema registry. [env var: KCONNECT_REGISTRY]"
_Registry = Annotated[str | None, typer.Option("--registry", metavar="URL", help=_REGISTRY_HELP, show_default=False)]
_Headers = Annotated[bool, typer.Option("--headers", help="Show headers below each record; JSON always has them.")]
_Uncommitted = Annotated[
    bool, typer.Option("--uncommitted", help="Also records of transactions that are open or were aborted.")
]
_Output = Annotated[
    RecordFormat | None,
    typer.Option(
        "--output", "-o", metavar="FORMAT", help="table, json, jsonl or raw. [default: table]", show_default=False
    ),
]


@contextmanager
def _ended(writer: RecordWriter) -> Iterator[None]:
    """Completes what was written, also when a signal ends it."""
    try:
        yield
    finally:
        writer.end()
        writer.flush()


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def records(
    ctx: typer.Context,
    topic: _Topic,
    from_: From = None,
    offset: Offset = None,
    partition: Partitions = None,
    last: Last = None,
    until: Until = None,
    limit: _Limit = None,
    follow: Follow = False,
    key: _Key = None,
    where: _Where = None,
    connector: _As = None,
    registry: _Registry = None,
    headers: _Headers = False,
    uncommitted: _Uncommitted = False,
    show_secrets: ShowSecrets = False,
    output: _Output = None,
) -> None:
    """Show records of a topic, decoded: the last ten, from a time or an offset on, or as they come.

    \b
    connect records orders
    connect records orders --from -2h --where "amount > 100" -o jsonl
    connect records orders --follow --as orders-sink

    Decodes by the converters of a connector (--as), by a schema registry, by the worker's converters, or guesses; JSON
    says which. Records that cannot be decoded are shown as bytes, with the reason. Several partitions are merged by
    time. JSON: topic, partition, offset, timestamp, timestamp_type, key, value, headers, size, decoded; errors if any.
    """  # noqa: D301  # \b is the help's mark of lines that stay as they are
    session = session_of(ctx)
    form = output or _form_of(session)
    if follow and until:
        raise UsageProblem("--follow cannot be combined with --until", hint="--follow has no end.")
    wanted = range_of(from_, offset, last, partition, until)
    look = _Look(
        topic=topic, wanted=wanted, follow=follow, limit=limit, is_committed=not uncommitted, reveal=show_secrets
    )
    chosen, writer = _Chosen(key, where, connector, registry), RecordWriter(form, with_headers=headers)
    from kconnect_cli.admin.asked_worker import asks_worker

    count = _ask(session, look, chosen, writer) if asks_worker(session) else _read(session, look, chosen, writer)
    if not count and not follow:
        session.say(
            f"No records of {topic} are in this range." if not (key or where) else f"No records of {topic} match."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    topic: str
    wanted: Range
    follow: bool
    limit: int | None
    is_committed: bool
    reveal: bool


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which records are shown, and by what they are decoded."""

    key: str | None
    where: str | None
    connector: str | None
    registry: str | None


def _read(session: CliSession, look: _Look, chosen: _Chosen, writer: RecordWriter) -> int:
    """Reads them from the brokers that the options name; gives how many it wrote."""
    from kconnect.admin.records import RecordFilter, record_decoder
    from kconnect.runtime.plugins import PluginRegistry

    access = cluster_of(session).access()
    access.raise_if_refused()
    plugins = PluginRegistry.load(access.worker.get("plugin.path"), tells_skipped=False)
    config = None
    if chosen.connector is not None:
        config = session.on_connector(chosen.connector, session.reader.connector).config
    registry = chosen.registry or os.environ.get(REGISTRY_VARIABLE)
    try:
        decoder = record_decoder(access.worker, plugins, config=config, registry=registry)
    except ConnectError as err:
        err.hint = err.hint or "Without --as the records are decoded by a registry (--registry URL), or guessed."
        raise
    with closing(RecordFilter(decoder, plugins, key=chosen.key, where=chosen.where)) as wanted:
        count = _show(session, access, look, wanted, writer)
        _say_untested(session, wanted.untested, wanted.first_untested)
    return count


def _show(session: CliSession, access: ClusterAccess, look: _Look, chosen: RecordFilter, writer: RecordWriter) -> int:
    """Writes the records as they come; gives how many."""
    from kconnect.admin.direct.read.installed_plugins import config_masks
    from kconnect.admin.records import TopicRecords

    clients = access.clients()
    mask = config_masks(access, look.topic, reveal=look.reveal)
    with (
        TopicRecords(
            look.topic,
            clients.consumer,
            clients.admin,
            access.timeout_s,
            is_committed=look.is_committed,
            note=session.say,
        ) as topic,
        signals_raise(),
        _ended(writer),
    ):
        found = topic.records(
            look.wanted, lambda raw: chosen.accept(mask(raw)), follow=Event() if look.follow else None
        )
        with closing(found):
            for record in islice(found, look.limit):
                writer.write(chosen.shown(record))
                if look.follow:
                    writer.flush()
    return writer.count


def _ask(session: CliSession, look: _Look, chosen: _Chosen, writer: RecordWriter) -> int:
    """Has a worker read and decode them, page by page; gives how many were written."""
    if chosen.registry is not None or look.reveal:
        option = "--registry" if chosen.registry is not None else "--show-secrets"
        raise UsageProblem(f"{option} needs the brokers", hint="Give --worker FILE or --bootstrap-servers.")
    from kconnect.admin.records.decoding import ReportedRecord
    from kconnect_cli.admin.asked_worker import AskedWorker

    untested, first_untested, pause = 0, None, Event()
    query = list(_query(look, chosen, with_raw=writer.wants_raw))
    with AskedWorker(session) as worker, signals_raise(), _ended(writer):
        while True:
            left = None if look.limit is None else look.limit - writer.count
            page = worker.records(look.topic, [*query, *([] if left is None else [("limit", str(left))])])
            for record in page["records"]:
                writer.write(ReportedRecord(record))
            untested += page["untested"]
            first_untested = first_untested or page["first_untested"]
            if writer.count == look.limit or not (look.follow or page["more"]):
                break
            query = [pair for pair in query if pair[0] != "positions"]
            query.append(("positions", json.dumps(page["positions"])))
            if not page["more"]:
                writer.flush()
                pause.wait(_FOLLOW_EVERY_S)
    _say_untested(session, untested, first_untested)
    return writer.count


def _query(look: _Look, chosen: _Chosen, *, with_raw: bool) -> Iterator[tuple[str, str]]:
    from kconnect.admin.records import Last
    from kconnect.model import AtOffset, AtTime, Edge

    match look.wanted.start:
        case AtOffset(offset):
            yield "offset", str(offset)
        case Last(count):
            yield "last", str(count)
        case AtTime(time_ms):
            yield "from", str(time_ms)
        case Edge() as edge:
            yield "from", edge.value
    yield from (("partition", str(number)) for number in sorted(look.wanted.partitions))
    given = {"until": look.wanted.until_ms, "key": chosen.key, "where": chosen.where, "as": chosen.connector}
    yield from ((name, str(value)) for name, value in given.items() if value is not None)
    yield from ((name, "true") for name, on in (("uncommitted", not look.is_committed), ("raw", with_raw)) if on)


def _say_untested(session: CliSession, count: int, first: str | None) -> None:
    if first is not None:
        session.say(
            f"The condition has no answer for {pluralize(count, 'record')}, which are left out. The first: {first}"
        )


def _form_of(session: CliSession) -> RecordFormat:
    """`connect -o json records ..`: what stands before the noun. Errors: UsageProblem for forms that records lack."""
    if session.output not in (Format.TABLE, Format.JSON):
        raise UsageProblem(f"Records cannot be written as {session.output}", hint="-o table, json, jsonl or raw.")
    return RecordFormat(session.output)


_FROM_HELP = "First time: how long ago (-2h), ISO 8601 in the local zone by default, earliest, or latest."
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help=_FROM_HELP, show_default=False)]
Offset = Annotated[
    int | None, typer.Option("--offset", metavar="N", min=0, help="First offset of each partition.", show_default=False)
]
Last = Annotated[
    int | None,
    typer.Option("--last", "-n", metavar="N", min=0, help="Only the last N records. [default: 10]", show_default=False),
]
_PARTITION_HELP = "Only partitions with this number; may be repeated."
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", metavar="N", min=0, help=_PARTITION_HELP, show_default=False),
]
_UNTIL_HELP = "Last time, as --from."
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help=_UNTIL_HELP, show_default=False)]

_DEFAULT_LAST = 10


def range_of(
    from_: str | None, offset: int | None, last: int | None, partitions: Sequence[int] | None, until: str | None
) -> Range:
    """What the options say; the last ten records by default. Errors: UsageProblem that names the option."""
    from kconnect.admin.records import Last, Range
    from kconnect.model import AtOffset

    given = [name for name, value in (("--from", from_), ("--offset", offset), ("--last", last)) if value is not None]
    if len(given) > 1:
        raise UsageProblem(f"{given[0]} cannot be combined with {given[1]}", hint="Give one of them.")
    until_ms = None if until is None else _time_of(until, "--until")
    chosen = frozenset(partitions or ())
    if from_ is not None:
        return Range(_start_of(from_), chosen, until_ms)
    if offset is not None:
        return Range(AtOffset(offset), chosen, until_ms)
    return Range(Last(_DEFAULT_LAST if last is None else last), chosen, until_ms)


def _start_of(text: str) -> Edge | AtTime:
    from kconnect.model import AtTime, Edge

    word = text.strip().lower()
    for edge in Edge:
        if word == edge.value:
            return edge
    return AtTime(_time_of(text, "--from"))


def _time_of(text: str, option: str) -> int:
    """A point in time: `2h` is as long ago as `-2h`."""
    text = text.strip()
    is_ago = text[:1].isdigit() and text[-1:] in ("s", "m", "h")
    return milliseconds_of(f"-{text}" if is_ago else text, option, time.time())
