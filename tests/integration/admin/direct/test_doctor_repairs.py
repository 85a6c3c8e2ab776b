"""Faults planted in the topics of a real broker are found, repaired by the command that is printed, and gone."""

from __future__ import annotations

import contextlib
import io
import shlex
import time

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.doctor.diagnosis import command_text, diagnose
from kconnect.admin.direct.doctor.facts import ClusterFacts, Finding, Severity
from kconnect.admin.direct.doctor.gathering import gather_facts
from kconnect.admin.direct.doctor.repairs import Edits, repair_of
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.errors import ConfigError
from kconnect.model import RunState, TargetState
from kconnect_cli.app import run
from kit.distributed_worker import worker_settings, workers
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/data/in", "topic": "t"}
CONFIG, STATUS, OFFSET = InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET


@pytest.fixture(scope="module")
def written(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def cluster(written):
    """A cluster that was stopped in good order: nothing says RUNNING. Each test finds it anew."""
    written.add_connector("src", FILE_SOURCE, [{"file": "/data/in"}], state=RunState.UNASSIGNED, topics=["t"])
    written.commit_offsets("src", [({"filename": "/data/in"}, {"position": 7})])
    return written


def examined(access: ClusterAccess) -> ClusterFacts:
    with ClusterReader(access) as reader:
        return gather_facts(access, reader, int(time.time() * 1000))


def findings(cluster: WrittenCluster) -> list[Finding]:
    return diagnose(examined(cluster.access))


def repair(cluster: WrittenCluster, finding: Finding) -> None:
    """Runs the command that the finding prints."""
    command = command_text(finding.repair, ["--worker", str(cluster.worker_file), "--yes"])
    assert command is not None
    program, *words = shlex.split(command)
    assert program == "connect"
    assert run(words) == 0


def keys_of(access: ClusterAccess, which: InternalTopic) -> set[str]:
    with ClusterReader(access) as reader:
        return {(record.key or b"").decode() for record in reader.records(which)}


def assert_the_button_writes_what_the_command_writes(cluster: WrittenCluster, finding: Finding) -> None:
    """The console's repair is the plan that the command shows with --dry-run; of a connector that shows more."""
    client = DirectClient(cluster.access)
    try:
        found = repair_of(finding.repair, client)
    finally:
        client.close()
    assert isinstance(found, Edits), finding.repair
    if finding.repair[1] != "topics":
        assert found.plan.connectors == (finding.connector,)
        return
    command = command_text(finding.repair, ["--worker", str(cluster.worker_file), "--dry-run", "-o", "name"])
    assert command is not None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert run(shlex.split(command)[1:]) == 0
    assert shown.getvalue().splitlines() == [edit.key_text for edit in found.plan.edits]


DEGRADED = {
    "malformed-record": (CONFIG, b"connector-src", b"{"),
    "malformed-record of a commit": (CONFIG, b"commit-src", b'{"tasks":"all"}'),
    "malformed-record of a target state": (CONFIG, b"target-state-src", b'{"state":"ASLEEP"}'),
    "malformed-record of a task": (CONFIG, b"task-src-0", b"[]"),
    "malformed-record of a task that is not there": (CONFIG, b"task-src-7", b"[]"),
    "malformed-record of a status": (STATUS, b"status-task-src-0", b"{}"),
    "malformed-record of an offset": (OFFSET, b'["src",{"filename":"/data/in"}]', b"7"),
    "unknown-key": (CONFIG, b"-what is 'this'", b"{}"),
    "inconsistent-tasks": (CONFIG, b"commit-src", b'{"tasks":3}'),
    "tasks-not-committed": (CONFIG, b"task-src-0", b'{"properties":{"file":"/new"}}'),
    "orphan-tasks": (CONFIG, b"task-gone-0", b'{"properties":{}}'),
    "orphan-target-state": (CONFIG, b"target-state-gone", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    "name-not-addressable": (CONFIG, b"connector-a/b c%", b'{"properties":{"connector.class":"FileStreamSource"}}'),
    "orphan-status": (STATUS, b"status-task-gone-1", b'{"state":"FAILED","worker_id":"w:1","generation":1}'),
    "orphan-task-status": (STATUS, b"status-task-src-9", b'{"state":"PAUSED","worker_id":"w:1","generation":1}'),
    "stale-running": (STATUS, b"status-connector-src", b'{"state":"RUNNING","worker_id":"w:1","generation":1}'),
    "duplicate-offset-key": (OFFSET, b'["src", {"filename": "/data/in"}]', b'{"position":9}'),
    "orphan-offsets": (OFFSET, b'["gone",{"p":1}]', b'{"position":9}'),
}


def test_a_cluster_stopped_in_good_order_is_well(cluster):
    assert findings(cluster) == []


@pytest.mark.parametrize("code", DEGRADED)
def test_what_is_planted_is_found_and_the_printed_command_repairs_it(cluster, code):
    which, key, value = DEGRADED[code]
    code = code.partition(" ")[0]
    cluster.put_raw(which, key, value, partition=-1)
    degraded = {finding.code: finding for finding in findings(cluster)}
    assert list(degraded) == [code]
    assert key.decode() in [item.key for item in degraded[code].evidence]
    assert_the_button_writes_what_the_command_writes(cluster, degraded[code])
    repair(cluster, degraded[code])
    left = findings(cluster)
    if code in (
        "inconsistent-tasks",
        "tasks-not-committed",
    ):  # which leaves the connector without tasks: then their statuses are to go
        assert [finding.code for finding in left] == ["orphan-task-status"]
        repair(cluster, left[0])
        left = findings(cluster)
    assert [finding.code for finding in left if finding.severity is not Severity.INFO] == []
    assert code not in [finding.code for finding in left]


def test_a_key_in_two_partitions_is_found_with_both_places(cluster):
    key = b'["two",{"p":1}]'
    cluster.put_raw(OFFSET, key, b'{"position":1}', partition=0)
    cluster.put_raw(OFFSET, key, b'{"position":2}', partition=1)
    (finding,) = [item for item in findings(cluster) if item.code == "key-in-several-partitions"]
    assert [item.partition for item in finding.evidence] == [0, 1]
    assert finding.hint is not None
    assert "partition 0" in finding.hint
    for partition in (0, 1):
        cluster.put_raw(OFFSET, key, None, partition=partition)
    assert findings(cluster) == []


def test_topics_are_judged_by_the_brokers_own_word(cluster):
    wrong = {**cluster.worker, "config.storage.topic": cluster.worker["status.storage.topic"]}
    codes = {finding.code for finding in diagnose(examined(ClusterAccess(wrong, 20.0)))}
    assert {"config-topic-partitions", "unknown-key"} <= codes
    missing = {**cluster.worker, "offset.storage.topic": "no-such-offsets"}
    (finding,) = [item for item in diagnose(examined(ClusterAccess(missing, 20.0))) if item.severity is Severity.ERROR]
    assert finding.code == "topic-missing"
    assert finding.evidence[0].topic == "no-such-offsets"


def test_what_is_not_named_is_reported_as_not_checked(cluster):
    kept = {key: cluster.worker[key] for key in ("bootstrap.servers", "status.storage.topic")}
    facts = examined(ClusterAccess(kept, 20.0))
    assert [what for what, _ in facts.not_checked][:2] == ["the config topic", "the offset topic"]
    assert any("group.id" in why for _, why in facts.not_checked)
    assert diagnose(facts) == []
    with pytest.raises(ConfigError, match="None of the cluster's topics"):
        examined(ClusterAccess({"bootstrap.servers": cluster.worker["bootstrap.servers"]}, 20.0))


def test_a_worker_at_an_ipv6_address_is_known_by_the_name_in_its_statuses(broker):
    """Its statuses and its URL in the group must name it alike, or it would be taken for gone."""
    access = ClusterAccess(worker_settings(broker.bootstrap, "at-ipv6"), 20.0)
    with workers(broker.bootstrap, "at-ipv6", 1, rest_advertised_host_name="::1") as (worker,):
        worker.herder.put_connector("src", FILE_SOURCE, replace=False)
        eventually(lambda: "status-connector-src" in keys_of(access, STATUS), 30, "src has a status")
        assert "stale-running" not in {finding.code for finding in diagnose(examined(access))}


def test_writes_around_the_leaders_transactions_are_found(broker, tmp_path):
    more = {"exactly.once.source.support": "enabled"}
    with WrittenCluster(broker.bootstrap, tmp_path, more=more) as cluster:
        cluster.add_connector("src", FILE_SOURCE, [{"file": "/data/in"}], state=RunState.RUNNING)
        degraded = {finding.code: finding for finding in findings(cluster)}
        assert set(degraded) == {"no-leader-fencing", "tasks-not-fenced", "stale-running"}
        assert degraded["no-leader-fencing"].evidence[0].key == "commit-src"
        cluster.configs.put_target_state("src", TargetState.PAUSED)
        assert "no-leader-fencing" not in {finding.code for finding in findings(cluster)}, "that it was is not sure now"


def test_two_clusters_on_the_same_topics_are_reported_of_by_both_and_found_from_both(broker, topic, tmp_path, caplog):
    first, second = f"one-{topic[-6:]}", f"two-{topic[-6:]}"
    topics = {f"{kind}_storage_topic": f"{first}-{kind}" for kind in ("config", "offset", "status")}
    with (
        workers(broker.bootstrap, first, 1, **topics) as [one],
        workers(broker.bootstrap, second, 1, **topics) as [two],
    ):
        one.herder.put_connector("src", {**FILE_SOURCE, "topic": topic, "name": "src"}, replace=True)
        for worker in (one, two):
            said = "workers of another group.id may use the same status.storage.topic"
            mine = f"worker {(two if worker is one else one).herder.worker_id}"
            eventually(
                lambda: [line for line in caplog.messages if said in line and mine in line],  # noqa: B023
                90,
                "both logs say it",
            )
        for group in (first, second):
            access = ClusterAccess(worker_settings(broker.bootstrap, group, **topics))
            found = diagnose(examined(access))
            assert "topics-shared" in [finding.code for finding in found], group
            assert not [
                finding for finding in found if finding.code in ("stale-running", "status-covered") and finding.repair
            ]


def test_topics_that_are_missing_or_forget_are_repaired_by_the_printed_commands(broker, tmp_path):
    more = {"status.storage.replication.factor": "1", "status.storage.partitions": "2"}
    with WrittenCluster(broker.bootstrap, tmp_path, more=more) as cluster, ClusterReader(cluster.access) as reader:
        config, status = (cluster.access.topic(which) for which in (CONFIG, STATUS))
        wrong = {"cleanup.policy": "delete", "min.insync.replicas": "2"}
        reader.admin.set_topic_configs(config, wrong, 20)
        reader.admin.delete_topic(status, 20)
        eventually(lambda: not reader.admin.describe_topics([status], 20), 20, "the topic is gone")
        degraded = {finding.code: finding for finding in findings(cluster)}
        assert list(degraded) == ["cleanup-policy-not-compact", "min-insync-above-replicas", "topic-missing"]
        for code in ("topic-missing", "cleanup-policy-not-compact"):
            repair(cluster, degraded[code])
        assert reader.admin.topic_configs(config, 20)["min.insync.replicas"] == "1"
        assert reader.admin.describe_topics([status], 20)[status].partitions == 2
        eventually(lambda: findings(cluster) == [], 20, "all is well")
