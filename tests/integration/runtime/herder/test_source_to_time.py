"""A source is moved to a time, and back: on the topics of a cluster, and by a worker on which it runs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState, TargetState
from kconnect.runtime.plugins import PluginRegistry
from kconnect.testing import ThreadLauncher
from kconnect_cli.app import run
from kit.cli import cli_run
from kit.distributed_worker import worker_settings, workers
from kit.json_server import Server
from kit.standalone import write_properties
from kit.topics import consume_values, create_topic, end_offset
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

CONFIG = {"connector.class": "HttpJsonSource", "url": "http://localhost:1/", "topic": "t", "cursor.field": "at"}


@pytest.fixture(scope="module")
def cluster(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenCluster]:
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("to-time")) as running:
        stopped = {"target": TargetState.STOPPED, "state": RunState.STOPPED}
        running.add_connector("web", CONFIG, **stopped)
        running.commit_offsets("web", [({"url": "u"}, {"cursor": "2026-11-23T10:00:00Z", "page": "2"})])
        running.add_connector("file", {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}, **stopped)
        running.commit_offsets("file", [({"filename": "f"}, {"position": 5})])
        yield running


def test_a_source_that_knows_times_goes_to_one_and_back_and_another_says_why_not(
    cluster: WrittenCluster, monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def connect(*args: str) -> tuple[int, str, str]:
        code = run([*args, "--direct"])
        out, err = capsys.readouterr()
        return code, out, err

    def offset_of(name: str) -> object:
        (found,) = json.loads(connect("offsets", "show", name, "-o", "json")[1])["offsets"]
        return found["offset"]

    code, _, err = connect("offsets", "reset", "web", "--to-time", "2026-11-22T03:00:00Z", "--yes")
    assert code == 0, err
    assert offset_of("web") == {"cursor": "2026-11-22T02:59:59Z"}
    assert connect("offsets", "undo", "web", "--yes")[0] == 0
    assert offset_of("web") == {"cursor": "2026-11-23T10:00:00Z", "page": "2"}
    code, _, err = connect("offsets", "reset", "file", "--to-time", "2h", "--yes")
    assert code == 1
    assert "FileStreamSource cannot say where it was at a time" in err


def test_a_source_that_runs_is_moved_to_a_time_by_its_worker_and_reads_from_there(
    broker: DevBroker, tmp_path: Path
) -> None:
    """All over REST but where it was, which its class says here."""
    topic, server = "source-at-time", Server()
    create_topic(broker.bootstrap, topic)
    items = [{"at": f"2026-11-23T0{hour}:00:00Z"} for hour in range(1, 7)]
    server.answer = lambda *_: (200, {}, items)
    file = write_properties(tmp_path / "worker.properties", worker_settings(broker.bootstrap, topic))
    launcher = partial(ThreadLauncher, PluginRegistry.load(None))
    more = {"offset_flush_interval_ms": "200"}
    config = {**CONFIG, "url": server.url, "topic": topic, "poll.interval.ms": "100"}
    try:
        with (
            workers(broker.bootstrap, topic, 1, launcher, **more) as (worker,),
            ConnectClient(worker.rest_url, retry_conflicts_s=30) as client,
        ):

            def at(cursor: str) -> bool:
                return [(found.offset or {}).get("cursor") for found in client.connector_offsets("shop")] == [cursor]

            def connect(*args: str) -> str:
                return cli_run(*args, "--url", worker.rest_url, home=tmp_path, expect=0).stderr

            client.create_connector("shop", config)
            eventually(lambda: at("2026-11-23T06:00:00Z"), 30, "all are read")
            assert end_offset(broker.bootstrap, topic) == 6
            connect("connectors", "stop", "shop")
            eventually(lambda: not client.connector_status("shop").tasks, 20, "its task has ended")
            reported = connect(
                "offsets", "reset", "shop", "--to-time", "2026-11-23T04:00:00Z", "--yes", "--worker", str(file)
            )
            assert "2026-11-23T03:59:59Z" in reported
            assert at("2026-11-23T03:59:59Z")
            connect("connectors", "resume", "shop")
            eventually(lambda: end_offset(broker.bootstrap, topic) == 9, 20, "four, five and six are read again")
            eventually(lambda: at("2026-11-23T06:00:00Z"), 20, "and nothing else")
            values = consume_values(broker.bootstrap, topic, 9)
            assert values[6:] == values[3:6]
            assert b"T04:" in values[6]
    finally:
        server.close()
