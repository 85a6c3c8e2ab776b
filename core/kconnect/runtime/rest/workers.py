"""`GET /admin/workers` and `/admin/history`: all workers of the cluster, with their slots, rebalances, and last hour.

Each worker knows its own only, so the one that gets the request asks the others, with the caller's login.
Differs: Java has no such resources.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

from kconnect.errors import ConnectError
from kconnect.runtime.herder.interface import Connectors, Health, Work, WorkHistory
from kconnect.runtime.metrics.history import SLOT_SERIES, TASK_SERIES
from kconnect.runtime.metrics.history_sum import sum_of_histories, sum_of_overviews, with_moves
from kconnect.runtime.rest.access.needs import READS, SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.observe import REBALANCE, RUNTIME, SLOT, own_rebalances, visible_slots
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, integer, object_of, text

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
        "refusal": text,
    },
    required=("worker", "answers", "is_leader", "connectors", "tasks", "slots", "rebalances"),
)


class ClusterView(Health, Connectors, Work, WorkHistory, Protocol):
    """What a worker knows of its cluster: who has which work, by statuses and rebalances, and its own share."""


def list_workers(call: Call[ClusterView]) -> Answer:
    """The worker that is asked first. Those that do not answer, and Java's, have neither slots nor rebalances.

    Java's answer `/` and know no `/admin/slots`; an older one of ours may not, either.
    """
    rebalances = own_rebalances(call)
    own, runs = _own_id(call), _runs(call)
    others = _others(call, runs)
    slots, reported, sparks, roots = _ask_at_once(
        call, others, "/admin/slots", "/admin/rebalances", "/admin/spark", "/"
    )
    if (runtime := call.herder.runtime()) is not None:
        sparks[own] = runtime.to_json()
    slots[own], reported[own] = visible_slots(call), rebalances
    leader = urlsplit(rebalances[-1]["leader_url"]).netloc if rebalances else own
    refusals = call.others.refusals() if call.others is not None else {}
    return Answer(
        [
            {
                "worker": worker,
                "answers": worker in slots or worker in roots,
                "is_leader": worker == leader,
                "connectors": runs.get(worker, ((), ()))[0],
                "tasks": runs.get(worker, ((), ()))[1],
                "slots": slots.get(worker, []),
                "rebalances": reported.get(worker, []),
                "spark": sparks.get(worker),
                **({"refusal": refusals[worker]} if worker in refusals else {}),
            }
            for worker in [own, *sorted(others)]
        ]
    )


def ask_others(call: Call[ClusterView], target: str) -> dict[str, Any]:
    """JSON of a path and query from each other worker, as far as they answer within a second; by worker id."""
    return ask_workers(call, other_workers(call), target)


def other_workers(call: Call[ClusterView]) -> set[str]:
    """Ids of the other workers of the cluster."""
    return _others(call, _runs(call))


def ask_workers(call: Call[object], others: Collection[str], target: str) -> dict[str, Any]:
    """The same of these workers, which must be of this cluster: they get the caller's login."""
    if call.others is None or not others:
        return {}
    return dict(call.others.ask(others, target, call.headers_for("GET", target)))


def _ask_at_once(call: Call[object], others: Collection[str], *targets: str) -> list[dict[str, Any]]:
    """Works as `ask_workers` for each of the paths."""
    if call.others is None or not others:
        return [{} for _ in targets]
    found = call.others.ask_all(others, {target: call.headers_for("GET", target) for target in targets})
    return [found[target] for target in targets]


def _others(call: Call[ClusterView], runs: Mapping[str, object]) -> set[str]:
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
    return found - {"", _own_id(call)}


def _own_id(call: Call[ClusterView]) -> str:
    """Gives this worker's id; while it starts, where it was asked."""
    return call.herder.worker_id or urlsplit(call.base_url).netloc


