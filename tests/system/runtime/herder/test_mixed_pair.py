"""One Java worker and one of ours in a group: either takes every request, whoever leads, and runs its share.

Java's connectors wander between them, Debezium's in mid-stream: what they write is the same, offsets to the byte.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.debezium import debezium_plugin_path
from kit.distributed_worker import worker_settings
from kit.followers import Followers
from kit.java_plugin_folder import java_plugin_folder
from kit.mixed_cluster import FILE_SOURCE, JAVA_SOURCE, MixedCluster, Node, mixed_cluster
from kit.postgres import logical_postgres
from kit.thread_worker import ThreadWorker
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(400)]


def pause_resume_restart(cluster: MixedCluster, name: str, by: Node, other: Node) -> None:
    """Ordered at one node, seen at the other."""

    def states() -> list[str]:
        status = other.get(f"/connectors/{name}/status")
        return [part["state"] for part in (status["connector"], *status["tasks"])]

    by.order("PUT", f"/connectors/{name}/pause", expect=202)
    eventually(lambda: states() == ["PAUSED", "PAUSED"], 60, f"{name} is paused")
    by.order("PUT", f"/connectors/{name}/resume", expect=202)
    eventually(lambda: states() == ["RUNNING", "RUNNING"], 60, f"{name} runs again")
    by.order("POST", f"/connectors/{name}/restart?includeTasks=true", expect=202)
    cluster.await_settled()


def no_restart_is_promised(cluster: MixedCluster, java: Node, ours: Node) -> None:
    """While Java's worker leads ours says that nothing follows, though restarts are wanted; and why."""
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": next(iter(cluster.sources.values())).topic,
        "file": "/no/such/folder/out.txt",
        "tasks.max": "1",
        "errors.restart.max": "3",
    }
    java.order("POST", "/connectors", {"name": "nofile", "config": config}, expect=201)

    def reported() -> bool:
        tasks = ours.get("/connectors/nofile/status?condition=true")["tasks"]
        assert [(task["state"], task.get("restarts")) for task in tasks] == [
            ("FAILED", {"state": "not restarted", "count": 0, "max": 0, "why": "a Java worker leads the group"})
        ]
        return True

    eventually(reported, 60, "it is FAILED, and said to stay so")
    ours.order("DELETE", "/connectors/nofile", expect=204)


def nobody_is_silent(cluster: MixedCluster, ours: Node) -> None:
    """Java's worker has no slots to tell, and answers all the same: ours does not say that it does not."""

    def reported() -> bool:
        with ConnectClient(ours.url) as client:
            answers = {each["worker"]: each["answers"] for each in client.workers()}
        assert answers == {node.id: True for node in cluster.nodes}
        return True

    eventually(reported, 30, "both answer")


def has_what_java_carried_out(ours: Node) -> None:
    """Java's worker leads and keeps no history; who created a connector at ours, and where, is known all the same."""

    def kept() -> bool:
        changes = ours.get("/admin/connectors/pair1/changes")["changes"]
        assert [(each["action"], each["user"], each["place"]) for each in changes] == [("create", "ANONYMOUS", ours.id)]
        return True

    eventually(kept, 30, "the change is in the history")


def lacks_java_plugins(bare: ThreadWorker) -> None:
    """A worker without the folders of plugin.path fails what needs them, as Java's does, and runs the others."""

    def reported() -> bool:
        with ConnectClient(bare.url) as client:
            status = {name: client.connector_status(name) for name in ("pair1", "pair2", "first")}
        parts = {name: [one.connector, *one.tasks] for name, one in status.items()}
        assert [part.state for part in parts["pair1"]] == [RunState.RUNNING] * 2, parts["pair1"]
        for name, java_class in (
            ("pair2", JAVA_SOURCE),
            ("first", "io.debezium.connector.postgresql.PostgresConnector"),
        ):
            sentence = f"Failed to find any class that implements Connector and which name matches {java_class}"
            assert len(parts[name]) == 2, parts[name]
            for part in parts[name]:
                assert part.state is RunState.FAILED, part
                assert sentence in (part.trace or ""), part
        return True

    eventually(reported, 60, "what lacks its plugin is FAILED")


def test_either_kind_leads_and_either_takes_the_requests_of_the_other(broker: DevBroker, tmp_path: Path) -> None:
    plugins = [java_plugin_folder(tmp_path / "plugins"), debezium_plugin_path()]
    with (
        logical_postgres() as (uri, port),
        mixed_cluster(broker, tmp_path, "mixed-pair", java=1, ours=1, plugins=plugins) as cluster,
    ):
        java, ours = cluster.nodes
        java.start()  # alone, so that it leads
        followers = Followers(cluster, uri, port)
        followers.create(at=java)
        followers.run("first", at=java)
        followers.change()
        followers.await_all("first")
        ours.start()
        cluster.await_settled()
        assert cluster.leader is java

        # Created at either node, spread over both: each name goes over the node that does not carry it out, too
        for number in range(4):
            kind = JAVA_SOURCE if number > 1 else FILE_SOURCE
            cluster.create_source(f"pair{number}", (java, ours)[number % 2], kind)
        owners = cluster.await_spread()
        no_restart_is_promised(cluster, java, ours)
        nobody_is_silent(cluster, ours)
        has_what_java_carried_out(ours)
        cluster.write()
        assert cluster.await_same_statuses().keys() == {*cluster.sources, *followers.names}
        for kind in (java, ours):
            name = next(name for name, node in owners.items() if node is kind)
            pause_resume_restart(cluster, name, by=ours if kind is java else java, other=kind)

        # Java stops: ours has all of it, and leads Java when it comes back
        java.stop()
        assert set(cluster.await_settled()) == {*cluster.sources, "first"}
        assert cluster.leader is ours
        cluster.write()
        followers.run("second", at=ours)  # the changes that the first has had in Java
        followers.await_equal()
        followers.change()
        followers.await_equal()
        java.start()
        cluster.await_spread()
        assert cluster.leader is ours
        # It knows that one of them is Java's, and so restarts nothing by itself
        placed = [entry["event"] for entry in ours.get("/admin/herder-trace")["entries"]]
        members = [(event["workers"], event["javas"]) for event in placed if event["type"] == "Placed"][-1]
        assert [len(each["tuple"]) for each in members] == [2, 1], members
        cluster.create_source("late", at=java)
        owners = cluster.await_settled()
        cluster.write()
        pause_resume_restart(cluster, "late", by=java, other=ours)
        assert not cluster.repeated()
        # Both kinds write the same task configs: no connector that moved wrote them anew
        writes = cluster.task_config_writes()
        assert {name: writes[name] for name in cluster.sources} == dict.fromkeys(cluster.sources, 1), writes

        java.order("DELETE", "/connectors/late", expect=204)
        ours.order("DELETE", "/connectors/pair0", expect=204)
        for node in cluster.nodes:
            eventually(
                lambda node=node: sorted(node.get("/connectors")) == ["first", "pair1", "pair2", "pair3", "second"],
                60,
                "deleted",
            )
        assert cluster.await_same_statuses().keys() == {"pair1", "pair2", "pair3", *followers.names}
        followers.change()
        ours.kill()
        owners = cluster.await_settled("pair1", "pair2", "pair3", *followers.names)
        assert {node.name for node in owners.values()} == {"java-1"}
        followers.change()
        followers.await_equal()
        java.stop()
        (tmp_path / "bare").mkdir()
        with ThreadWorker(tmp_path / "bare", worker_settings(broker.bootstrap, "mixed-pair")) as bare:
            lacks_java_plugins(bare)
