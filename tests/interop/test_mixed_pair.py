"""One Java worker and one of ours in a group: either takes every request, whoever leads, and runs its share."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.mixed_cluster import MixedCluster, Node, mixed_cluster
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


def test_either_kind_leads_and_either_takes_the_requests_of_the_other(broker: DevBroker, tmp_path: Path) -> None:
    with mixed_cluster(broker, tmp_path, "mixed-pair", java=1, ours=1) as cluster:
        java, ours = cluster.nodes
        java.start()  # alone, so that it leads
        ours.start()
        eventually(lambda: len(cluster.described().workers) == 2, 60, "both are in the group")
        assert cluster.leader is java

        # Created at either node, spread over both: each name goes over the node that does not carry it out, too
        for number in range(4):
            cluster.create_source(f"pair{number}", at=(java, ours)[number % 2])
        owners = cluster.await_settled()
        assert {node.name for node in owners.values()} == {"java-1", "ours-1"}, owners
        cluster.write()
        assert cluster.await_same_statuses().keys() == cluster.sources.keys()
        for kind in (java, ours):
            name = next(name for name, node in owners.items() if node is kind)
            pause_resume_restart(cluster, name, by=ours if kind is java else java, other=kind)

        # Java stops: ours has all of it, and leads Java when it comes back
        java.stop()
        assert set(cluster.await_settled()) == set(cluster.sources)
        assert cluster.leader is ours
        cluster.write()
        java.start()
        owners = cluster.await_settled()
        assert cluster.leader is ours
        assert {node.name for node in owners.values()} == {"java-1", "ours-1"}, owners
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
        assert writes == dict.fromkeys(cluster.sources, 1), writes

        java.order("DELETE", "/connectors/late", expect=204)
        ours.order("DELETE", "/connectors/pair0", expect=204)
        for node in cluster.nodes:
            eventually(lambda node=node: sorted(node.get("/connectors")) == ["pair1", "pair2", "pair3"], 60, "deleted")
        assert cluster.await_same_statuses().keys() == {"pair1", "pair2", "pair3"}
        java.stop()
        ours.stop()
