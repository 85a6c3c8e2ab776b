"""A sink renamed with its consumer group's offsets: by a worker on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kconnect.errors import NotFoundError
from kconnect.java.devbroker import DevBroker
from kconnect.model import ConnectorOffset
from kit.cli import cli_run
from kit.distributed_worker import workers
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

AT_0 = [ConnectorOffset({"kafka_topic": "moves", "kafka_partition": 0}, {"kafka_offset": 0})]


def state_of(client: ConnectClient, name: str) -> str:
    try:
        return str(client.connector_status(name).connector.state)
    except NotFoundError as err:  # it was not seen doing anything yet
        raise AssertionError(str(err)) from err


def test_a_sink_keeps_the_offsets_of_its_group_under_another_name(broker: DevBroker, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, "moves")
    group = "moving"
    config = {"connector.class": "FileStreamSink", "topics": "moves", "file": str(tmp_path / "out")}
    with (
        workers(broker.bootstrap, group, 1) as (worker,),
        ConnectClient(worker.rest_url, retry_conflicts_s=30) as client,
    ):
        client.create_connector("first", config, initial_state="STOPPED")
        client.alter_connector_offsets("first", AT_0)
        client.resume_connector("first")
        url = ("--url", worker.rest_url)
        cli_run("connectors", "rename", "first", "second", "--yes", *url, home=tmp_path, expect=0)
        assert client.connectors() == ["second"]
        assert client.connector_offsets("second") == AT_0
        cli_run("connectors", "copy", "second", "third", "--yes", *url, home=tmp_path, expect=0)
        assert client.connector_offsets("third") == AT_0
        eventually(lambda: state_of(client, "third") == "STOPPED", 20, "the copy is stopped")
        cli_run("connectors", "delete", "third", "--with-offsets", "--yes", *url, home=tmp_path, expect=0)
        client.create_connector("third", config, initial_state="STOPPED")
        assert client.connector_offsets("third") == []
        eventually(lambda: state_of(client, "second") == "RUNNING", 20, "it runs on")
