"""`connect cluster` beside workers of ours, beside a Java worker, beside both in one group, and with nobody there."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import TargetState
from kconnect.worker import DistributedWorker
from kconnect_cli.app import run
from kit.cli import CliResult
from kit.distributed_worker import cluster_settings, tasks_of, workers
from kit.java_connect import JavaConnect
from kit.standalone import write_properties
from kit.trace_replay import replay
from kit.waiting import eventually

pytestmark = [pytest.mark.broker]

# Workers leave by themselves: none has to be missed, and none may be because the machine is busy
FAST = {"heartbeat.interval.ms": "500", "session.timeout.ms": "30000"}


class Cluster:
    """The group, by the file of one of its workers."""

    def __init__(self, folder: Path, broker: DevBroker, group: str) -> None:
        self.group, self.folder = group, folder
        settings = {"bootstrap.servers": broker.bootstrap, **cluster_settings(group)}
        self.file = write_properties(folder / f"{group}.properties", settings)

    def connect(self, *args: str, expect: int = 0) -> CliResult:
        """Run `connect cluster ARGS` in this process."""
        with pytest.MonkeyPatch.context() as patch:
            out, err = io.StringIO(), io.StringIO()
            for name, stream in (("stdin", io.StringIO()), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
            patch.setenv("XDG_CONFIG_HOME", str(self.folder / "config"))
            patch.setenv("COLUMNS", "200")
            code = run(("cluster", *args, "--worker", str(self.file)))
        assert code == expect, f"connect cluster {args} ended with {code}\n{out.getvalue()}\n{err.getvalue()}"
        return CliResult(code, out.getvalue(), err.getvalue())

    def await_members(self, urls: Sequence[str]) -> None:
        def settled() -> bool:
            reported = self.connect("show", "-o", "json").json
            assert reported["leader"] is not None, reported
            assert sorted(member["url"] for member in reported["members"]) == sorted(urls), reported
            return True

        eventually(settled, 30, f"{self.group} is settled", pause_s=0.2)


@pytest.fixture
def cluster(broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Cluster:
    return Cluster(tmp_path, broker, f"cluster-{request.node.name[5:45]}")


def rebalances_of(cluster: Cluster, url: str) -> CliResult:
    reported = cluster.connect("rebalances")
    assert url in reported.stdout, reported.stdout
    return reported


@pytest.fixture
def pair(broker: DevBroker, cluster: Cluster) -> Iterator[list[DistributedWorker]]:
    with workers(broker.bootstrap, cluster.group, 2, session_timeout_ms=FAST["session.timeout.ms"]) as both:
        cluster.await_members([worker.rest_url for worker in both])
        yield both


def source(folder: Path, name: str) -> dict[str, str]:
    return {"name": name, "connector.class": "FileStreamSource", "topic": f"{name}-t", "file": str(folder / "in.txt")}


def test_it_shows_the_members_their_work_and_who_leads(
    cluster: Cluster, pair: list[DistributedWorker], tmp_path: Path
) -> None:
    leader = next(worker for worker in pair if worker.herder.is_leader)
    for name in ("one", "two"):
        leader.herder.put_connector(name, source(tmp_path, name), replace=False)

    def placed() -> bool:
        reported = cluster.connect("show", "-o", "json").json
        assert (reported["leader"], reported["connectors"], reported["tasks"]) == (leader.rest_url, 2, 2), reported
        return True

    eventually(placed, 20, "connectors and tasks are placed", pause_s=0.2)
    reported = cluster.connect("show", "-o", "json").json
    assert (reported["group"], reported["state"], reported["protocol"]) == (cluster.group, "Stable", "sessioned")
    assert 0 <= reported["config_offset"] <= reported["config_end"]
    by_url = {member["url"]: member for member in cluster.connect("members", "-o", "json").json}
    handed_out = {url: set(member["tasks"]) for url, member in by_url.items()}
    # A worker starts them a moment after the group knows
    eventually(lambda: handed_out == {worker.rest_url: tasks_of(worker) for worker in pair}, 20, f"{handed_out} run")
    assert [url for url, member in by_url.items() if member["leader"]] == [leader.rest_url]
    assert cluster.connect("leader").stdout == f"{leader.rest_url}\n"
    assert cluster.connect("leader", "-o", "yaml").stdout.startswith(f"url: {leader.rest_url}\n")
    assert sorted(cluster.connect("members", "-o", "name").stdout.split()) == sorted(by_url)
    table = cluster.connect("show").stdout
    assert f"Leader          {leader.rest_url}\n" in table
    assert "Runs            2 connectors, 2 tasks\n" in table
    assert "one-0" in cluster.connect("members").stdout


def test_rebalances_tell_why_they_came_and_who_came_and_went(cluster: Cluster, pair: list[DistributedWorker]) -> None:
    first, second = pair
    both = {first.rest_url, second.rest_url}

    def are_reported() -> bool:  # each by its worker, once it has begun its work
        reported = cluster.connect("rebalances", "-o", "json").json
        assert {row["worker"] for row in reported} == both, reported
        assert next(row["why"] for row in reported if row["worker"] == second.rest_url) == "this worker joined"
        led = [row for row in reported if row["is_leader"]][-1]
        assert {url.rstrip("/") for url in led["members"]} == both, reported
        return True

    eventually(are_reported, 20, "both tell of the rebalance", pause_s=0.2)
    gone = next(worker for worker in pair if not worker.herder.is_leader)
    stays = next(worker for worker in pair if worker is not gone)
    url = gone.rest_url
    gone.stop()
    cluster.await_members([stays.rest_url])
    place = url.removeprefix("http://").rstrip("/")
    eventually(
        lambda: f"worker {place} left" in cluster.connect("rebalances", "--limit", "1").stdout,
        20,
        "the worker that stays tells of it",
        pause_s=0.2,
    )
    assert len(cluster.connect("rebalances", "--limit", "2", "-o", "json").json) == 2


def test_a_trace_shows_what_a_worker_decided_and_decides_it_once_more(
    cluster: Cluster, pair: list[DistributedWorker], tmp_path: Path
) -> None:
    leader, other = sorted(pair, key=lambda worker: not worker.herder.is_leader)
    for name in ("first", "second"):
        leader.herder.put_connector(name, {**source(tmp_path, name), "batch.size": "471104711"}, replace=False)
    eventually(lambda: tasks_of(leader) | tasks_of(other) == {"first-0", "second-0"}, 30, "both run")
    leader.herder.set_target_state("first", TargetState.STOPPED)
    # Who leads is not known while the group rebalances, as it does for what was just stopped: the command waits
    reported = cluster.connect("trace", "-o", "json", "--retry", "60s")
    of_other = cluster.connect("trace", "--member", other.rest_url, "-o", "json").json

    assert replay(reported.json) == len(reported.json["entries"]) > 10
    assert replay(of_other) == len(of_other["entries"]) > 3
    assert "471104711" not in reported.stdout
    assert "batch.size" in reported.stdout
    kinds = {each["type"] for entry in reported.json["entries"] for each in entry["instructions"]}
    assert {"Claim", "Write", "Complete", "StartWork", "RequestRejoin"} <= kinds
    table = cluster.connect("trace", "--member", leader.rest_url, "--limit", "500").stdout
    assert "Asked id=" in table
    assert "AskStop first" in table
    assert len(cluster.connect("trace", "--member", leader.rest_url, "--limit", "3").stdout.splitlines()) == 4
    assert cluster.connect("trace", "--follow", "-o", "json", expect=2).stdout == ""


def test_without_workers_it_says_so_by_sentence_and_code(cluster: Cluster) -> None:
    assert cluster.connect("members", "-o", "json").json == []
    assert "No worker of group" in cluster.connect("show").stderr
    assert "No worker of group" in cluster.connect("leader", expect=3).stderr
    assert "No worker of group" in cluster.connect("rebalances", expect=3).stderr


@pytest.mark.java
@pytest.mark.timeout(150)
def test_beside_java_it_shows_both_and_then_javas_own_cluster(
    broker: DevBroker, cluster: Cluster, tmp_path: Path
) -> None:
    settings = {**cluster_settings(cluster.group), **FAST}
    java = JavaConnect(tmp_path / "java", broker.bootstrap, mode="distributed", worker=settings)
    with workers(broker.bootstrap, cluster.group, 1, session_timeout_ms=FAST["session.timeout.ms"]) as (ours,):
        java.start()
        try:
            cluster.await_members([ours.rest_url, java.url])
            assert cluster.connect("leader").stdout == f"{ours.rest_url}\n"
            mixed = eventually(lambda: rebalances_of(cluster, ours.rest_url), 20, "ours tells of the rebalance")
            assert f"{java.url} keeps no list of rebalances" in mixed.stderr
            ours.stop()
            cluster.await_members([java.url])

            def is_put() -> bool:  # Java itself hears a moment later than the group that it leads, and answers 409
                status, body = java.request("PUT", "/connectors/js/config", source(tmp_path, "js"))
                assert status in (200, 201), f"{status}: {body}"
                return True

            eventually(is_put, 30, "Java takes the connector", pause_s=0.2)

            def placed() -> bool:
                (member,) = cluster.connect("members", "-o", "json").json
                assert (member["connectors"], member["tasks"], member["leader"]) == (["js"], ["js-0"], True), member
                return True

            (tmp_path / "in.txt").touch()
            eventually(placed, 30, "Java runs the connector", pause_s=0.2)
            assert cluster.connect("show", "-o", "json").json["protocol"] == "sessioned"
            assert "keeps a list of its rebalances" in cluster.connect("rebalances", expect=3).stderr
        finally:
            java.stop()
