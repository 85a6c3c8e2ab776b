"""The last records of one of a connector's topics, with where its partitions end.

A worker of ours reads them as the caller, who needs the right to. For Java's workers and the topics alone this console
reads them itself, with the login that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from kconnect.admin.console.dead_letter_reader import kept_registry
from kconnect.admin.console.page_request import PageRequest
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.read.installed_plugins import config_masks
from kconnect.admin.records import Last, Range, RecordDecoder, TopicRecords, record_decoder
from kconnect.admin.records.decoding import ReportedRecord, ShownRecord
from kconnect.errors import BadRequestError, ConfigError, NoRouteError
from kconnect.model import ConnectorInfo


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