def _runs(call: Call[ClusterView]) -> Mapping[str, tuple[list[str], list[str]]]:
    """Connectors and tasks of each worker, as statuses say: those that the caller may see."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name in call.access.readable(call.herder.connectors()) if call.herder.is_open() else ():
        with suppress(ConnectError):  # it was deleted meanwhile, or has no status yet
            status = call.herder.connector_status(name)
            found.setdefault(status.connector.worker_id, ([], []))[0].append(name)
            for task in status.tasks:
                found.setdefault(task.worker_id, ([], []))[1].append(f"{name}-{task.id}")
    return found


_VALUES: Final[Schema] = array_of({"type": ["number", "null"]})
_FORMS: Final[Schema] = object_of({"batches": integer, "by_records": integer, "because": {"type": ["string", "null"]}})
_LINE: Final[Schema] = object_of(
    {
        "records_per_s": array_of({"type": "number"}),
        **{name: {"type": "number"} for name in ("now_per_s", "errors", "restarts")},
        "lag": {"type": ["number", "null"]},
        "lag_at_ms": {"type": ["integer", "null"]},
        "tasks": array_of(
            object_of(
                {
                    "task": integer,
                    "records_per_s": {"type": "number"},
                    "records": integer,
                    "errors": integer,
                    "forms": {"anyOf": [_FORMS, {"type": "null"}]},
                }
            )
        ),
    }
)
_MBEAN: Final[Schema] = object_of(
    {
        "name": text,
        "labels": {"type": "object", "additionalProperties": text},
        "value": {"type": ["number", "null"]},
        "series": _VALUES,
    }
)
_HISTORY: Final[Schema] = object_of(
    {
        "worker": text,
        "every_ms": integer,
        "times": array_of(integer),
        "tasks": array_of(
            object_of(
                {
                    "connector": text,
                    "task": integer,
                    "series": object_of(dict.fromkeys(TASK_SERIES, _VALUES)),
                    "mbeans": array_of(_MBEAN),
                },
                required=("connector", "task", "series"),
            )
        ),
        "slots": array_of(
            object_of(
                {"worker": text, "slot": integer, "series": object_of(dict.fromkeys(SLOT_SERIES, _VALUES))},
                required=("slot", "series"),
            )
        ),
        "left_out": integer,
        "connectors": {"type": "object", "additionalProperties": _LINE},
    },
    required=("worker", "every_ms", "times"),
)


def show_history(call: Call[ClusterView]) -> Answer:
    """Shows everything of one connector, for its readers; without `connector` a line for each, or with `slots` the
    slots.
    """
    names, history = call.query_values("connector"), call.herder.history()
    worker, is_overview = call.herder.worker_id, not names and not call.flag("slots")
    if names:
        call.require(READS, names[0])
    if is_overview:
        own = {"worker": worker, **with_moves(history.overview(), call.herder.moves())}
        own["connectors"] = {name: line for name, line in own["connectors"].items() if call.access.may_read(name)}
    else:
        own = {"worker": worker, **history.of(names[0] if names else None)}
    if not call.flag("cluster"):
        return Answer(own)
    query = f"connector={quote(names[0], safe='')}" if names else f"slots={str(not is_overview).lower()}"
    others = ask_others(call, f"/admin/history?{query}")
    add_up = sum_of_overviews if is_overview else sum_of_histories
    return Answer({"worker": worker, **add_up([own, *others.values()])})


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
    Endpoint(
        "/admin/history",
        {
            "GET": Operation(
                show_history,
                "What the tasks and slots of this worker did over the last hour",
                {200: _HISTORY},
                query=(
                    Query("connector", "All series of its tasks, and of the slots; without it a line per connector"),
                    Query("slots", "Without a connector: true for the series of the slots instead"),
                    Query("cluster", "true: of all workers, as far as they answer within a second", boolean),
                ),
                needs=SEES_SOME,
            )
        },
        deadline_s=10,
        awaits_start=False,
    ),
)
