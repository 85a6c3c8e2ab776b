"""`connect connectors` and `connect offsets` manage a real Java worker as they manage ours."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.admin_flow import Operator, sink_from_create_to_delete, source_from_create_to_delete, what_is_not_there
from kit.java_connect import JavaConnect
from kit.topics import create_topic


@pytest.mark.broker
@pytest.mark.java
def test_the_command_line_manages_a_java_worker(broker: DevBroker, topic: str, tmp_path: Path, home: Path) -> None:
    create_topic(broker.bootstrap, f"{topic}-sink")
    with JavaConnect(tmp_path / "java", broker.bootstrap, worker={"offset.flush.interval.ms": "500"}) as java:
        operator = Operator(java.url, home)
        what_is_not_there(operator)
        source_from_create_to_delete(operator, broker.bootstrap, topic, tmp_path, "a b")
        name = f"out-{uuid.uuid4().hex[:6]}"
        sink_from_create_to_delete(operator, broker.bootstrap, f"{topic}-sink", tmp_path, name)
