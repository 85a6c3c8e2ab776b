"""Kafka 2.8 with ZooKeeper, and Java's Connect of then: our worker runs there, and our commands administer Java's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.model import RunState
from kit.cli import CliResult, cli_run
from kit.distributed_worker import Distributed
from kit.older_kafka import OlderKafka, older_kafka
from kit.rest_json import request_json
from kit.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(300)]

LINES = [f"line {number}" for number in range(500)]
_FILE = "org.apache.kafka.connect.file.FileStream"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderKafka]:
    with older_kafka(tmp_path_factory.mktemp("older")) as running:
        yield running


@pytest.fixture(scope="module")
def ours(older: OlderKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributed]:
    settings = {"offset.flush.interval.ms": "500", "exactly.once.source.support": "enabled"}
    with Distributed(tmp_path_factory.mktemp("ours"), older.bootstrap, "ours", settings) as worker:
        worker.start()
        yield worker
        assert worker.stop() == 143


def test_a_worker_of_ours_moves_lines_through_an_older_broker(ours: Distributed, home: Path, tmp_path: Path) -> None:
    """Exactly once from a file, to a file, and again from an offset that an operator chose."""
    lines, out = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_text("".join(f"{line}\n" for line in LINES))
    source = {"connector.class": f"{_FILE}SourceConnector", "file": str(lines), "topic": "moved"}
    sink = {"connector.class": f"{_FILE}SinkConnector", "file": str(out), "topics": "moved"}
    with ours.client() as client:
        client.create_connector("source", source)
        eventually(lambda: client.connector_offsets("source"), 60, "the source has committed")
        client.create_connector("sink", sink)
        eventually(lambda: out.exists() and out.read_text().splitlines() == LINES, 60, "all lines are there")
    asked = ("--url", ours.url)
    cli_run("connectors", "stop", "sink", *asked, home=home, expect=0)
    moved = cli_run("offsets", "move", "sink", "--to-offset", "450", "--yes", *asked, home=home, expect=0)
    assert "altered successfully" in moved.stdout + moved.stderr
    cli_run("connectors", "resume", "sink", *asked, home=home, expect=0)
    eventually(lambda: len(out.read_text().splitlines()) > len(LINES), 60, "lines come again")
    assert set(out.read_text().splitlines()) == set(LINES)


def test_a_sink_by_a_protocol_that_the_brokers_lack_fails_and_says_why(ours: Distributed, tmp_path: Path) -> None:
    sink = {
        "connector.class": f"{_FILE}SinkConnector",
        "file": str(tmp_path / "out.txt"),
        "topics": "moved",
        "consumer.override.group.protocol": "consumer",
        "errors.restart.max": "0",
    }
    with ours.client() as client:
        client.create_connector("newer", sink)
        trace = ours.await_task("newer", RunState.FAILED, 90)
        client.delete_connector("newer")
    assert "by group.protocol=consumer: it is not a member of it" in trace


def test_what_an_older_broker_cannot_be_asked_is_not_a_failed_check(older: OlderKafka, home: Path) -> None:
    checked = cli_run("check", str(older.worker_file), "-o", "json", home=home, expect=(0, 7))
    (clock,) = [row for row in checked.json["checks"] if row["check"] == "clock"]
    assert clock["result"] == "not checked"
    assert "since Kafka 3.3" in clock["message"]


class Operator:
    """Runs commands about one connector of the older worker, which has it while they run."""

    def __init__(self, older: OlderKafka, name: str, home: Path) -> None:
        self.url, self.name, self._home = older.connect_url, name, home

    def connect(self, *words: str, expect: int = 0) -> CliResult:
        return cli_run(*words, "--url", self.url, home=self._home, expect=expect)

    def config(self) -> dict[str, str]:
        _, body = request_json(f"{self.url}/connectors/{self.name}/config", "GET")
        return dict(body)


@pytest.fixture
def operator(older: OlderKafka, home: Path, tmp_path: Path) -> Iterator[Operator]:
    lines, name = tmp_path / "in.txt", "javas"
    lines.write_text("a\nb\n")
    file = tmp_path / f"{name}.json"
    config = {"connector.class": f"{_FILE}SourceConnector", "file": str(lines), "topic": "javas"}
    file.write_text(json.dumps({"name": name, "config": config}))
    operator = Operator(older, name, home)
    operator.connect("connectors", "create", str(file))
    operator.connect("connectors", "wait", name)
    yield operator
    operator.connect("connectors", "delete", name, "--yes")


def test_a_setting_of_a_worker_without_patch_is_changed_and_the_others_stay(operator: Operator) -> None:
    operator.connect("config", "set", operator.name, "batch.size=7")
    assert operator.config()["batch.size"] == "7"
    operator.connect("config", "unset", operator.name, "batch.size")
    assert operator.config() == {**operator.config(), "topic": "javas"}
    assert "batch.size" not in operator.config()


def test_a_restart_with_tasks_of_a_worker_that_knows_no_plan_restarts_them(operator: Operator) -> None:
    done = operator.connect("connectors", "restart", operator.name, "--include-tasks")
    assert f"restarted {operator.name}: the connector and task 0" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "since"), [(("offsets", "show"), "3.5 (KIP-875)"), (("connectors", "stop"), "3.5 (KIP-875)")]
)
def test_what_an_older_worker_lacks_is_named_with_its_release(
    operator: Operator, words: tuple[str, str], since: str
) -> None:
    refused = operator.connect(*words, operator.name, expect=3)
    assert f"Kafka Connect has it since {since}" in refused.stderr


def test_offsets_of_an_older_worker_are_read_from_its_topics(operator: Operator, older: OlderKafka, home: Path) -> None:
    def shown() -> bool:
        words = ("offsets", "show", operator.name, "--direct", "--worker", str(older.worker_file), "-o", "json")
        return '"position": 4' in json.dumps(cli_run(*words, home=home, expect=0).json)

    eventually(shown, 30, "the offset behind both lines")
