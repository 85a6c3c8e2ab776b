"""Kafka is killed under a worker: health, log, REST, metrics, alerts and screens say so, and say when it is back."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kconnect.outage import OUTAGE_HEADER, Outage
from kit.alerts import Scrapes, alerts_of
from kit.distributed_worker import Distributed
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
# kconnect.kafka.heartbeat.interval.ms and heartbeat.interval.ms, as they are by default
HEARTBEAT_S = 3.0
# What a busy machine adds to asking and answering
MARGIN_S = 2.0


@pytest.fixture(params=["standalone", "distributed"])
def worker(request: pytest.FixtureRequest, own_broker: DevBroker, tmp_path: Path) -> Iterator[Standalone]:
    """A worker of either kind with one source that runs, at a broker that the test may kill."""
    create_topic(own_broker.bootstrap, "lines")
    file = tmp_path / "in.txt"
    file.write_text("before\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": "lines", "tasks.max": "1"}
    folder = tmp_path / "worker"
    folder.mkdir()
    slots = {"kconnect.slots": "1"}
    if request.param == "standalone":
        with Standalone(folder, own_broker.bootstrap, {"lines": config}, slots) as running:
            yield running.start()
            running.stop()
    else:
        with Distributed(folder, own_broker.bootstrap, "away", slots) as running:
            running.start()
            with running.client() as client:
                client.create_connector("lines", config)
            running.await_task("lines", RunState.RUNNING, 60)
            yield running
            running.stop()


def ask(worker: Standalone, path: str) -> tuple[int, Mapping[str, str], str]:
    """Status, headers by names in lower case, and body."""
    try:
        with urllib.request.urlopen(worker.url + path, timeout=10) as answer:
            status, headers, body = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as err:
        with err:
            status, headers, body = err.code, err.headers, err.read()
    return status, {name.lower(): value for name, value in headers.items()}, body.decode()


def states(worker: Standalone) -> list[str]:
    document: dict[str, Any] = json.loads(ask(worker, "/connectors/lines/status")[2])
    return [document["connector"]["state"], *(task["state"] for task in document["tasks"])]


def test_an_outage_is_told_everywhere_and_so_is_its_end(worker: Standalone, own_broker: DevBroker) -> None:
    is_alone = type(worker) is Standalone
    alerts, scrapes = alerts_of(OPERATIONS), Scrapes()
    consume_values(own_broker.bootstrap, "lines", 1)
    scrapes.add(ask(worker, "/metrics")[2])
    assert scrapes.firing(alerts) == set()
    assert ask(worker, "/health")[0] == 200
    before = len(worker.log_text())

    own_broker.kill()
    time.monotonic()
    eventually(lambda: ask(worker, "/health")[0] == 503, 2 * HEARTBEAT_S + MARGIN_S, "/health is 503")
    _status, headers, body = ask(worker, "/health")
    message = json.loads(body)
    assert message.keys() == {"status", "message", "reasons"}
    assert message["status"] == "unhealthy"
    told = re.fullmatch(
        rf"Kafka is away: no broker of bootstrap.servers={own_broker.bootstrap} has answered since "
        rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(the broker at {own_broker.bootstrap}: Connection refused\); "
        r"the worker keeps trying \(\d+ s\)\.",
        message["message"],
    )
    assert told, message
    outage = Outage.from_headers(headers)
    assert outage is not None
    assert outage.servers == own_broker.bootstrap

    if not is_alone:
        eventually(lambda: states(worker) == ["UNASSIGNED", "UNASSIGNED"], 30, "given up, and shown so")
    expected = {"ConnectKafkaIsAway"} | (set() if is_alone else {"ConnectTaskWithoutSlot"})

    def fires() -> bool:
        scrapes.add(ask(worker, "/metrics")[2])
        return scrapes.firing(alerts) == expected

    eventually(fires, 10, f"{expected} fire", pause_s=0.5)
    text = ask(worker, "/metrics")[2]
    assert 'kafka_connect_connector_task_metrics_status{connector="lines",task="0",value="' in text

    own_broker.start()
    eventually(lambda: ask(worker, "/health")[0] == 200, 10, "/health is 200 again")
    assert OUTAGE_HEADER not in ask(worker, "/connectors")[1]
    eventually(lambda: states(worker) == ["RUNNING", "RUNNING"], 60, "all runs again")
    with (worker.folder.parent / "in.txt").open("a") as file:
        file.write("after\n")
    eventually(lambda: b"after" in consume_values(own_broker.bootstrap, "lines", 2), 30, "records flow again")

    def is_quiet() -> bool:
        scrapes.seen.clear()
        scrapes.add(ask(worker, "/metrics")[2])
        return scrapes.firing(alerts) == set()

    eventually(is_quiet, 10, "no alert fires any more")
    lines = worker.log_text()[before:].splitlines()
    lost = [line for line in lines if "Kafka is away" in line]
    back = [line for line in lines if "Kafka answers again" in line]
    assert (len(lost), len(back)) == (1, 1), lines
    assert " ERROR " in lost[0]
    assert ("Tasks stay RUNNING" if is_alone else "stops its connectors and tasks") in lost[0]
    assert re.search(r"after \d+ s without an answer \(since ", back[0])
