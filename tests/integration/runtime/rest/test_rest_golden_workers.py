"""Replays what two real Java workers of one cluster (Kafka 4.3.0) answered: forwarding, signatures, a worker's end.

The recordings are the last part of golden/rest/transcript.json, its requests between workers, and the run `eos` of
golden/rest/variants.json.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kconnect.model import ConnectorOffset, TargetState, TaskId
from kconnect.runtime.storage import commit_source_offsets
from kit.differences import hold_alike, numbered
from kit.places import GOLDEN
from kit.rest_cluster import ClusterWorker, rest_cluster
from kit.rest_differences import WORKERS
from kit.rest_replay import MOST_WAITED_FOR, agrees, ask
from kit.waiting import eventually

_REST = GOLDEN / "rest"
RECORDED = json.loads((_REST / "transcript.json").read_text())
FILE = "/data/connect-x/w/rest/in.txt"
IDS = ("127.0.0.1:28083", "127.0.0.1:28084")
SECRET_OF_JAVA = "5eq4700Qpq3v9gm0QtfFDpmWOp2OHfKQiPcdkU8La+A="
"""The signature of an empty body with the session key of the recording, which was not kept."""


@pytest.fixture
def pair() -> Iterator[tuple[ClusterWorker, ClusterWorker]]:
    """The leader and a follower, with the connectors of the recording at the point where the second worker came."""
    with rest_cluster(RECORDED["worker_properties"]) as cluster:
        leader, follower = (cluster.add(worker_id) for worker_id in IDS)
        for worker in (leader, follower):
            worker.workers = frozenset(IDS)
        _create(leader, "src", "FileStreamSource", topic="orc-t-src")
        _create(leader, "rsnk", "FileStreamSink", topics="orc-t-src", **{"tasks.max": "2"})
        _create(leader, "pz", "FileStreamSource", topic="t")
        leader.herder.set_target_state("pz", TargetState.PAUSED)
        _create(leader, "st", "FileStreamSource", TargetState.STOPPED, topic="t")
        for name in ("a%2Fb", "a\\b", "a/b c%"):
            _create(leader, name, "FileStreamSource", topic="t")
        commit_source_offsets(leader.offsets, "src", [ConnectorOffset({"filename": FILE}, {"position": 75})])
        assert leader.herder.is_leader
        yield leader, follower


def test_two_workers_answer_as_javas_did(pair: tuple[ClusterWorker, ClusterWorker]) -> None:
    leader, follower = pair

    def replay(entry: dict[str, Any]) -> None:
        if entry["name"] == "status_after_w2_left":
            follower.stop()
            leader.workers = frozenset()
        worker = follower if entry.get("port") == 28084 else leader
        differs = WORKERS.get(entry["name"])
        if entry["method"] == "GET":
            eventually(lambda: agrees(worker, entry, differs, in_cluster=True), 5, entry["name"])
        elif "restart" in entry["name"]:  # what was restarted just before is on its way up in both recordings
            _await_running(leader)
            agrees(worker, entry, differs, in_cluster=True)
        else:
            agrees(worker, entry, differs, in_cluster=True)

    entries = numbered(_of_two_workers(), lambda entry: entry["name"])
    assert hold_alike(entries, replay, most=MOST_WAITED_FOR) == 36


def test_requests_between_workers_are_answered_as_javas_were(pair: tuple[ClusterWorker, ClusterWorker]) -> None:
    names = [entry["name"] for entry in RECORDED["entries"] if entry.get("name", "").startswith("internal_")]
    names += ["unknown_POST_/connectors/none/tasks", "unknown_PUT_/connectors/none/fence"]
    entries = {entry.get("name"): entry for entry in RECORDED["entries"]}
    cases = [(f"{worker.url} {name}", (worker, name)) for worker in pair for name in names]
    assert hold_alike(cases, lambda case: _agrees(case[0], entries[case[1]])) == 16


def _agrees(worker: ClusterWorker, entry: dict[str, Any]) -> None:
    agrees(worker, entry, WORKERS.get(entry["name"]))


@pytest.mark.parametrize("number", [0, 1])
def test_signatures_are_judged_as_by_java(pair: tuple[ClusterWorker, ClusterWorker], number: int) -> None:
    """Signed anew with our session key where Java's was the right one; asked of the leader and of the follower."""
    leader, worker = pair[0], pair[number]
    _create(leader, "vsrc", "FileStreamSource", topic="orc-v-t")
    run = next(run for run in json.loads((_REST / "variants.json").read_text()) if run["run"] == "eos")
    compared = 0
    for entry in run["entries"]:
        if not entry.get("path", "").endswith(("/tasks", "/fence")) or entry["method"] == "GET":
            continue
        if entry["path"].endswith("/fence") and entry["status"] == 204:
            continue  # what a fencing that is allowed does is for workers with exactly-once support
        headers = dict(entry["request_headers"])
        if entry["name"] in ("tasks_valid", "tasks_unknown", "tasks_empty") or (
            headers.get("X-Connect-Authorization") == SECRET_OF_JAVA
        ):
            headers["X-Connect-Authorization"] = _signed(worker, entry["request_body"] or "")
        agrees(worker, {**entry, "request_headers": headers}, WORKERS.get(entry["name"]))
        compared += 1
    assert compared == 8


