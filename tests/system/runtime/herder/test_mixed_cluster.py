"""Two Java workers and two of ours in one group, killed in turn, then Java rolled out: no task is lost or runs twice.

Half of the connectors are Java's own code on either kind of worker.

`KCONNECT_MIXED=long` kills every node, idle and at work, and each kind as a whole; otherwise one of each kind.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.java_plugin_folder import java_plugin_folder
from kit.mixed_cluster import FILE_SOURCE, JAVA_SINK, JAVA_SOURCE, MixedCluster, Node, mixed_cluster

IS_LONG = os.environ.get("KCONNECT_MIXED") == "long"

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(1800 if IS_LONG else 600)]


def kill_and_restart(cluster: MixedCluster, *nodes: Node, at_work: bool = False) -> Node:
    """Kill -9, the others take over; it comes back and gets its share. Gives who led without it."""
    cluster.write()
    if at_work:
        cluster.write_unsafe(2000)
    for node in nodes:
        node.kill()
    owners = cluster.await_settled()
    assert not {node.name for node in nodes} & {owner.name for owner in owners.values()}
    leader = cluster.leader
    cluster.write()
    cluster.start(nodes)
    cluster.await_spread()
    cluster.write()
    cluster.await_same_statuses()
    return leader


def roll_out_java(cluster: MixedCluster) -> None:
    for node in cluster.java:
        node.stop()
        cluster.await_settled()
        cluster.write()
    assert cluster.leader in cluster.ours


def test_workers_of_both_kinds_are_killed_in_turn_and_java_is_rolled_out(broker: DevBroker, tmp_path: Path) -> None:
    group = "mixed-long" if IS_LONG else "mixed-four"
    plugins = [java_plugin_folder(tmp_path / "plugins")]
    with mixed_cluster(broker, tmp_path, group, java=2, ours=2, plugins=plugins) as cluster:
        first, second, third, fourth = cluster.nodes
        cluster.start([first])  # alone, so that Java leads
        cluster.start([second, third, fourth])
        for number, node in enumerate(cluster.nodes):
            cluster.create_source(f"four{number}", node, JAVA_SOURCE if number % 2 else FILE_SOURCE)
        cluster.create_sink("foursink", "four0", third, JAVA_SINK)
        cluster.await_spread()
        assert cluster.leader is first

        leaders = [first]
        if IS_LONG:
            for at_work in (False, True):
                leaders += [kill_and_restart(cluster, node, at_work=at_work) for node in cluster.nodes]
            leaders.append(kill_and_restart(cluster, third, fourth))
            assert leaders[-1].is_java
            leaders.append(kill_and_restart(cluster, first, second))
            assert not leaders[-1].is_java
        else:
            leaders.append(kill_and_restart(cluster, first, third))
        roll_out_java(cluster)
        leaders.append(cluster.leader)
        assert {leader.is_java for leader in leaders} == {True, False}, [leader.name for leader in leaders]

        assert not cluster.repeated()
        cluster.await_sunk("foursink", "four0")
        for node in cluster.ours:
            node.stop()
