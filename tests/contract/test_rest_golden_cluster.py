"""Replays what a real Java worker of a cluster (Kafka 4.3.0) answered to 500 requests, as far as one worker can.

The recording is golden/rest/transcript.json; its last part, two workers, is left out. Where ours answers otherwise
stands in `rest_differences.py`, each with its reason.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.model import ConnectorOffset, TaskId, TopicPartition
from kconnect.storage import commit_source_offsets
from kit.rest_differences import CLUSTER
from kit.rest_replay import World, agrees, world
from kit.waiting import eventually

RECORDED = json.loads((Path(__file__).parents[1] / "golden/rest/transcript.json").read_text())
FILE = "/data/connect-x/w/rest/in.txt"


def test_the_answers_are_those_of_java(java_levels: None) -> None:
    compared = 0
    with world("127.0.0.1:28083", RECORDED["worker_properties"]) as worker:
        worker.herder.ready()
        worker.groups.topics, worker.groups.partitions = {"orc-t-src"}, 1
        for entry in _of_one_worker():
            if act := _BEFORE.get(entry["name"]):
                act(worker)
            differs = CLUSTER.get(entry["name"])
            if entry["method"] == "GET":
                eventually(
                    lambda entry=entry, differs=differs: agrees(worker, entry, differs, in_cluster=True),
                    3,
                    entry["name"],
                )
            else:
                agrees(worker, entry, differs, in_cluster=True)
            compared += 1
    assert compared == 535


def test_every_difference_is_one() -> None:
    """A difference that names no request, or says what Java says, would hide a fault one day."""
    entries = {entry["name"]: entry for entry in _of_one_worker()}
    assert CLUSTER.keys() <= entries.keys()
    for name, differs in CLUSTER.items():
        theirs = entries[name]
        says_an_error = differs.body is None
        if says_an_error and differs.status in (None, theirs["status"]) and theirs["response_body"].startswith("{"):
            assert differs.message != json.loads(theirs["response_body"])["message"], name
        assert len(differs.why) > 10, name


def _of_one_worker() -> Iterator[dict[str, Any]]:
    for entry in RECORDED["entries"]:
        if entry.get("comment", "").startswith("second worker"):
            return
        if "comment" not in entry:
            yield entry


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


def _source_has_read(worker: World) -> None:
    worker.launcher.use_topic(TaskId("src", 0), "orc-t-src")
    commit_source_offsets(worker.offsets, "src", [ConnectorOffset({"filename": FILE}, {"position": 70})])


def _sink_has_read(offset: int) -> Callable[[World], None]:
    def act(worker: World) -> None:
        worker.launcher.use_topic(TaskId("rsnk", 0), "orc-t-src")
        worker.groups.offsets["connect-rsnk"] = {TopicPartition("orc-t-src", 0): offset}

    return act


def _fails(name: str, tasks: int) -> Callable[[World], None]:
    def act(worker: World) -> None:
        for task in range(tasks):
            worker.launcher.fail_task(TaskId(name, task), "trace")

    return act


# What tasks did in the recording before the request of that name.
_BEFORE: dict[str, Callable[[World], None]] = {
    "post_txn_boundary_connector": lambda worker: worker.herder.delete_connector("a"),
    "post_exactly_once_bad": lambda worker: worker.herder.delete_connector("a"),
    "unknown_predicate_status": _fails("a", 1),
    "get_src_topics": _source_has_read,
    "get_snk_topics": _sink_has_read(10),
    "bad_status": _fails("rbad", 2),
    "bad_restart_include_tasks": _fails("rbad", 2),
    "bad_restart_only_failed": _fails("rbad", 2),
    "bad_restart_upper": _fails("rbad", 2),
    "offs_get_running_after_alter": _source_has_read,
    "snk_offs_get_stopped": _sink_has_read(28),
    "snk_offs_get_resumed": _sink_has_read(28),
    "topics_src_after_more": _source_has_read,
}