def test_every_difference_is_one() -> None:
    variants = json.loads((_REST / "variants.json").read_text())
    recorded = [*RECORDED["entries"], *(entry for run in variants for entry in run["entries"])]
    assert {entry.get("name") for entry in recorded} >= WORKERS.keys()


def _of_two_workers() -> Iterator[dict[str, Any]]:
    is_second = False
    for entry in RECORDED["entries"]:
        is_second = is_second or entry.get("comment", "").startswith("second worker")
        if is_second and "name" in entry:
            yield entry


def _create(leader: ClusterWorker, name: str, kind: str, state: TargetState | None = None, **config: str) -> None:
    props = {"connector.class": kind, "file": FILE, "tasks.max": "1", "name": name, **config}
    leader.herder.put_connector(name, props, initial_state=state, replace=False)
    tasks = 0 if state is TargetState.STOPPED else int(props["tasks.max"])
    eventually(lambda: len(leader.herder.connector_info(name).tasks) == tasks, 5, f"tasks of {name}")
    if not tasks:
        return
    eventually(
        lambda: {task.state for task in leader.herder.connector_status(name).tasks} <= {"RUNNING", "PAUSED"},
        5,
        f"{name} runs",
    )


def _await_running(leader: ClusterWorker) -> None:
    """As between two requests of the recording: most of a second."""
    for name, tasks in (("src", 1), ("rsnk", 2)):
        wanted = {TaskId(name, number) for number in range(tasks)}
        eventually(
            lambda name=name, wanted=wanted: (
                {
                    TaskId(name, task.id)
                    for task in leader.herder.connector_status(name).tasks
                    if task.state == "RUNNING" and leader.herder.connector_status(name).connector.state == "RUNNING"
                }
                == wanted
            ),
            5,
            f"{name} runs",
        )


def _signed(worker: ClusterWorker, body: str) -> str:
    key = worker.herder.session_key
    assert key is not None
    return base64.b64encode(hmac.digest(key.key, body.encode(), hashlib.sha256)).decode()


def test_a_worker_without_a_session_key_says_that_it_is_starting() -> None:
    """Before the group has been joined, as in Java, the sub-protocol of the settings counts."""
    with rest_cluster(RECORDED["worker_properties"]) as cluster:
        first = cluster.add("a:1")
        headers = {"X-Connect-Authorization": "AAAA", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
        eventually(lambda: first.herder.session_key is not None, 5, "a session key")
        status, _, body = ask(first.url, "PUT", "/connectors/x/fence", None, headers)
        assert (status, json.loads(body)["message"]) == (403, "Internal request contained invalid signature.")
