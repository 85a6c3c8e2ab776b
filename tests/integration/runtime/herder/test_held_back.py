"""Work that a group holds back for workers that left: who comes back gets it at once, and everybody says who waits.

Real worker processes, with scheduled.rebalance.max.delay.ms as it is by default: five minutes.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.brokers import PatientBroker
from kit.cli import cli_run
from kit.distributed_worker import worker_settings
from kit.thread_worker import ThreadWorker
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

WITHIN_S = 120.0
# Far below the five minutes for which the group would wait
SOON_S = 60.0


@pytest.fixture
def workers(tmp_path: Path, own_broker: PatientBroker) -> Iterator[list[ThreadWorker]]:
    """Two, which are not started; the first one that is leads."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        settings = {
            **worker_settings(own_broker.bootstrap, tmp_path.name, session_timeout_ms="4000"),
            "scheduled.rebalance.max.delay.ms": "300000",
            "heartbeat.interval.ms": "1000",
        }
        made.append(ThreadWorker(tmp_path / name, settings))
    yield made
    for worker in made:
        worker.kill()


def ask(url: str, method: str = "GET", body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except (urllib.error.HTTPError, OSError) as err:
        raise AssertionError(f"{url}: {err}") from err


def create(worker: ThreadWorker, broker: PatientBroker, topic: str, tasks: int) -> None:
    create_topic(broker.bootstrap, topic)
    config = {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": str(tasks),
        "topic": topic,
        "throughput": "20",
    }
    eventually(lambda: ask(f"{worker.url}/connectors/src/config", "PUT", config), WITHIN_S, "src is created")


def committed(worker: ThreadWorker) -> dict[int, int]:
    found = ask(f"{worker.url}/connectors/src/offsets")["offsets"]
    return {each["partition"]["id"]: each["offset"]["seqno"] for each in found}


def await_moving(worker: ThreadWorker, tasks: int, within_s: float) -> None:
    """Wait until each task has committed something more than it has now, as Kafka and the worker say."""
    before = eventually(lambda: committed(worker), within_s, "the offsets can be read")

    def move() -> bool:
        found = committed(worker)
        still = [task for task in range(tasks) if found.get(task, -1) <= before.get(task, -1)]
        assert not still, f"tasks {still} have committed nothing since {before}"
        return True

    eventually(move, within_s, f"{tasks} tasks commit")


def test_the_only_worker_of_a_group_goes_on_at_once_after_an_outage(
    own_broker: PatientBroker, workers: list[ThreadWorker], request: pytest.FixtureRequest
) -> None:
    """Its session ends while the broker stands still; then it is a new member, and has waited for itself."""
    worker = workers[0]
    worker.__enter__()
    create(worker, own_broker, topic_for(request), tasks=2)
    await_moving(worker, 2, WITHIN_S)
    assert own_broker.pid is not None
    os.kill(own_broker.pid, signal.SIGSTOP)
    try:
        threading.Event().wait(14.0)  # more than its session, and than it waits for an answer
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)
    await_moving(worker, 2, SOON_S)


def test_everybody_says_what_is_held_back_and_who_comes_back_gets_it(
    own_broker: PatientBroker, workers: list[ThreadWorker], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for worker in workers:
        worker.__enter__()
    create(workers[0], own_broker, topic_for(request), tasks=2)
    stays, leaves = workers

    def spread() -> bool:
        tasks = ask(f"{stays.url}/connectors/src/status")["tasks"]
        assert {task["worker_id"] for task in tasks} == {worker.url[7:] for worker in workers}, tasks
        assert {task["state"] for task in tasks} == {"RUNNING"}, tasks
        return True

    eventually(spread, WITHIN_S, "each worker has a task")
    leaves.kill()

    def held() -> list[Any]:
        tasks = ask(f"{stays.url}/connectors/src/status?condition=true")["tasks"]
        found = [task for task in tasks if task.get("restarts", {}).get("state") == "held back"]
        assert [task["state"] for task in found] == ["UNASSIGNED"], tasks
        return found

    eventually(held, SOON_S, "the task of the killed worker is held back")
    health = ask(f"{stays.url}/health")
    assert "held back for another" in health["message"]
    home = tmp_path / "home"
    home.mkdir()
    status = cli_run("--url", stays.url, "connectors", "status", "src", home=home)
    assert "hands it out in" in status.stdout.replace("\n", " ")
    file = tmp_path / "worker.properties"
    settings = worker_settings(own_broker.bootstrap, tmp_path.name)
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    doctor = cli_run("topics", "doctor", "--worker", str(file), "-o", "json", home=home)
    assert "work-held-back" in {finding["code"] for finding in doctor.json["findings"]}
    leaves.__enter__()
    eventually(spread, WITHIN_S, "who came back has its task again")
    assert "held back" not in ask(f"{stays.url}/health")["message"]
