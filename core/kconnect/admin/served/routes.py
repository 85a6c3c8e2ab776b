"""Routes below /admin that read the worker's Kafka with its login, for who has the worker's URL alone.

Records are read for who may read them: a grant names their topics, and dead letters are for editors of the connector.
One answer ends after some seconds, some thousand records or some megabytes, and says that it did.
What they do is in handlers.py and replay.py, which are loaded with the first such request.
Differs: Java has none; its users need a login to Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.served.requests import LETTER_QUERY, REPLAY_FIELDS, ROLLBACK_FIELDS
from kconnect.errors import UnreachableError
from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.access.needs import ADMINISTERS, EDITS, READS, SEES_SOME, Needs, Of, Role
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, Handler
from kconnect.runtime.rest.operation import (
    Operation,
    Query,
    Schema,
    array_of,
    boolean,
    integer,
    object_of,
    ref,
    text,
    texts,
)

if TYPE_CHECKING:
    from kconnect.admin.served.handlers import Served
    from kconnect.admin.served.replay import ServedReplay

_OBJECT: Final[Schema] = {"type": "object"}
_DIFFERENCE: Final = object_of(
    {
        "name": text,
        "action": {"enum": ["create", "update", "delete", "unchanged"]},
        "settings": array_of(_OBJECT),
        "from": integer,
        "to": integer,
    }
)
_READS_TOPICS: Final = Needs(Role.READER, Of.ANY)
"""A reader of any connector; the handler asks for the topic."""


_RECORD_QUERY: Final = (
    Query("from", "Where to begin: earliest, latest, or a time in ms since 1970", text),
    Query("offset", "The first offset of each partition", integer),
    Query("last", "The last so many records; 10 unless one of these is given", integer),
    Query("until", "The last time, in ms since 1970", integer),
    Query("partition", "Only this partition", integer, many=True),
    Query("positions", "From where to go on: positions of an earlier answer, as JSON", text),
    Query("limit", "How many records at most", integer),
    Query("key", "Only records with this key, as shown, or base64:..", text),
    Query("where", "Only records for which this holds, as for SqlPredicate", text),
    Query("as", "The connector by whose converters they are decoded", text),
    Query("uncommitted", "Also records of transactions that are open or were aborted", boolean),
    Query("raw", "Also the bytes of each value, in base64", boolean),
)


def served_endpoints(worker: Mapping[str, str], plugins: Callable[[], PluginRegistry]) -> tuple[Endpoint, ...]:
    """The routes of a worker with these settings, references resolved. `plugins`: the worker's registry.

    While the worker knows that its Kafka is away, all of them say so at once.
    """

    @cache
    def access() -> ClusterAccess:
        return ClusterAccess(worker)

    @cache
    def served() -> Served:
        from kconnect.admin.served.handlers import Served

        return Served(access(), plugins)

    @cache
    def replay() -> ServedReplay:
        from kconnect.admin.served.replay import ServedReplay

        return ServedReplay(access(), plugins)

    return tuple(
        replace(route, handlers={method: _while_kafka_answers(handler) for method, handler in route.handlers.items()})
        for route in (*_replay_endpoints(replay), *_rollback_endpoints(served), *_endpoints(served))
    )


def _while_kafka_answers(handler: Handler) -> Handler:
    def handle(call: Call[Herder]) -> Answer:
        if (outage := call.herder.outage()) is not None:
            raise UnreachableError(f"This worker's Kafka cannot be read: {outage.sentence()}")
        return handler(call)

    return replace(handler, handler=handle) if isinstance(handler, Operation) else handle


def _endpoints(served: Callable[[], Served]) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "/admin/cluster",
            {
                "GET": Operation(
                    lambda call: served().cluster(call),
                    "The workers' group, as the broker knows it",
                    {200: _OBJECT},
                    needs=SEES_SOME,
                )
            },
        ),
        Endpoint(
            "/admin/doctor",
            {
                "GET": Operation(
                    lambda call: served().doctor(call),
                    "Problems of the cluster's topics, where they are seen, and which commands repair them",
                    {200: object_of({"ok": boolean, "counts": _OBJECT, "findings": array_of(_OBJECT)})},
                    needs=ADMINISTERS,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/changes",
            {
                "GET": Operation(
                    lambda call: served().changes(call),
                    "Who changed a connector's config and offsets, when, from where, before and after",
                    {200: object_of({"topic": {"type": ["string", "null"]}, "changes": array_of(_OBJECT)})},
                    needs=READS,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/config/versions",
            {
                "GET": Operation(
                    lambda call: served().config_versions(call),
                    "The configs that a connector has had, and who made them; the newest first",
                    {200: array_of(_OBJECT)},
                    needs=READS,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/config/diff",
            {
                "GET": Operation(
                    lambda call: served().config_difference(call),
                    "What changed from one version of a connector's config to another",
                    {200: _DIFFERENCE},
                    query=(
                        Query("from", "A version; by default the previous one", integer),
                        Query("to", "A version; by default the current one", integer),
                    ),
                    needs=READS,
                )
            },
        ),
        Endpoint(
            "/admin/topics/{topic}/records",
            {
                "GET": Operation(
                    lambda call: served().records(call),
                    "Records of a topic, decoded; the last ten by default",
                    {200: object_of({"records": array_of(_OBJECT), "notes": array_of(text), "positions": _OBJECT})},
                    query=_RECORD_QUERY,
                    needs=_READS_TOPICS,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/dead-letters/letters",
            {
                "GET": Operation(
                    lambda call: served().letters(call),
                    "Dead letters of a connector: counted, shown, or as lines for a replay",
                    {200: _OBJECT},
                    query=LETTER_QUERY,
                    needs=EDITS,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/offsets/target",
            {
                "POST": Operation(
                    lambda call: served().target(call),
                    "The offsets that a connector has at a time, at an end, or some records on",
                    {200: ref("Offsets")},
                    body=_OBJECT,
                    needs=READS,
                    changes=False,
                )
            },
        ),
    )


def _rollback_endpoints(served: Callable[[], Served]) -> tuple[Endpoint, ...]:
    """A config of before, with its secrets, which no answer of the history has."""
    body = object_of(ROLLBACK_FIELDS, closed=True)
    return (
        Endpoint(
            "/admin/connectors/{name}/config/rollback/plan",
            {
                "POST": Operation(
                    lambda call: served().plan_rollback(call),
                    "What giving a connector the config of an earlier version would change; by default the previous",
                    {200: _DIFFERENCE},
                    body=body,
                    needs=EDITS,
                    changes=False,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/config/rollback",
            {
                "POST": Operation(
                    lambda call: served().roll_back(call),
                    "Give a connector the config of an earlier version again",
                    {200: ref("Connector")},
                    body=body,
                    needs=EDITS,
                )
            },
        ),
    )


def _replay_endpoints(served: Callable[[], ServedReplay]) -> tuple[Endpoint, ...]:
    counts = {"type": "object", "additionalProperties": integer}
    reported = {"outcomes": counts, "targets": counts, "why": texts, "more": boolean, "notes": array_of(text)}
    planned = {**reported, "ends": counts, "warnings": array_of(text), "shown": array_of(_OBJECT)}
    body, query = object_of(REPLAY_FIELDS, closed=True), LETTER_QUERY[1:]
    return (
        Endpoint(
            "/admin/connectors/{name}/dead-letters/replay/plan",
            {
                "POST": Operation(
                    lambda call: served().plan(call),
                    "What a replay of a connector's dead letters would send",
                    {200: object_of(planned)},
                    body=body,
                    query=query,
                    needs=EDITS,
                    changes=False,
                )
            },
        ),
        Endpoint(
            "/admin/connectors/{name}/dead-letters/replay",
            {
                "POST": Operation(
                    lambda call: served().run(call),
                    "Send a connector's dead letters to their topics again, each once",
                    {200: object_of(reported)},
                    body=body,
                    query=query,
                    needs=EDITS,
                )
            },
        ),
    )
