"""`connect check` as a user runs it before a start, and what it says of each thing that is wrong."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.cli import cli_run
from kit.ports import free_port

pytestmark = pytest.mark.broker

CONVERTERS = "key.converter=StringConverter\nvalue.converter=StringConverter\n"


def test_a_start_that_will_work_is_all_ok_and_ends_with_0(broker: DevBroker, home: Path) -> None:
    file = home / "worker.properties"
    file.write_text(
        f"bootstrap.servers={broker.bootstrap}\n{CONVERTERS}offset.storage.file.filename={home}/offsets\n"
        f"listeners=http://127.0.0.1:{free_port()}\n"
    )
    told = cli_run("check", str(file), "-o", "json", home=home, expect=0)
    assert told.json["ok"] is True
    assert told.json["counts"] == {"ok": len(told.json["checks"]), "warning": 0, "failed": 0, "not checked": 0}
    assert {"settings", "broker", "java", "spark", "memory", "disk", "listener"} <= {
        one["check"] for one in told.json["checks"]
    }


def test_each_thing_that_is_wrong_is_told_with_its_place_and_what_to_do(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, refused = taken.getsockname()[1], free_port()
        file = home / "worker.properties"
        file.write_text(
            f"bootstrap.servers=127.0.0.1:{refused}\n{CONVERTERS}offset.storage.file.filename=/no/such/folder/offsets\n"
            f"listeners=http://127.0.0.1:{port}\nspark.master=spark://127.0.0.1:{refused}\n"
        )
        told = cli_run("check", str(file), home=home, env={"JAVA_HOME": "/no/java"}, expect=1)
    lines = [line for line in told.stdout.splitlines() if line.startswith("FAILED")]
    assert len(lines) == 5
    for check, place, problem, remedy in (
        ("broker", f"127.0.0.1:{refused}", "Connection refused", "Is Kafka running there?"),
        ("java", "/no/java", "there is no program", "Install a JDK"),
        ("spark", f"spark://127.0.0.1:{refused}", "no Spark master answers", "Check spark.master"),
        ("disk", "/no/such/folder", "the folder does not exist", "mkdir -p"),
        ("listener", str(port), "it is taken by another process", "choose another port"),
    ):
        (line,) = [line for line in lines if line.split()[1] == check]
        assert all(part in line for part in (place, problem, remedy)), line
    assert told.stderr == "3 ok, 5 failed.\n"
