"""`GET /admin/workers`: all workers of the cluster with their slots and rebalances; and how to ask the others.

Each worker knows its own slots only, so the one that gets the request asks the others, with the caller's login.
Differs: Java has no such resource.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from kconnect.errors import ConnectError
from kconnect.runtime.rest.access.needs import SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.observe import REBALANCE, RUNTIME, SLOT, own_rebalances, visible_slots
from kconnect.runtime.rest.operation import Operation, array_of, boolean, object_of, text

_WORKER: Final = object_of(
    {
        "worker": text,
        "answers": boolean,
        "is_leader": boolean,
        "connectors": array_of(text),
        "tasks": array_of(text),
        "slots": array_of(SLOT),
        "rebalances": array_of(REBALANCE),
        "spark": {"anyOf": [RUNTIME, {"type": "null"}]},
    },
    required=("worker", "answers", "is_leader", "connectors", "tasks", "slots", "rebalances"),
)


def list_workers(call: Call) -> Answer:
    """The worker that is asked first. Those that do not answer, and Java's, have neither slots nor rebalances."""
    rebalances = own_rebalances(call)
    own, runs = call.herder.worker_id, _runs(call)
    others = _others(call, runs)
    slots = ask_workers(call, others, "/admin/slots")
    told = ask_workers(call, others, "/admin/rebalances")
    sparks = ask_workers(call, others, "/admin/spark")
    if (runtime := call.herder.runtime()) is not None:
        sparks[own] = runtime.to_json()
    slots[own], told[own] = visible_slots(call), rebalances
    leader = urlsplit(rebalances[-1]["leader_url"]).netloc if rebalances else own
    return Answer(
        [
            {
                "worker": worker,
                "answers": worker in slots,
                "is_leader": worker == leader,
                "connectors": runs.get(worker, ((), ()))[0],
                "tasks": runs.get(worker, ((), ()))[1],
                "slots": slots.get(worker, []),
                "rebalances": told.get(worker, []),
                "spark": sparks.get(worker),
            }
            for worker in [own, *sorted(others)]
        ]
    )


def ask_others(call: Call, target: str) -> dict[str, Any]:
    """JSON of a path and query from each other worker, as far as they answer within two seconds; by worker id."""
    return ask_workers(call, other_workers(call), target)


def other_workers(call: Call) -> set[str]:
    """Ids of the other workers of the cluster."""
    return _others(call, _runs(call))


def ask_workers(call: Call, others: Collection[str], target: str) -> dict[str, Any]:
    """The same of these workers, which must be of this cluster: they get the caller's login."""
    if call.others is None or not others:
        return {}
    return dict(call.others.ask(others, target, call.headers_for("GET", target)))


def _others(call: Call, runs: Mapping[str, object]) -> set[str]:
    """Ids of the other workers: those of the last rebalance, as its leader knows them, and those in statuses."""
    found, rebalances = set(runs), list(call.herder.rebalances())
    if rebalances:
        last = rebalances[-1].to_json()
        found.add(urlsplit(last["leader_url"]).netloc)
        if not last["is_leader"] and call.others is not None:
            led = call.others.ask(
                {urlsplit(last["leader_url"]).netloc}, "/admin/rebalances", call.headers_for("GET", "/admin/rebalances")
            )
            last = next((body[-1] for body in led.values() if body), last)
        found |= {urlsplit(url).netloc for url in last["members"]}
    return found - {"", call.herder.worker_id}


def _runs(call: Call) -> Mapping[str, tuple[list[str], list[str]]]:
    """Connectors and tasks of each worker, as statuses say: those that the caller may see."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name in call.access.readable(call.herder.connectors()) if call.herder.is_open() else ():
        with suppress(ConnectError):  # it was deleted meanwhile, or has no status yet
            status = call.herder.connector_status(name)
            found.setdefault(status.connector.worker_id, ([], []))[0].append(name)
            for task in status.tasks:
                found.setdefault(task.worker_id, ([], []))[1].append(f"{name}-{task.id}")
    return found


ENDPOINTS = (
    Endpoint(
        "/admin/workers",
        {
            "GET": Operation(
                list_workers,
                "The workers of the cluster, their slots and work",
                {200: array_of(_WORKER)},
                needs=SEES_SOME,
            )
        },
        deadline_s=15,
        awaits_start=False,
    ),
)
