"""Raw records of a topic, and records written to it from now on: `show --raw` and `show --follow`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from kconnect_cli.screen.output import Format, write_text
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess, InternalTopic
    from kconnect.admin.direct.read.reader import Bounds, ClusterReader, ConfigView, OffsetView, StatusView

    View = ConfigView | StatusView | OffsetView


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
    from kconnect.admin.direct.read.change_descriptions import describer_of
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
    handler = logging.NullHandler() if not follow or session.verbose else _Told(session)
    logger = logging.getLogger("kconnect")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Told(logging.Handler):
    def __init__(self, session: CliSession) -> None:
        super().__init__(logging.WARNING)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        self._session.say(record.getMessage())
