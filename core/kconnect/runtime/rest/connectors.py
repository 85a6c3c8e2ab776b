"""`/connectors` and everything below it. Source: ConnectorsResource."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol

from kconnect.api.config_parse import java_trim
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.model import ConnectorInfo, ConnectorOffset, TargetState, TaskId, offsets_from_json, offsets_to_json
from kconnect.runtime.herder.decisions.etags import config_etag, offsets_etag
from kconnect.runtime.herder.interface import ConnectorChanges, Connectors, Offsets
from kconnect.runtime.rest.access.limits import GROUP_KEY, GROUP_PREFIX
from kconnect.runtime.rest.access.needs import CREATES, EDITS, FROM_PEERS, OPERATES, READS, SEES_SOME
from kconnect.runtime.rest.conditions import CONDITION, Watched, with_condition, with_conditions
from kconnect.runtime.rest.config_body import CHANGES, CONFIG, as_texts, require_readable, without_nulls
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, accepted, no_content
from kconnect.runtime.rest.internal import put_task_configs
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, object_of, ref, text, texts

log = logging.getLogger(__name__)

_INITIAL_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
_FIRST_OFFSETS = ("offsets", "initial_offsets")
_LAG = Query("lag", "Whether to show how far a sink is behind the ends of its topics", boolean)
_OFFSET_LIST: Schema = {
    "type": ["array", "null"],
    "description": "Where the tasks of the new connector start, as in PATCH of its offsets (KIP-995)",
    "items": {"type": "object"},
}
_CREATE_BODY: Schema = object_of(
    {
        "name": text,
        "config": texts,
        "initial_state": {"enum": list(_INITIAL_STATES)},
        "offsets": _OFFSET_LIST,
        "initial_offsets": _OFFSET_LIST,
    },
    required=("name", "config"),
    closed=True,
)
_CHANGES_BODY: Schema = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
_TOPICS: Schema = {"type": "object", "additionalProperties": object_of({"topics": array_of(text)})}
_CREATE = 'a JSON object {"name": "..", "config": {"key": "value", ..}}'
_CALLED = Query("action", "What the history of changes calls it: alter unless it says another verb", text)
_OFFSETS = 'a JSON object {"offsets": [{"partition": {..}, "offset": {..}}, ..]}'


class _Changed(Connectors, ConnectorChanges, Protocol):
    """What a change of a config that is there needs."""


def list_connectors(call: Call[Watched]) -> Answer:
    expansions = call.query_values("expand")
    if not expansions:
        return Answer(call.access.readable(call.herder.connectors()))
    found = {}
    for name in call.access.readable(call.herder.connectors()):
        try:
            found[name] = _expanded(call, name, expansions)
        except NotFoundError:
            log.debug("Connector %s was deleted while it was being listed", name)
    statuses = [body["status"] for body in found.values() if "status" in body]
    for status in with_conditions(call, statuses):
        found[status.name]["status"] = status.to_json()
    return Answer(found)


def _expanded(call: Call[Watched], name: str, expansions: list[str]) -> dict[str, Any]:
    """A status without a condition, as conditions are fetched for all of them at once."""
    body: dict[str, Any] = {}
    for expansion in expansions:
        if expansion == "status":
            body["status"] = call.herder.connector_status(name)
        elif expansion == "info":
            body["info"] = _shown(call, call.herder.connector_info(name))
        else:
            log.info("Ignoring unknown expansion type %s", expansion)
    return body


def create_connector(call: Call[_Changed]) -> Answer:
    body = call.json_object(_CREATE, texts=True, known=("name", "config", "initial_state", *_FIRST_OFFSETS))
    if (name := body.get("name")) is not None and not isinstance(name, str):
        raise BadRequestError('"name" must be a text')
    if "config" not in body:
        raise BadRequestError(f'"config" is missing in the body; expected {_CREATE}')
    name = java_trim(name or "")
    require_readable("connector", name)
    config = _named(without_nulls(as_texts(body["config"])), name)
    call.require(CREATES, config["name"])
    call.require_config(config, config["name"], lambda: consumer_groups(call.herder))
    state, offsets = _initial_state(body.get("initial_state")), _first_offsets(call, body)
    if offsets is None:
        _, info = call.herder.put_connector(name, config, initial_state=state, replace=False)
        return Answer(info.to_json(), 201, {"location": call.location(info.name), **_tag(info)})
    info, status = call.herder.create_with_offsets(name, config, offsets, initial_state=state)
    return Answer({**info.to_json(), "offsets_status": status}, 201, {"location": call.location(info.name)})


def consumer_groups(herder: Connectors) -> dict[str, str]:
    """The consumer groups of connectors, were all of them sinks."""
    found = {}
    for name in herder.connectors():
        with suppress(NotFoundError):  # deleted meanwhile
            found[name] = herder.connector_config(name).get(GROUP_KEY, "").strip() or f"{GROUP_PREFIX}{name}"
    return found


def put_config(call: Call[_Changed]) -> Answer:
    name = call.path["name"]
    config = _named(without_nulls(as_texts(call.json_object(CONFIG, texts=True))), name)
    call.require_config(config, name, lambda: consumer_groups(call.herder))
    created, info = call.herder.put_connector(name, config, replace=True, expected=call.expected())
    if created:
        return Answer(info.to_json(), 201, {"location": call.location(info.name), **_tag(info)})
    return Answer(info.to_json(), headers=_tag(info))


def patch_config(call: Call[_Changed]) -> Answer:
    """Merge the body into the config; null removes a setting (KIP-477)."""
    name, changes = call.path["name"], as_texts(call.json_object(CHANGES, texts=True))
    expected = call.expected()
    if call.access.is_guarded:  # the whole config must be within the limits, and be the one that is changed
        config = call.herder.connector_config(name)
        merged = {key: value for key, value in {**config, **changes}.items() if value is not None}
        call.require_config(merged, name, lambda: consumer_groups(call.herder))
        expected = (config_etag(config),) if expected is None else expected
    info = call.herder.patch_connector(name, changes, expected=expected)
    return Answer(info.to_json(), headers=_tag(info))


def show_connector(call: Call[Connectors]) -> Answer:
    info = call.herder.connector_info(call.path["name"])
    return Answer(_shown(call, info), headers=_tag(info))


def delete_connector(call: Call[ConnectorChanges]) -> Answer:
    call.herder.delete_connector(call.path["name"], expected=call.expected())
    return no_content()


def show_config(call: Call[Connectors]) -> Answer:
    name = call.path["name"]
    config = call.herder.connector_config(name)
    return Answer(call.access.shown(config, name), headers={"etag": config_etag(config)})


def show_status(call: Call[Watched]) -> Answer:
    (status,) = with_conditions(call, [call.herder.connector_status(call.path["name"])])
    return Answer(status.to_json())


def pause(call: Call[ConnectorChanges]) -> Answer:
    call.herder.set_target_state(call.path["name"], TargetState.PAUSED)
    return accepted()


def resume(call: Call[ConnectorChanges]) -> Answer:
    call.herder.set_target_state(call.path["name"], TargetState.STARTED)
    return accepted()


def stop(call: Call[ConnectorChanges]) -> Answer:
    call.herder.set_target_state(call.path["name"], TargetState.STOPPED)
    return no_content()


def restart(call: Call[ConnectorChanges]) -> Answer:
    """Plain: the connector alone, 204. With includeTasks or onlyFailed: by a plan, 202 and the status it leads to."""
    name = call.path["name"]
    include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    if not (include_tasks or only_failed):
        call.herder.restart_connector(name)
        return no_content()
    status = call.herder.restart_by_plan(name, include_tasks=include_tasks, only_failed=only_failed)
    return Answer(status.to_json(), 202)


def list_tasks(call: Call[Connectors]) -> Answer:
    name = call.path["name"]
    of = cache(partial(call.herder.connector_config, name))
    return Answer(
        [
            {**task.to_json(), "config": call.access.shown(task.config, name, of)}
            for task in call.herder.task_infos(name)
        ]
    )


def task_status(call: Call[Watched]) -> Answer:
    task_id = _task(call)
    return Answer(with_condition(call, task_id, call.herder.task_status(task_id)).to_json())


def restart_task(call: Call[ConnectorChanges]) -> Answer:
    call.herder.restart_task(_task(call))
    return no_content()


def show_topics(call: Call[Connectors]) -> Answer:
    name = call.path["name"]
    return Answer({name: {"topics": call.herder.connector_topics(name)}})


def reset_topics(call: Call[ConnectorChanges]) -> Answer:
    call.herder.reset_connector_topics(call.path["name"])
    return accepted()


def show_offsets(call: Call[Offsets]) -> Answer:
    """Java's body, unless a sink's lag is asked for."""
    name = call.path["name"]
    offsets = call.herder.connector_offsets(name)
    lag = call.herder.sink_lag(name) if call.flag("lag") else None
    body = offsets_to_json(offsets)
    return Answer(body if lag is None else {**body, "lag": lag.to_json()}, headers={"etag": offsets_etag(offsets)})


def alter_offsets(call: Call[Offsets]) -> Answer:
    body = call.json_object(_OFFSETS, known=("offsets",))
    if not body.get("offsets") and body.get("offsets") in (None, []):
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
    name, offsets = call.path["name"], offsets_from_json(body)
    return Answer({"message": call.herder.alter_connector_offsets(name, offsets, expected=call.expected())})


def reset_offsets(call: Call[Offsets]) -> Answer:
    return Answer({"message": call.herder.reset_connector_offsets(call.path["name"], expected=call.expected())})


def _shown(call: Call[Any], info: ConnectorInfo) -> dict[str, Any]:
    """A connector as its caller may see it."""
    return {**info.to_json(), "config": call.access.shown(info.config, info.name)}


def _tag(info: ConnectorInfo) -> dict[str, str]:
    """The entity tag of its config, for If-Match."""
    return {"etag": config_etag(info.config)}


def _task(call: Call[object]) -> TaskId:
    return TaskId(call.path["name"], call.task_number())


def _named(config: dict[str, str], name: str) -> dict[str, str]:
    """The config with `name` added at its end unless it has one. Source: checkAndPutConnectorConfigName."""
    if (given := config.setdefault("name", name)) != name:
        raise BadRequestError(
            f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
        )
    return config


def _first_offsets(call: Call[object], body: Mapping[str, Any]) -> list[ConnectorOffset] | None:
    """The offsets that a new connector starts at; None when the body has none. KIP-995 calls them "initial_offsets"."""
    given = [name for name in _FIRST_OFFSETS if body.get(name) is not None]
    if len(given) > 1:
        raise BadRequestError('"offsets" and "initial_offsets" mean the same; send one of them')
    if not given:
        return None
    return offsets_from_json({"offsets": call.json_object(_CREATE)[given[0]]})  # with numbers as numbers


def _initial_state(text: object) -> TargetState | None:
    if text is None:
        return None
    if not isinstance(text, str) or text.upper() not in _INITIAL_STATES:
        raise BadRequestError(f'"initial_state" must be one of {", ".join(_INITIAL_STATES)}')
    return _INITIAL_STATES[text.upper()]


ENDPOINTS = (
    Endpoint(
        "/connectors",
        {
            "GET": Operation(
                list_connectors,
                "Names of all connectors, or with expand their statuses and configs",
                query=(Query("expand", "What to show of each", {"enum": ["status", "info"]}, many=True), CONDITION),
                needs=SEES_SOME,
            ),
            "POST": Operation(
                create_connector, "Create a connector", {201: ref("Connector")}, body=_CREATE_BODY, needs=CREATES
            ),
        },
    ),
    Endpoint(
        "/connectors/{name}",
        {
            "GET": Operation(
                show_connector, "Config and task ids of a connector", {200: ref("Connector")}, needs=READS
            ),
            "DELETE": Operation(delete_connector, "Stop a connector and forget its config", {204: None}, needs=EDITS),
        },
    ),
    Endpoint(
        "/connectors/{name}/config",
        {
            "GET": Operation(show_config, "Config of a connector", {200: texts}, needs=READS),
            "PUT": Operation(
                put_config,
                "Create a connector or replace its config",
                {200: ref("Connector"), 201: ref("Connector")},
                body=texts,
                needs=EDITS,
            ),
            "PATCH": Operation(
                patch_config,
                "Change some settings of a connector; null removes one",
                {200: ref("Connector")},
                body=_CHANGES_BODY,
                needs=EDITS,
            ),
        },
    ),
    Endpoint(
        "/connectors/{name}/status",
        {
            "GET": Operation(
                show_status,
                "What a connector and its tasks were seen doing",
                {200: ref("Status")},
                query=(CONDITION,),
                needs=READS,
            )
        },
    ),
    Endpoint(
        "/connectors/{name}/pause",
        {"PUT": Operation(pause, "Let a connector and its tasks idle", {202: None}, needs=OPERATES)},
    ),
    Endpoint(
        "/connectors/{name}/resume",
        {"PUT": Operation(resume, "Run a paused or stopped connector", {202: None}, needs=OPERATES)},
    ),
    Endpoint(
        "/connectors/{name}/stop",
        {"PUT": Operation(stop, "End a connector and all its tasks", {204: None}, needs=OPERATES)},
    ),
    Endpoint(
        "/connectors/{name}/restart",
        {
            "POST": Operation(
                restart,
                "Restart a connector, by the flags its tasks too",
                {202: ref("Status"), 204: None},
                query=(
                    Query("includeTasks", "Restart tasks too", boolean),
                    Query("onlyFailed", "Restart only what has failed", boolean),
                ),
                needs=OPERATES,
            )
        },
    ),
    Endpoint(
        "/connectors/{name}/tasks",
        {
            "GET": Operation(
                list_tasks, "Tasks of a connector with their configs", {200: array_of(ref("Task"))}, needs=READS
            ),
            "POST": Operation(
                put_task_configs,
                "Between the workers of a cluster: task configs",
                {204: None},
                body=array_of(texts),
                needs=FROM_PEERS,
            ),
        },
    ),
    Endpoint(
        "/connectors/{name}/tasks/{task}/status",
        {
            "GET": Operation(
                task_status, "What a task was seen doing", {200: ref("TaskStatus")}, query=(CONDITION,), needs=READS
            )
        },
    ),
    Endpoint(
        "/connectors/{name}/tasks/{task}/restart",
        {"POST": Operation(restart_task, "Restart a task", {204: None}, needs=OPERATES)},
    ),
    Endpoint(
        "/connectors/{name}/topics",
        {"GET": Operation(show_topics, "Topics a connector was seen to use", {200: _TOPICS}, needs=READS)},
    ),
    Endpoint(
        "/connectors/{name}/topics/reset",
        {"PUT": Operation(reset_topics, "Forget the topics a connector was seen to use", {202: None}, needs=OPERATES)},
    ),
    Endpoint(
        "/connectors/{name}/offsets",
        {
            "GET": Operation(
                show_offsets,
                "Committed offsets of a connector",
                {200: ref("OffsetsAndLag")},
                query=(_LAG,),
                needs=READS,
            ),
            "PATCH": Operation(
                alter_offsets,
                "Alter offsets of a stopped connector",
                {200: ref("Message")},
                body=ref("Offsets"),
                query=(_CALLED,),
                needs=EDITS,
            ),
            "DELETE": Operation(
                reset_offsets, "Forget the offsets of a stopped connector", {200: ref("Message")}, needs=EDITS
            ),
        },
    ),
)
