"""Replays what a real Java worker of a cluster (Kafka 4.3.0) answered to 500 requests, as far as one worker can.

They are asked of a standalone herder, and of the herder of a cluster of one worker, which is nearer to Java's.

The recording is golden/rest/transcript.json; its last part, two workers, is left out. Where ours answers otherwise
stands in `rest_differences.py`, each with its reason.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kconnect.errors import NotFoundError
from kconnect.model import TaskId
from kit.cluster_recording import BEFORE, RECORDED, of_one_worker
from kit.cluster_world import cluster_world
from kit.differences import hold_alike
from kit.rest_differences import CLUSTER
from kit.rest_replay import MOST_WAITED_FOR, Differs, World, agrees, world
from kit.waiting import eventually

# In Java's words here, where a standalone herder has its own.
_AS_JAVA = (
    "unknown_POST_/connectors/none/tasks",
    "unknown_PUT_/connectors/none/fence",
    "internal_tasks_no_sig",
    "internal_tasks_bad_sig",
    "internal_fence_no_sig",
    "internal_fence_bad_sig",
    "bad_restart_task9",
    "src_task_restart_404",
)
_OWN = {
    "src_stopped_task_restart": Differs("no rebalance is underway: there is no such task", 404, "Unknown task: src-0"),
    "internal_tasks_bad_json": Differs("what is not signed by a worker is not even read", 403),
}
DIFFERS = {name: differs for name, differs in CLUSTER.items() if name not in _AS_JAVA} | _OWN


def test_the_answers_are_those_of_java(java_levels: None) -> None:
    with world("127.0.0.1:28083", RECORDED["worker_properties"]) as worker:

        def replay(entry: dict[str, Any]) -> None:
            if act := BEFORE.get(entry["name"]):
                act(worker)
            _compare(worker, entry, CLUSTER)

        assert _replayed(worker, replay) == 535


def _replayed(worker: World, replay: Callable[[dict[str, Any]], None]) -> int:
    worker.herder.ready()
    worker.groups.topics, worker.groups.partitions = {"orc-t-src"}, 1
    return hold_alike([(entry["name"], entry) for entry in of_one_worker()], replay, most=MOST_WAITED_FOR)


def _compare(worker: World, entry: dict[str, Any], differs: Mapping[str, Differs]) -> None:
    name = entry["name"]
    if entry["method"] == "GET":
        eventually(lambda: agrees(worker, entry, differs.get(name), in_cluster=True), 3, name)
    else:
        agrees(worker, entry, differs.get(name), in_cluster=True)


def test_every_difference_is_one() -> None:
    """A difference that names no request, or says what Java says, would hide a fault one day."""
    entries = {entry["name"]: entry for entry in of_one_worker()}
    assert CLUSTER.keys() <= entries.keys()
    for name, differs in CLUSTER.items():
        theirs = entries[name]
        says_an_error = differs.body is None
        if says_an_error and differs.status in (None, theirs["status"]) and theirs["response_body"].startswith("{"):
            assert differs.message != json.loads(theirs["response_body"])["message"], name
        assert len(differs.why) > 10, name


def test_the_answers_of_a_cluster_s_herder_are_those_of_java(java_levels: None) -> None:
    with cluster_world("127.0.0.1:28083", RECORDED["worker_properties"]) as worker:

        def replay(entry: dict[str, Any]) -> None:
            name = entry["name"]
            if "restart" in name:
                _await_restarts(worker, name)
            if act := BEFORE.get(name):
                _await_tasks(worker, name)
                act(worker)
            _compare(worker, entry, DIFFERS)

        assert _replayed(worker, replay) == 535


def test_every_name_that_is_as_in_java_differs_for_a_standalone_herder() -> None:
    assert set(_AS_JAVA) <= CLUSTER.keys()


def _await_tasks(worker: World, name: str) -> None:
    """Tasks of a cluster start a moment after the answer to the request that makes them."""
    wanted = {"unknown_predicate_status": [("a", 1)], "bad_status": [("rbad", 2)]}.get(name, [])
    ids = {TaskId(connector, task) for connector, count in wanted for task in range(count)}
    eventually(lambda: ids <= set(worker.launcher.tasks), 5, f"tasks for {name}")


def _await_restarts(worker: World, name: str) -> None:
    """What earlier requests restarted runs, or has failed, again: the herder's thread does that after its answers."""
    connector = name.partition("_")[0].replace("bad", "rbad")
    with pytest.raises(NotFoundError):
        worker.herder.delete_connector("no such connector")  # its answer comes after what was read before

    def settled() -> bool:
        try:
            status = worker.herder.connector_status(connector)
        except NotFoundError:
            return True
        return "RESTARTING" not in {status.connector.state, *(task.state for task in status.tasks)}

    eventually(settled, 5, f"{connector} has settled")


@pytest.fixture
def java_levels() -> Iterator[None]:
    """The levels of loggers as the recorded worker had them, INFO, put back at the end."""
    before = {logger: logger.level for logger in logging.root.manager.loggerDict.values() if _is_logger(logger)}
    root = logging.root.level
    logging.root.setLevel(logging.INFO)
    yield
    logging.root.setLevel(root)
    for logger in logging.root.manager.loggerDict.values():
        if _is_logger(logger):
            logger.setLevel(before.get(logger, logging.NOTSET))


def _is_logger(logger: object) -> bool:
    return isinstance(logger, logging.Logger)
