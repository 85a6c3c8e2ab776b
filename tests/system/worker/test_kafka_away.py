"""Kafka is killed under a worker: health, log, REST, metrics, alerts and screens say so, and say when it is back."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.client.outage import OUTAGE_HEADER, Outage
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.alerts import Scrapes, alerts_of
from kit.cli import cli_env, cli_run, connect_command
from kit.distributed_worker import Distributed
from kit.pace import ample_s, now
from kit.places import DOCS
from kit.ports import free_port
from kit.screen import Terminal
from kit.standalone import STRING_CONVERTERS, Standalone, write_properties
from kit.topics import consume_values, create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

MONITORING = DOCS / "monitoring.md"
# A third of the defaults, so that tests wait less: an outage is seen within two heartbeats
HEARTBEAT_S = 1.0
QUICK = {
    "kconnect.kafka.heartbeat.interval.ms": f"{HEARTBEAT_S * 1000:.0f}",
    "kconnect.slots": "1",
}
IN_GROUP = {"heartbeat.interval.ms": f"{HEARTBEAT_S * 1000:.0f}", "session.timeout.ms": "6000"}
# What a busy machine adds to asking and answering
MARGIN_S = 3.0
# How long it has been away; more than two minutes on a machine that is very slow
LASTED = r"(\d+ min )?\d+ s"


@pytest.fixture
def away_topic(own_broker: DevBroker, request: pytest.FixtureRequest) -> str:
    name = topic_for(request)
    create_topic(own_broker.bootstrap, name)
    return name


@pytest.fixture(params=["standalone", "distributed"])
def worker(
    request: pytest.FixtureRequest, own_broker: DevBroker, away_topic: str, tmp_path: Path
) -> Iterator[Standalone]:
    """A worker of either kind with one source that runs, at a broker that the test may kill."""
    file = tmp_path / "in.txt"
    file.write_text("before\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": away_topic, "tasks.max": "1"}
    folder = tmp_path / "worker"
    folder.mkdir()
    if request.param == "standalone":
        with Standalone(folder, own_broker.bootstrap, {"lines": config}, QUICK) as running:
            yield running.start()
            running.stop()
    else:
        with Distributed(folder, own_broker.bootstrap, "away", QUICK | IN_GROUP) as running:
            running.start()
            with running.client() as client:
                client.create_connector("lines", config)
            running.await_task("lines", RunState.RUNNING, 60)
            yield running
            running.stop()


def ask(worker: Standalone, path: str) -> tuple[int, Mapping[str, str], str]:
    """Status, headers by names in lower case, and body."""
    try:
        with urllib.request.urlopen(worker.url + path, timeout=ample_s(10)) as answer:
            status, headers, body = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as err:
        with err:
            status, headers, body = err.code, err.headers, err.read()
    return status, {name.lower(): value for name, value in headers.items()}, body.decode()


def states(worker: Standalone) -> list[str]:
    code, _headers, body = ask(worker, "/connectors/lines/status")
    assert code == 200, body
    document: dict[str, Any] = json.loads(body)
    return [document["connector"]["state"], *(task["state"] for task in document["tasks"])]


def check_screens(worker: Standalone, broker: DevBroker, home: Path) -> None:
    """What the commands say: results on stdout as ever, the outage on stderr, an own field in JSON."""
    banner = re.compile(
        rf"Kafka has been away since \d\d:\d\d:\d\d \({LASTED}\): the broker at "
        rf"{broker.bootstrap}: Connection refused\. States are the last known\.\n"
    )
    alone = type(worker) is Standalone
    for command in (["connectors", "list"], ["connectors", "status"], ["connectors", "show", "lines"]):
        shown = cli_run("--url", worker.url, *command, home=home, expect=0)
        assert banner.fullmatch(shown.stderr), shown
        # On a busy machine the worker has lost its group by now, and the task's row says why
        assert "Kafka" not in shown.stdout or (not alone and "UNASSIGNED" in shown.stdout), shown
        assert not banner.search(shown.stdout)
        rows = cli_run("--url", worker.url, *command, "-o", "json", home=home, expect=0)
        assert banner.fullmatch(rows.stderr)
        if command[1] != "show":
            assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]+Z", row["kafka_away_since"]) for row in rows.json), rows
    if not alone:
        began_s = now()
        refused = cli_run("cluster", "members", "--worker", str(worker.files[0]), home=home, expect=5)
        assert refused.stderr.startswith(f"No Kafka broker answers at {broker.bootstrap}: Connection refused\n")
        assert now() - began_s < 5


def test_an_outage_is_reported_everywhere_and_so_is_its_end(
    worker: Standalone, own_broker: DevBroker, away_topic: str, tmp_path: Path
) -> None:
    is_alone = type(worker) is Standalone
    alerts, scrapes = alerts_of(MONITORING), Scrapes()
    consume_values(own_broker.bootstrap, away_topic, 1)
    calm = cli_run("--url", worker.url, "connectors", "status", "-o", "json", home=tmp_path, expect=0)
    assert calm.stderr == ""
    assert not any("kafka_away_since" in row for row in calm.json)
    scrapes.add(ask(worker, "/metrics")[2])
    assert scrapes.firing(alerts) == set()
    assert ask(worker, "/health")[0] == 200
    before = len(worker.log_text())

    own_broker.kill()
    eventually(lambda: ask(worker, "/health")[0] == 503, 2 * HEARTBEAT_S + MARGIN_S, "/health is 503")
    _status, headers, body = ask(worker, "/health")
    message = json.loads(body)
    assert message.keys() == {"status", "message", "reasons"}
    assert message["status"] == "unhealthy"
    reported = re.fullmatch(
        rf"Kafka is away: no broker of bootstrap.servers={own_broker.bootstrap} has answered since "
        rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(Connection refused\); "
        r"the worker keeps trying \(\d+ s\)\.",
        message["message"],
    )
    assert reported, message
    outage = Outage.from_headers(headers)
    assert outage is not None
    assert outage.servers == own_broker.bootstrap

    check_screens(worker, own_broker, tmp_path)
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
    eventually(lambda: b"after" in consume_values(own_broker.bootstrap, away_topic, 2), 30, "records flow again")

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
    assert re.search(rf"after {LASTED} without an answer \(since ", back[0])


def is_calm(screen: Terminal) -> bool:
    """Whether what is drawn from now on has no banner."""
    screen.forget()
    return "has been away" not in screen.until("RUNNING")


def test_live_views_show_the_outage_and_its_end(
    own_broker: DevBroker, away_topic: str, tmp_path: Path, home: Path
) -> None:
    """Both are on a terminal: the worker's own view, and `connectors status --watch` beside it."""
    url = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "in.txt").write_text("before\n")
    settings = {
        "bootstrap.servers": own_broker.bootstrap,
        "listeners": url,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        **QUICK,
    }
    write_properties(tmp_path / "worker.properties", settings | STRING_CONVERTERS)
    source = {
        "name": "lines",
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "in.txt"),
        "topic": away_topic,
    }
    write_properties(tmp_path / "lines.properties", source)
    worker = [*connect_command(), "standalone", "worker.properties", "lines.properties"]
    watch = [*connect_command(), "--url", url, "connectors", "status", "--watch"]
    plain = [*connect_command(), "--url", url, "connectors", "status", "--watch", "-o", "json"]
    with Terminal(worker, cli_env(home), cwd=str(tmp_path), columns=140) as view:
        view.until("RUNNING", 60)
        assert "Kafka has been away" not in view.text
        with Terminal(watch, cli_env(home), cwd=str(tmp_path), columns=140) as screen:
            screen.until("RUNNING")
            own_broker.kill()
            view.until("Kafka has been away since", 2 * HEARTBEAT_S + MARGIN_S)
            view.until("waits for Kafka")
            screen.until("Kafka has been away since", 10)
            view.until(f"the broker at {own_broker.bootstrap}: Connection refused")
            with Terminal(plain, cli_env(home), cwd=str(tmp_path), columns=400) as lines:
                lines.until('"kafka_away_since"')
                lines.until("Kafka has been away since")
                own_broker.start()
                lines.until("Kafka answers again.", 20)
                lines.interrupt()
                lines.wait()
            eventually(lambda: is_calm(screen) and is_calm(view), 20, "the banner goes")
            screen.interrupt()
            screen.wait()
        view.interrupt()
        assert view.wait(30) == 130


