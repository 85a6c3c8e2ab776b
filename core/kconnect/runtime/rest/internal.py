"""Requests between workers of one cluster: `POST /connectors/{name}/tasks` and `PUT /connectors/{name}/fence`.

A signature is checked over the raw body, before it is parsed. Source: InternalClusterResource (Kafka 4.3).
Differs: Java parses the body first, so a malformed one without a valid signature is 500 there.
"""

from __future__ import annotations

from kconnect.runtime.herder.decisions.request_signatures import RequestSignature
from kconnect.runtime.herder.interface import Peers
from kconnect.runtime.rest.access.needs import FROM_PEERS
from kconnect.runtime.rest.config_body import as_texts, without_nulls
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint, no_content
from kconnect.runtime.rest.operation import Operation

_TASK_CONFIGS = 'a JSON array [{"key": "value", ..}, ..]'


def put_task_configs(call: Call[Peers]) -> Answer:
    """The tasks of a connector that runs on another worker; the body is a list of configs."""
    _check_peer(call)
    configs = call.json_list(_TASK_CONFIGS)
    call.herder.put_task_configs(call.path["name"], [without_nulls(as_texts(config)) for config in configs])
    return no_content()


def fence(call: Call[Peers]) -> Answer:
    """Another worker is about to start tasks that deliver exactly once: fence off the earlier ones."""
    _check_peer(call)
    call.herder.fence_zombies(call.path["name"])
    return no_content()


def _check_peer(call: Call[Peers]) -> None:
    """With roles an unsigned request is refused too, whatever the group's protocol: it would need no role."""
    call.herder.check_peer(RequestSignature.of(call.headers, call.body), always=call.access.is_guarded)


# POST tasks shares its path with GET, so it is in `connectors.py`
ENDPOINTS = (
    Endpoint(
        "/connectors/{name}/fence",
        {
            "PUT": Operation(
                fence, "Between the workers of a cluster: fence off earlier tasks", {204: None}, needs=FROM_PEERS
            )
        },
    ),
)
