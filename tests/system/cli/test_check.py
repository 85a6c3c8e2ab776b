"""`connect check` as a user runs it before a start, and what it says of each thing that is wrong."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
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
    reported = cli_run("check", str(file), "-o", "json", home=home, expect=0)
    assert reported.json["ok"] is True
    assert reported.json["counts"] == {"ok": len(reported.json["checks"]), "warning": 0, "failed": 0, "not checked": 0}
    assert {"settings", "broker", "java", "spark", "memory", "disk", "listener"} <= {
        one["check"] for one in reported.json["checks"]
    }


def test_each_thing_that_is_wrong_is_reported_with_its_place_and_what_to_do(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, refused = taken.getsockname()[1], free_port()
        file = home / "worker.properties"
        file.write_text(
            f"bootstrap.servers=127.0.0.1:{refused}\n{CONVERTERS}offset.storage.file.filename=/no/such/folder/offsets\n"
            f"listeners=http://127.0.0.1:{port}\nspark.master=spark://127.0.0.1:{refused}\n"
            "kconnect.rest.roles.file=/no/roles\n"
        )
        reported = cli_run("check", str(file), home=home, env={"JAVA_HOME": "/no/java"}, expect=7)
    lines = [line for line in reported.stdout.splitlines() if line.startswith("FAILED")]
    assert len(lines) == 6
    for check, place, problem, remedy in (
        ("broker", f"127.0.0.1:{refused}", "Connection refused", "Is Kafka running there?"),
        ("java", "/no/java", "there is no program", "Install a JDK"),
        ("spark", f"spark://127.0.0.1:{refused}", "no Spark master answers", "Check spark.master"),
        ("rest", "users, roles", "/no/roles", "No such file"),
        ("disk", "/no/such/folder", "offset.storage.file.filename does not exist", "mkdir -p"),
        ("listener", str(port), "it is taken by another process", "choose another port"),
    ):
        (line,) = [line for line in lines if line.split()[1] == check]
        assert all(part in line for part in (place, problem, remedy)), line
    assert reported.stderr == "3 ok, 6 failed, 1 not checked.\n"


def test_without_a_file_the_worker_is_the_environments_and_secrets_are_not_shown(home: Path) -> None:
    (home / "jaas").write_text('o.P required username="u" password="opensesame-1";\n')
    env = {
        "CONNECT_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}",
        "CONNECT_GROUP_ID": "g",
        "CONNECT_CONFIG_STORAGE_TOPIC": "c",
        "CONNECT_OFFSET_STORAGE_TOPIC": "o",
        "CONNECT_STATUS_STORAGE_TOPIC": "s",
        "CONNECT_KEY_CONVERTER": "StringConverter",
        "CONNECT_VALUE_CONVERTER": "StringConverter",
        "CONNECT_SASL_JAAS_CONFIG_FILE": str(home / "jaas"),
        "CONNECT_LISTENERS": f"http://127.0.0.1:{free_port()}",
    }
    reported = cli_run("check", "-o", "json", home=home, env=env, expect=7)
    settings = reported.json["checks"][0]
    assert (settings["where"], settings["message"]) == ("the environment", "9 settings of a distributed worker")
    assert "opensesame" not in reported.stdout + reported.stderr
    del env["CONNECT_GROUP_ID"]
    for verb in ("check", "distributed"):
        reported = cli_run(verb, home=home, env=env, expect=(1, 2))
        assert "The environment lacks CONNECT_GROUP_ID, which a worker needs" in reported.stderr
    reported = cli_run("distributed", home=home, expect=2)
    assert "set CONNECT_BOOTSTRAP_SERVERS" in reported.stderr
    reported = cli_run("distributed", "--log-format", "jsn", home=home, expect=2)
    assert reported.stderr == "--log-format jsn is neither line nor json\n"