@pytest.mark.parametrize(
    "address", ["localhost:abc", "localhost", "localhost:70000", "localhost:0", "http://localhost:9092/"]
)
def test_a_malformed_address_is_refused_before_anything_starts(address: str, tmp_path: Path, home: Path) -> None:
    settings = {"offset.storage.file.filename": str(tmp_path / "offsets"), **STRING_CONVERTERS}
    file = write_properties(tmp_path / "worker.properties", {"bootstrap.servers": address, **settings})
    word = "port" if address in ("localhost:70000", "localhost:0") else "url"
    began_s = now()
    refused = cli_run("standalone", str(file), home=home, expect=2)
    assert now() - began_s < 10
    first, hint = refused.stderr.splitlines()
    assert first == f"{file}: Invalid {word} in bootstrap.servers: {address}."
    assert hint.startswith("Hint: Write each broker as host:port")


def test_a_broker_that_does_not_listen_is_reported_before_spark_starts(tmp_path: Path, home: Path) -> None:
    servers = f"127.0.0.1:{free_port()}"
    settings = {
        "bootstrap.servers": servers,
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "kconnect.bootstrap.timeout.ms": "3000",
    }
    file = write_properties(tmp_path / "worker.properties", settings | STRING_CONVERTERS)
    reported = cli_run("standalone", str(file), home=home, expect=2).stderr.splitlines()
    assert (
        f"WARNING No Kafka broker answers at bootstrap.servers={servers} (Connection refused). "
        "The worker keeps trying for 3 s (kconnect.bootstrap.timeout.ms)" in reported[0]
    )
    assert reported[-2] == f"No Kafka broker answers at bootstrap.servers={servers} within 3 s (Connection refused)"
