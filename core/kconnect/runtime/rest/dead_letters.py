"""`/admin/connectors/{name}/dead-letters`: who may read and replay them with the worker's login.

The console reads and sends dead letters with the worker's own login to Kafka, for whoever looks at it. It asks here
first, as the caller: records may be private, so that readers of the connector do not see them. Differs: Java has none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kconnect.errors import BadRequestError
from kconnect.runtime.config.connector_config import DeadLetterSettings
from kconnect.runtime.herder.interface import Connectors
from kconnect.runtime.rest.access.needs import EDITS
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, no_content
from kconnect.runtime.rest.operation import Operation, Schema, boolean, integer, object_of, text

_REPLAY: Final = (
    'a JSON object {"targets": {"topic": 3, ..}, "edited": true}: how many dead letters go to which topics, and '
    "whether their records are changed on the way"
)
_REPLAY_BODY: Final[Schema] = object_of(
    {"targets": {"type": "object", "additionalProperties": integer}, "edited": boolean},
    required=("targets",),
    closed=True,
)


def show_place(call: Call[Connectors]) -> Answer:
    """The topic; null when the connector keeps no dead letters."""
    name = call.path["name"]
    settings = DeadLetterSettings.parse(call.herder.connector_config(name))
    return Answer({"connector": name, "topic": None if settings is None else settings.topic})


def announce_replay(call: Call[Connectors]) -> Answer:
    """Changes nothing itself: the caller sends the dead letters next, and the audit log has said who does."""
    body = call.json_object(_REPLAY, known=("targets", "edited"))
    targets, edited = body.get("targets"), body.get("edited", False)
    if not isinstance(targets, dict) or any(type(count) is not int for count in targets.values()):
        raise BadRequestError(f"The body must be {_REPLAY}")
    if not isinstance(edited, bool):
        raise BadRequestError(f"The body must be {_REPLAY}")
    name = call.path["name"]
    call.herder.connector_config(name)
    require_targets(call, name, targets)
    return no_content()


def require_targets(call: Call[object], connector: str, targets: Collection[str]) -> None:
    """Refuse records of a connector for topics that its config may not name either. Errors: DeniedError."""
    if targets:
        call.require_config({"topics": ",".join(targets)}, connector)


ENDPOINTS = (
    Endpoint(
        "/admin/connectors/{name}/dead-letters",
        {
            "GET": Operation(
                show_place,
                "Where a connector's dead letters are, for who may read them",
                {200: object_of({"connector": text, "topic": {"type": ["string", "null"]}}, required=("connector",))},
                needs=EDITS,
            )
        },
    ),
    Endpoint(
        "/admin/connectors/{name}/dead-letters/replays",
        {
            "POST": Operation(
                announce_replay,
                "Say that the caller replays dead letters now: refused to who may not, and in the audit log",
                {204: None},
                body=_REPLAY_BODY,
                needs=EDITS,
            )
        },
    ),
)
