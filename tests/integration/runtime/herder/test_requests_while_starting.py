"""Requests that come while a worker of a cluster starts: they wait for it, and the first POST of a start is a 201."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.runtime.herder.health.reasons import Health
from kconnect.testing import ThreadLauncher
from kconnect.worker import DistributedWorker
from kit.distributed_worker import Distributed, cluster_settings
from kit.memory_launcher import MemoryLauncher
from kit.pace import ample_s, now
from kit.ports import free_port, is_listening
from kit.standalone import STRING_CONVERTERS
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


def ask(url: str, body: object = None) -> tuple[int, Any]:
    """A POST where there is a body, else a GET: status and body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=ample_s(60)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as err:
        with err:
            return err.code, json.load(err)


def await_port(port: int) -> None:
    """Closer than any client can look: the very first moment at which a request gets through."""
    deadline = now() + 60
    while not is_listening(port):
        assert now() < deadline, f"nothing listens on port {port}"


def connector(name: str, file: Path) -> dict[str, Any]:
    return {"name": name, "config": {"connector.class": "FileStreamSource", "file": str(file), "topic": "starting"}}


def settings(bootstrap: str, group: str, port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        **STRING_CONVERTERS,
        **cluster_settings(group),
        "listeners": f"http://127.0.0.1:{port}",
    }


def test_the_first_post_and_get_after_the_port_opens_are_answered_in_ten_starts_in_a_row(
    broker: DevBroker, tmp_path: Path
) -> None:
    port, known = free_port(), []
    for number in range(10):
        worker = DistributedWorker(settings(broker.bootstrap, "first-post", port), launcher=lambda _: ThreadLauncher())
        listed: list[tuple[int, Any]] = []
        starting = threading.Thread(target=worker.start)
        starting.start()
        try:
            await_port(port)
            asking = threading.Thread(
                target=lambda seen=listed: seen.append(ask(f"http://127.0.0.1:{port}/connectors"))
            )
            asking.start()
            status, body = ask(f"http://127.0.0.1:{port}/connectors", connector(f"c{number}", tmp_path / "in"))
            assert status == 201, (number, body)
            asking.join(ample_s(60))
            assert listed[0][0] == 200
            assert set(known) <= set(listed[0][1]), "a list of connectors before they were read"
            known.append(f"c{number}")
            for name in known[:-1]:
                assert ask(f"http://127.0.0.1:{port}/connectors/{name}/status")[0] == 200
        finally:
            starting.join(ample_s(60))
            worker.stop()


def test_health_names_the_steps_of_a_start_and_turns_green_when_tasks_can_run(
    broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, launcher, seen = free_port(), MemoryLauncher(is_up=False), set()
    worker = DistributedWorker(settings(broker.bootstrap, "start-steps", port), launcher=lambda _: launcher)
    lasts = Health.starting

    @contextmanager
    def lasts_until_seen(health: Health, step: str) -> Iterator[None]:
        with lasts(health, step):
            yield
            if step.startswith(("Reading topic ", "Joining group ")):  # they may be over before one can ask
                eventually(lambda: step in seen, 20, f"{step} is seen")

    monkeypatch.setattr(Health, "starting", lasts_until_seen)
    starting = threading.Thread(target=worker.start)
    starting.start()
    try:
        await_port(port)
        while starting.is_alive():
            status, body = ask(f"http://127.0.0.1:{port}/health")
            assert (status, body["status"]) == (503, "starting")
            seen |= {reason["reason"] for reason in body["reasons"]}
        assert {"Spark is starting", "Joining group start-steps"} <= seen, seen
        assert any(reason.startswith("Reading topic start-steps-") for reason in seen), seen
        status, body = ask(f"http://127.0.0.1:{port}/health")
        assert status == 503
        assert body["message"].startswith("Worker is still starting up. Spark is starting (")
        launcher.bring_slot_up()
        assert ask(f"http://127.0.0.1:{port}/health")[0] == 200
    finally:
        starting.join(ample_s(60))
        worker.stop()


@pytest.mark.spark
@pytest.mark.parametrize("number", [1, 2])
def test_the_first_post_of_a_worker_whose_spark_is_starting_is_a_201(
    broker: DevBroker, tmp_path: Path, number: int
) -> None:
    group, reasons = f"first-post-spark-{number}", []
    with Distributed(tmp_path / "w", broker.bootstrap, group, {"kconnect.slots": "1"}) as worker:
        worker.launch()
        await_port(worker.port)
        status, body = ask(f"{worker.url}/connectors", connector("c", tmp_path / "in"))
        assert status == 201, body

        def healthy() -> bool:
            with suppress(OSError):
                status, body = ask(f"{worker.url}/health")
                reasons.extend(reason["reason"] for reason in body.get("reasons", ()))
                return status == 200
            return False

        eventually(healthy, 60, "the worker is healthy")
        assert "Spark is starting" in reasons
        assert worker.stop() == 143
