"""Requests between a Java worker and one of ours: what users ask is forwarded, task configs are signed, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.worker import DistributedWorker
from kit.distributed_worker import cluster_settings, workers
from kit.java_connect import JavaConnect
from kit.rest_replay import ask
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.timeout(150)]

GROUP = "forward-java"
NAMES = [f"f{number}" for number in range(4)]


def test_java_and_ours_forward_to_each_other_and_take_each_others_signatures(broker: DevBroker, tmp_path: Path) -> None:
    settings = {**cluster_settings(GROUP), "heartbeat.interval.ms": "500"}  # how soon it hears of a rebalance
    java = JavaConnect(tmp_path / "java", broker.bootstrap, mode="distributed", worker=settings)
    with workers(broker.bootstrap, GROUP, 1) as (ours,):
        java.start()
        try:
            eventually(lambda: len(_put_all(java.url, tmp_path, "j")) == 4, 30, "Java has joined and forwards to ours")
            assert ours.herder.is_leader
            _await_tasks(java, ours, "j")
            ours.stop()
            with workers(broker.bootstrap, GROUP, 1) as (follower,):
                assert not follower.herder.is_leader
                _put_all(follower.rest_url, tmp_path, "k")
                _await_tasks(java, follower, "k")

                def is_deleted() -> bool:  # as above: 409 while it rebalances, as for the tasks that were just made
                    status, _, text = ask(follower.rest_url, "DELETE", "/connectors/kf0", None, {})
                    assert status == 204, text
                    return True

                eventually(is_deleted, 20, "kf0 is deleted over ours")
                assert "kf0" not in java.request("GET", "/connectors")[1]
        finally:
            java.stop()


def _put_all(url: str, folder: Path, prefix: str) -> list[str]:
    """Create four connectors over one worker; names of those that are there. Java answers 409 while it rebalances."""
    made = []
    for name in (prefix + name for name in NAMES):
        config = {"connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": f"{GROUP}-t"}
        body, headers = json.dumps(config), {"Content-Type": "application/json"}

        def put(name: str = name, body: str = body, headers: dict[str, str] = headers) -> bool:
            status, answered, text = ask(url, "PUT", f"/connectors/{name}/config", body, headers)
            assert status in (200, 201), text
            assert status == 200 or answered["location"] == f"{url}/connectors/{name}", "it names who was asked"
            return True

        eventually(put, 20, f"{name} is created over {urlsplit(url).netloc}")
        made.append(name)
    return made


def _await_tasks(java: JavaConnect, ours: DistributedWorker, prefix: str) -> None:
    """Each connector has its task, and both workers have some of the connectors."""

    def have_tasks() -> bool:
        found = java.request("GET", "/connectors?expand=info&expand=status")[1]
        mine = {name: shown for name, shown in found.items() if name.startswith(prefix)}
        assert all(len(shown["info"]["tasks"]) == 1 for shown in mine.values()), found
        owners = {shown["status"]["connector"]["worker_id"] for shown in mine.values()}
        assert owners == {urlsplit(java.url).netloc, urlsplit(ours.url).netloc}, owners
        return True

    eventually(have_tasks, 40, f"connectors {prefix}* have tasks on both workers")
