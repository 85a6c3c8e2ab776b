"""Topics with too few replicas on three real brokers: found, given more, and what cannot be done is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.edit.replicas import place_replicas
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.errors import ConnectError
from kconnect.model import RunState
from kconnect.runtime.kafka import KafkaAdmin
from kconnect_cli.app import run
from kit.broker_cluster import NodeOfCluster, broker_cluster
from kit.guarded_broker import login_of
from kit.secure_broker import STORE_PASSWORD, SecureBroker, scram
from kit.shared_broker import SharedBroker
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/data/in", "topic": "t"}
WORDS = {InternalTopic.CONFIG: "config", InternalTopic.STATUS: "status", InternalTopic.OFFSET: "offsets"}
Connect = Callable[..., tuple[str, str]]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[NodeOfCluster]]:
    with broker_cluster(tmp_path) as nodes:
        yield nodes


@pytest.fixture
def cluster(nodes: list[NodeOfCluster], tmp_path: Path) -> Iterator[WrittenCluster]:
    """A cluster that was stopped in good order; each of its topics has one replica."""
    with WrittenCluster(",".join(node.bootstrap for node in nodes), tmp_path) as cluster:
        cluster.add_connector("src", FILE_SOURCE, [{"file": "/data/in"}], state=RunState.UNASSIGNED, topics=["t"])
        for number in range(20):
            cluster.commit_offsets("src", [({"filename": f"/data/in-{number}"}, {"position": number})])
        yield cluster


@pytest.fixture
def connect(cluster: WrittenCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Connect:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cluster.worker_file.parent / "config"))

    def call(*words: str, expect: int = 0) -> tuple[str, str]:
        given = [] if "--timeout" in words else ["--timeout", "60s"]
        code = run(["topics", *words, "--worker", str(cluster.worker_file), *given])
        found = capsys.readouterr()
        assert code == expect, f"{words} ended with {code}: {found.out}{found.err}"
        return found.out, found.err

    return call


def records(cluster: WrittenCluster) -> dict[InternalTopic, list[tuple[bytes | None, bytes | None]]]:
    with ClusterReader(cluster.access) as reader:
        return {which: sorted((each.key, each.value) for each in reader.records(which)) for which in InternalTopic}  # type: ignore[type-var]


def places(cluster: WrittenCluster, which: InternalTopic) -> dict[int, tuple[int, ...]]:
    with KafkaAdmin(cluster.access.clients().admin, "test") as admin:
        found = admin.replica_places(cluster.access.topic(which), 60)
        assert {number: {*brokers} for number, brokers in found.in_sync.items()} == {
            number: {*brokers} for number, brokers in found.replicas.items()
        }
        return dict(found.replicas)


def kill(nodes: list[NodeOfCluster], number: int, cluster: WrittenCluster) -> None:
    """Returns once the controller knows it, and others lead its partitions."""
    nodes[number - 1].kill()

    def is_known() -> bool:
        with KafkaAdmin(cluster.access.clients().admin, "test") as admin:
            assert number not in admin.broker_ids(60)
        return True

    eventually(is_known, 60, f"broker {number} is known to be down")


def test_a_topic_with_one_replica_gets_three_and_keeps_its_records_and_leaders(
    cluster: WrittenCluster, connect: Connect, nodes: list[NodeOfCluster]
) -> None:
    there = records(cluster)
    before = {which: places(cluster, which) for which in InternalTopic}
    out, _ = connect("doctor", "-o", "name", expect=7)
    assert out.split() == ["replication-low"]
    assert "$ connect topics offsets repair --worker" in connect("doctor", expect=7)[0]
    shown = connect("offsets", "repair", "--dry-run")[1]
    assert f"add replicas to partition 0 of topic {cluster.access.topic(InternalTopic.OFFSET)}: broker " in shown
    assert places(cluster, InternalTopic.OFFSET) == before[InternalTopic.OFFSET], "a dry run changes nothing"
    for which, word in WORDS.items():
        assert f"Repaired topic {cluster.access.topic(which)}" in connect(word, "repair", "--yes")[1]
        after = places(cluster, which)
        assert {number: {*brokers} for number, brokers in after.items()} == {number: {1, 2, 3} for number in after}
        assert {number: brokers[:1] for number, brokers in after.items()} == before[which]
        assert "nothing must be repaired" in connect(word, "repair", "--yes")[1]
    assert connect("doctor") == ("", "No problems were found in what was checked.\n")
    assert records(cluster) == there
    with KafkaAdmin(cluster.access.clients().admin, "test") as admin:  # so that no group has a coordinator soon
        groups = admin.replica_places("__consumer_offsets", 60).replicas
        place_replicas(cluster.access, admin, "__consumer_offsets", dict.fromkeys(groups, (2,)))
    kill(nodes, 2, cluster)  # any one but the controller
    assert records(cluster) == there, "all records outlive a broker"
    found = json.loads(connect("doctor", "-o", "json", "--timeout", "10s", expect=7)[0])
    assert [each["code"] for each in found["findings"]] == ["replicas-not-in-sync"] * 3
    assert any("cannot be described" in each["why"] for each in found["not_checked"]), found["not_checked"]
    said = connect("config", "repair", "--yes")[1]
    assert "nothing must be repaired. 1 partition has replicas that are not in sync" in said


def test_with_two_of_three_brokers_it_gets_two_and_what_is_lost_is_said(
    cluster: WrittenCluster, connect: Connect, nodes: list[NodeOfCluster]
) -> None:
    (place,) = places(cluster, InternalTopic.CONFIG)[0]
    dead = 2 if place == 3 else 3
    lost = [number for number, at in sorted(places(cluster, InternalTopic.OFFSET).items()) if at == (dead,)]
    assert lost, "five partitions on three brokers"
    kill(nodes, dead, cluster)
    said = connect("offsets", "repair", "--yes", expect=4)[1]
    partitions = f"{'partition' if len(lost) == 1 else 'partitions'} {', '.join(map(str, lost))}"
    assert f"cannot get more replicas: broker {dead}, which has all replicas of {partitions}, is down" in said
    assert f"broker {place} -> brokers {place}," in connect("config", "repair", "--yes")[1]
    assert {*places(cluster, InternalTopic.CONFIG)[0]} == {1, 2, 3} - {dead}


def test_without_the_right_the_command_that_grants_it_is_named(broker: SharedBroker, topic: str) -> None:
    access = ClusterAccess({"bootstrap.servers": broker.guarded, **login_of("editor")}, 20.0)
    with KafkaAdmin(access.clients().admin, "test") as admin, pytest.raises(ConnectError) as refused:
        place_replicas(access, admin, topic, {0: (1,)})
    assert str(refused.value) == f"Topic {topic} cannot get more replicas: User:editor lacks ALTER on the cluster"
    assert "--operation Alter --cluster" in (refused.value.hint or "")


def test_the_request_goes_over_tls_with_a_login(secure: SecureBroker, topic: str, tmp_path: Path) -> None:
    settings = {
        "bootstrap.servers": secure.scram,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": scram(),
        "ssl.truststore.location": str(secure.authority.pkcs12(tmp_path / "trust.p12")),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }
    access = ClusterAccess(settings, 20.0)
    with KafkaAdmin(access.clients().admin, "test") as admin:
        place_replicas(access, admin, topic, {0: (1,)})
        with pytest.raises(ConnectError, match="of partition 0 INVALID_REPLICA_ASSIGNMENT, "):
            place_replicas(access, admin, topic, {0: (1, 7)})
