"""`/ui/connectors/{name}/topics`: its topics; of one the partitions with end, committed and lag, and last records.

A worker of ours reads the records as the caller, who needs the right to. For Java's workers and the topics alone
this console reads them itself, with the login that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from kconnect.admin.console.dead_letters import kept_registry
from kconnect.admin.console.page_request import Page, PageRequest, Reply, Route
from kconnect.admin.console.pages.connector import header, if_reported
from kconnect.admin.console.pages.letters import Text, text_of
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.read.installed_plugins import config_masks
from kconnect.admin.records import Last, Range, RecordDecoder, TopicRecords, record_decoder
from kconnect.admin.records.decoding import ReportedRecord, ShownRecord
from kconnect.errors import BadRequestError, ConfigError, NoRouteError, NotFoundError
from kconnect.model import ConnectorInfo, ConnectorType, PartitionLag, SinkLag

# Some screens of them; `connect records` has all
_LAST: Final = 20


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition by its offsets; None where one is not known, or has no meaning for a source."""

    partition: int
    end: int | None
    committed: int | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record as the page shows it."""

    place: str
    time_ms: int | None
    key: Text
    value: Text
    headers: tuple[tuple[str, Text], ...]
    problems: tuple[str, ...]


def show(request: PageRequest) -> Reply:
    """The page; without a topic in the query, of the first one."""
    name = request.path["name"]
    status, info = request.cluster.connector_status(name), request.cluster.connector(name)
    tracked, problem = if_reported(lambda: request.cluster.topics(name))
    lag, lag_problem = _lag(request, info)
    topics = sorted({*(tracked or ()), *lag.by_topic, *_named(info)})
    topic = request.query.get("topic") or (topics[0] if topics else "")
    if topic and topic not in topics:
        raise NotFoundError(f"{name} was not seen to use the topic {topic}")
    look, look_problem = TopicLook(), ""
    if topic:
        found, look_problem = if_reported(lambda: look_at(request, info, topic, _LAST))
        look = found or look
    lags = {each.partition: each for each in lag.partitions if each.topic == topic}
    values = {
        **header(request, status, info.config, "topics"),
        "topics": [(each, f"?{urlencode({'topic': each})}", lag.by_topic.get(each)) for each in topics],
        "topic": topic,
        "is_sink": info.type is ConnectorType.SINK,
        "partitions": partition_rows(look.ends, lags),
        "records": [_row(record) for record in reversed(look.records)],
        "notes": [*look.notes, *(each for each in (problem, lag_problem, look_problem) if each)],
        "has_looked": not look_problem,
    }
    return Page("topics.html", f"Topics of {name}", values, tab="connectors")


def partition_rows(ends: Mapping[int, int], lags: Mapping[int, PartitionLag]) -> list[PartitionRow]:
    """By number. `ends` were asked a moment after `lags`, so that each row is of one moment: that of its lag."""
    return [
        PartitionRow(number, lag.end_offset, lag.offset, lag.lag)
        if (lag := lags.get(number)) is not None
        else PartitionRow(number, ends[number])
        for number in sorted({*ends, *lags})
    ]


def _lag(request: PageRequest, info: ConnectorInfo) -> tuple[SinkLag, str]:
    """Gives none of a source, and none that nobody tells, with why."""
    if info.type is not ConnectorType.SINK:
        return SinkLag(), ""
    found, problem = if_reported(lambda: request.cluster.offsets_and_lag(info.name)[1])
    return found or SinkLag(), problem or (found.problem if found is not None and found.problem else "")


def _named(info: ConnectorInfo) -> list[str]:
    """The topics that a sink's config names: it reads them, also before it has had a record."""
    text = info.config.get("topics", "") if info.type is ConnectorType.SINK else ""
    return [each.strip() for each in text.split(",") if each.strip()]


def _row(record: ShownRecord) -> RecordRow:
    body: Mapping[str, Any] = record.to_json()
    return RecordRow(
        f"{body['partition']}@{body['offset']}",
        None if body["timestamp"] is None else int(datetime.fromisoformat(body["timestamp"]).timestamp() * 1000),
        text_of(record.key.plain),
        text_of(record.value.plain),
        tuple((name, text_of(value.plain)) for name, value in record.headers),
        tuple(body.get("errors", ())),
    )


@dataclass(frozen=True, slots=True)
class TopicLook:
    """`ends`: for each partition the offset that its next record gets. `notes`: sentences on what is not shown."""

    records: Sequence[ShownRecord] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


def look_at(request: PageRequest, info: ConnectorInfo, topic: str, count: int) -> TopicLook:
    """Errors: ForbiddenError; NotFoundError; BadRequestError where nobody reads records; UnreachableError."""
    cluster = request.cluster
    if cluster.rest is not None and cluster.capabilities().is_ours:
        try:
            found = cluster.rest.records(topic, [("last", str(count)), ("as", info.name)])
        except NoRouteError:
            raise BadRequestError(
                "This listener reads no records: it does not serve /admin",
                hint="Open the console at the worker's admin.listeners, or use `connect records` with your own login.",
            ) from None
        ends = {int(number): int(end) for number, end in found["positions"].items()}
        return TopicLook([ReportedRecord(body) for body in found["records"]], ends, found["notes"])
    if cluster.brokers is None:
        raise BadRequestError(
            "Java's workers read no records for others, and this console does not know the brokers",
            hint="Start it with `connect ui --worker FILE`, with the worker's file.",
        )
    return _read(cluster.brokers, info, topic, count)


def _read(access: ClusterAccess, info: ConnectorInfo, topic: str, count: int) -> TopicLook:
    access.raise_if_refused()
    notes, clients, mask = list[str](), access.clients(), config_masks(access, topic)
    with (
        closing(_decoder(access, info, notes)) as decoder,
        TopicRecords(topic, clients.consumer, clients.admin, access.timeout_s, note=notes.append) as records,
    ):
        spans = records.spans(Range(Last(count)))
        found = [decoder.decode(raw) for raw in records.last(count, spans, mask)]
        return TopicLook(found, {number: span.end for number, span in spans.items()}, notes)


def _decoder(access: ClusterAccess, info: ConnectorInfo, notes: list[str]) -> RecordDecoder:
    """Decodes as the connector's tasks do; it guesses where its converters are not installed here."""
    plugins = kept_registry(access.worker.get("plugin.path"))
    try:
        return record_decoder(access.worker, plugins, config=info.config)
    except ConfigError as err:
        notes.append(f"The records are decoded without the connector's converters: {err}")
        return record_decoder(access.worker, plugins)


ROUTES: Final = (Route("/connectors/{name}/topics", {"GET": show}),)
