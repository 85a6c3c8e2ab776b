"""What the routes below /admin do that read the worker's Kafka: loaded with the first request for one of them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

from kconnect.admin.dead_letters.archive import archived
from kconnect.admin.dead_letters.selection import selected, summary
from kconnect.admin.dead_letters.views import letter_view, summary_view
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.doctor.diagnosis import diagnose, diagnosis_to_json
from kconnect.admin.direct.doctor.gathering import Conditions, gather_facts
from kconnect.admin.direct.edit.change_notes import shared_log
from kconnect.admin.direct.group.live_group import LiveWorker
from kconnect.admin.direct.history.config_rows import (
    config_difference,
    config_rows,
    difference,
    masks_of,
    versions_of,
)
from kconnect.admin.direct.history.connector_history import ConfigVersion, restorable, the_previous, the_version
from kconnect.admin.direct.offsets.sink_targets import Chosen, target_of_json
from kconnect.admin.direct.offsets.source_targets import offsets_at
from kconnect.admin.direct.read.cluster_state import cluster_state
from kconnect.admin.direct.read.installed_plugins import config_masks
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.admin.records import Last, Range, RecordFilter, TopicRecords
from kconnect.admin.records.decoders import record_decoder
from kconnect.admin.records.decoding import DecodedRecord
from kconnect.admin.records.selection import Span
from kconnect.admin.served.letters import ConnectorLetters
from kconnect.admin.served.requests import (
    MOST_BYTES,
    MOST_S,
    ROLLBACK_FIELDS,
    as_number,
    letter_selection,
    number_of,
    text_of,
)
from kconnect.client.answers import as_conditions
from kconnect.errors import (
    BadRequestError,
    ConnectError,
    NotFoundError,
    TimedOutError,
    UnreachableError,
    WrongWorkerError,
)
from kconnect.logs.wording import pluralize
from kconnect.model import AtOffset, AtTime, ConnectorInfo, Edge, offsets_to_json
from kconnect.runtime.herder.decisions.etags import config_etag
from kconnect.runtime.herder.interface import ConnectorChanges, Connectors, Offsets, Plugins, Work
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.access.needs import READS
from kconnect.runtime.rest.conditions import CONDITIONS, own_conditions
from kconnect.runtime.rest.connectors import consumer_groups
from kconnect.runtime.rest.exchange import Answer, AskAnotherError, Call

_MOST_RECORDS: Final = 10_000


class _ConnectorOffsets(Connectors, Offsets, Protocol):
    """What the offsets of a connector at a target need."""


class _Watched(Connectors, Work, Protocol):
    """What the doctor asks of this worker itself."""


class _Configured(Connectors, ConnectorChanges, Plugins, Protocol):
    """What giving a connector an earlier config needs."""


class _SpentError(Exception):
    """The time for one answer is over."""


@dataclass(frozen=True, slots=True)
class Served:
    """The handlers of one worker. Threads: those of the REST server's pool, each with clients of its own."""

    access: ClusterAccess
    plugins: Callable[[], PluginRegistry]
    monotonic: Callable[[], float] = time.monotonic

    def cluster(self, call: Call[Connectors]) -> Answer:
        """The group as the broker knows it. Errors: NotFoundError on a standalone worker, which has none."""
        if not self.access.has_group:
            raise BadRequestError("This worker is standalone and has no group")
        self.access.raise_if_refused()
        return Answer(cluster_state(self.access).to_json())

    def doctor(self, call: Call[_Watched]) -> Answer:
        """What `connect topics doctor` finds. Errors: NotFoundError on a standalone worker, which has no topics."""
        if not self.access.has_group:
            raise NotFoundError("This worker is standalone: the doctor looks at a cluster's topics, and it has none")
        self.access.raise_if_refused()

        def ask(worker: LiveWorker) -> Conditions | ConnectError:
            id_ = urlsplit(worker.url).netloc
            if id_ == call.herder.worker_id:
                return own_conditions(call.herder)
            if call.others is None:
                return {}
            asked = {path: call.headers_for("GET", path) for path in (CONDITIONS, "/")}
            found = call.others.ask_all([id_], asked)
            if id_ in found[CONDITIONS]:
                return as_conditions(found[CONDITIONS][id_])
            if id_ in found["/"]:
                return {}  # Java's has none
            refusal = call.others.refusals().get(id_)
            return UnreachableError(f"it refuses requests: {refusal}" if refusal else f"{worker.url} does not answer")

        with ClusterReader(self.access) as reader:
            facts = gather_facts(self.access, reader, time.time_ns() // 1_000_000, ask)
        return Answer(diagnosis_to_json(diagnose(facts), facts.not_checked, _BY_FILE))

    def changes(self, call: Call[Connectors]) -> Answer:
        """Who changed a connector's config and offsets, secrets masked; a null topic where nobody keeps that."""
        log = shared_log(self.access)
        if log is None:
            return Answer({"topic": None, "changes": []})
        self.access.raise_if_refused()
        with log:
            return Answer({"topic": log.topic, "changes": log.entries(call.path["name"])})

    def config_versions(self, call: Call[Connectors]) -> Answer:
        """Errors: NotFoundError on a standalone worker, which keeps no configs, and for a connector without any."""
        self._check_keeps_configs()
        return Answer(config_rows(self.access, call.path["name"]))

    def config_difference(self, call: Call[Connectors]) -> Answer:
        """Errors: as of `config_versions`."""
        self._check_keeps_configs()
        old, new = number_of(call, "from"), number_of(call, "to")
        return Answer(config_difference(self.access, call.path["name"], old, new))

    def plan_rollback(self, call: Call[_Configured]) -> Answer:
        """What a rollback would change. Errors: BadRequestError with what is wrong today in the earlier config."""
        name, versions, target = self._earlier(call)
        wanted = dict(restorable(name, target))
        call.require_config(wanted, name, lambda: consumer_groups(call.herder))
        shown = difference(name, versions[-1], target, masks_of(self.access, name, versions, reveal=False))
        if shown["settings"] and (errors := call.herder.validate_config(wanted).errors):
            raise BadRequestError(
                f"The worker does not accept that config of {name} any more: {'; '.join(errors)}",
                hint=f"Correct it by hand: connect config edit {name}",
            )
        return Answer(shown)

    def roll_back(self, call: Call[_Configured]) -> Answer:
        """Give a connector the config of an earlier version, as a request does that puts it. Errors: as of that."""
        name, versions, target = self._earlier(call)
        wanted, now = dict(restorable(name, target)), restorable(name, versions[-1])
        call.require_config(wanted, name, lambda: consumer_groups(call.herder))
        expected = call.expected() or (config_etag(now),)
        try:
            _, info = call.herder.put_connector(name, wanted, replace=True, expected=expected)
        except WrongWorkerError as err:
            put = replace(
                call,
                method="PUT",
                raw_path=f"/connectors/{quote(name, safe='')}/config",
                query=[("action", "rollback"), *(pair for pair in call.query if pair[0] == "forward")],
                body=json.dumps(wanted).encode(),
                headers={**call.headers, "if-match": ", ".join(expected)},
            )
            raise AskAnotherError(err, put) from err
        return Answer(info.to_json(), headers={"etag": config_etag(info.config)})

    def _earlier(self, call: Call[Connectors]) -> tuple[str, list[ConfigVersion], ConfigVersion]:
        """The connector, its versions, and the one that the body names, by default the previous one."""
        self._check_keeps_configs()
        body = call.json_object('a JSON object such as {"version": 17}', known=tuple(ROLLBACK_FIELDS))
        version = body.get("version")
        if version is not None and type(version) is not int:
            raise BadRequestError('"version" must be a whole number')
        name = call.herder.connector_info(call.path["name"]).name  # one that is deleted has a history, too
        versions = versions_of(self.access, name)
        return name, versions, the_previous(name, versions) if version is None else the_version(name, versions, version)

    def _check_keeps_configs(self) -> None:
        """Errors: NotFoundError on a standalone worker; UnreachableError."""
        if not self.access.has_group:
            raise NotFoundError("This worker is standalone: it takes configs from files, and keeps none of before")
        self.access.raise_if_refused()

    def records(self, call: Call[Connectors]) -> Answer:
        """Records of a topic, decoded, with what was not shown, and from where to go on."""
        topic = call.path["topic"]
        call.require_topic(topic)
        asked = _Asked.of(call)
        connector = asked.connector
        if connector is not None:
            call.require(READS, connector)
        config = None if connector is None else call.herder.connector_config(connector)
        self.access.raise_if_refused()
        notes: list[str] = []
        decoder = record_decoder(self.access.worker, self.plugins(), config=config)
        with closing(RecordFilter(decoder, self.plugins(), key=asked.key, where=asked.where)) as chosen:
            found, ends, more = self._read(topic, asked, chosen, notes)
            return Answer(
                {
                    "records": [_record_json(record, with_raw=asked.with_raw) for record in found],
                    "notes": notes,
                    "untested": chosen.untested,
                    "first_untested": chosen.first_untested,
                    "more": more,
                    "positions": {str(number): end for number, end in ends.items()},
                }
            )

    def _read(
        self, topic: str, asked: _Asked, chosen: RecordFilter, notes: list[str]
    ) -> tuple[list[DecodedRecord], dict[int, int], bool]:
        """The records, for each partition the first offset that was not read, and whether others are there."""
        clients, mask = self.access.clients(), config_masks(self.access, topic)
        deadline = self.monotonic() + MOST_S

        def accept(raw: Any) -> Any:  # as of RecordFilter
            if self.monotonic() > deadline:
                raise _SpentError
            return chosen.accept(mask(raw))

        with TopicRecords(
            topic,
            clients.consumer,
            clients.admin,
            self.access.timeout_s,
            is_committed=asked.is_committed,
            note=notes.append,
        ) as records:
            spans = records.spans(asked.range)
            ends = {number: span.end for number, span in spans.items()}
            if asked.positions is not None:
                spans = {
                    number: Span(min(asked.positions.get(number, span.end), span.end), span.end)
                    for number, span in spans.items()
                }
            if isinstance(asked.range.start, Last) and asked.positions is None:
                try:
                    last = records.last(asked.range.start.count, spans, accept)
                    return [chosen.shown(one) for one in last], ends, False
                except _SpentError:
                    raise TimedOutError(
                        f"The last {pluralize(asked.range.start.count, 'record')} of this kind were not found within "
                        f"{MOST_S:.0f} s",
                        hint="Say where to begin, as --from -1h does, or ask for fewer.",
                    ) from None
            found, size, more = list[DecodedRecord](), 0, False
            try:
                for one in records.within(spans, accept):
                    found.append(chosen.shown(one))
                    size += found[-1].size
                    if len(found) >= asked.limit or size > MOST_BYTES:
                        more = True
                        break
            except _SpentError:
                more = True
            return found, ends | (_reached(found, spans) if more else {}), more

    def letters(self, call: Call[Connectors]) -> Answer:
        """A connector's dead letters, counted, or with `show` or `export` each by itself."""
        name, wanted = call.path["name"], call.query_values("as") or ["summary"]
        info, notes = call.herder.connector_info(name), list[str]()
        with ConnectorLetters(info, self.access, notes.append, self.plugins) as reader:
            reader.brokers.raise_if_refused()
            chosen = letter_selection(call, name, takes_unknown=not reader.settings.context_headers)
            if wanted[0] == "summary":
                found = summary(reader.topic.letters(), chosen, reader.topic.marks())
                return Answer({"summary": summary_view(name, reader.settings.topic, found), "notes": notes})
            limit = min(number_of(call, "limit") or _MOST_RECORDS, _MOST_RECORDS)
            letters = selected(reader.topic.letters(), chosen)
            taken = list(islice(letters, limit + 1))
            if wanted[0] == "export":
                shown = [archived(one, reader.documents.document(one.as_read()).body) for one in taken[:limit]]
            else:
                marks = reader.topic.marks()
                shown = [letter_view(one, reader.documents, marks) for one in taken[:limit]]
            body = {"topic": reader.settings.topic, "letters": shown, "more": len(taken) > limit, "notes": notes}
            return Answer(body)

    def target(self, call: Call[_ConnectorOffsets]) -> Answer:
        """The offsets that a connector has at a target, such as a time; changes nothing."""
        body = call.json_object('a JSON object such as {"to_time": 1700000000000}', known=_TARGET_FIELDS)
        target = target_of_json(body)
        topics, partitions = body.get("topics", []), body.get("partitions", [])
        if not (isinstance(topics, list) and isinstance(partitions, list)):
            raise BadRequestError('"topics" and "partitions" must be lists')
        chosen = Chosen(frozenset(map(str, topics)), frozenset(int(number) for number in partitions))
        info: ConnectorInfo = call.herder.connector_info(call.path["name"])
        committed = call.herder.connector_offsets(info.name)
        return Answer(offsets_to_json(offsets_at(self.access, info, committed, target, chosen)))


# The worker does not know by which file its operators reach its topics
_BY_FILE: Final = ("--worker", "WORKER.properties")
_TARGET_FIELDS: Final = ("to_time", "to", "to_offset", "shift_by", "topics", "partitions")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request for records asks for."""

    range: Range
    limit: int
    key: str | None
    where: str | None
    connector: str | None
    is_committed: bool
    with_raw: bool
    positions: Mapping[int, int] | None

    @classmethod
    def of(cls, call: Call[Any]) -> _Asked:
        """Errors: BadRequestError that names the parameter."""
        last, offset, from_ = number_of(call, "last"), number_of(call, "offset"), text_of(call, "from")
        start: Edge | AtTime | AtOffset | Last = Last(10 if last is None else min(last, _MOST_RECORDS))
        if offset is not None:
            start = AtOffset(offset)
        elif from_ is not None:
            edges = {edge.value: edge for edge in Edge}
            start = edges[from_] if from_ in edges else AtTime(number_of(call, "from") or 0)
        partitions = frozenset(as_number("partition", value) for value in call.query_values("partition"))
        limit = number_of(call, "limit")
        return cls(
            range=Range(start, partitions, number_of(call, "until")),
            limit=min(_MOST_RECORDS if limit is None else limit, _MOST_RECORDS),
            key=text_of(call, "key"),
            where=text_of(call, "where"),
            connector=text_of(call, "as"),
            is_committed=not call.flag("uncommitted"),
            with_raw=call.flag("raw"),
            positions=_positions(text_of(call, "positions")),
        )


def _positions(given: str | None) -> dict[int, int] | None:
    if given is None:
        return None
    try:
        return {int(number): int(offset) for number, offset in json.loads(given).items()}
    except (ValueError, TypeError, AttributeError) as err:
        raise BadRequestError('positions must be those of an earlier answer, such as {"0": 17}') from err


def _reached(found: list[DecodedRecord], spans: Mapping[int, Span]) -> dict[int, int]:
    """The first offset of each partition behind what was found; where nothing was, where it began."""
    ends = {number: span.begin for number, span in spans.items()}
    return ends | {record.raw.partition: record.raw.offset + 1 for record in found}


def _record_json(record: DecodedRecord, *, with_raw: bool) -> dict[str, Any]:
    body = record.to_json()
    if with_raw:
        body["raw"] = None if record.raw.value is None else base64.b64encode(record.raw.value).decode()
    return body
