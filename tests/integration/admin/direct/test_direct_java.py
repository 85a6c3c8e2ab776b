"""A real Java cluster: --direct shows what its REST API shows, and what is edited while it is down it finds later.

With exactly-once support, so that configs are written as the leader, zombies are fenced, and offsets are written in
transactions.
"""

from __future__ import annotations

import json

import pytest

from kit.java_cluster import JavaCluster
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

ODD = "a/b c%"
_WITHIN_S = 30.0


@pytest.fixture
def cluster(broker, tmp_path):
    cluster = JavaCluster(broker, tmp_path, {"exactly.once.source.support": "enabled"})
    cluster.java.start()
    try:
        yield cluster
    finally:
        cluster.java.stop()


def test_direct_shows_what_java_shows_and_java_finds_what_was_edited(cluster):
    java = cluster.java
    for name in ("src", "gone", "awake", ODD):
        cluster.create(name, cluster.source(**{"db.password": "geheim"}))
    cluster.create("snk", cluster.sink())
    for name in ("src", "gone", "awake", "snk"):
        java.await_running(name)
    assert java.request("PUT", "/connectors/awake/pause")[0] == 202
    for name in ("src", "gone", "snk"):
        eventually(lambda name=name: cluster.offsets(name), _WITHIN_S, f"{name} has committed")
    cluster.connect("connectors", "wait", "awake", "--state", "PAUSED")
    _is_the_same_over_rest_and_direct(cluster)
    _is_refused_while_it_lives(cluster)
    java.stop()
    _edit(cluster)
    java.start()
    _finds_what_was_edited(cluster)


def _is_the_same_over_rest_and_direct(cluster):
    names = ("awake", "gone", "snk", "src")
    for words in (
        ("connectors", "list", *names),
        ("connectors", "show", *names),
        ("connectors", "show", "src", "--show-secrets"),
        ("connectors", "status", *names),
        ("offsets", "show", "src"),
        ("offsets", "show", "src", "snk"),
    ):
        eventually(
            lambda words=words: _both_say_the_same(cluster, (*words, "-o", "json")), _WITHIN_S, f"{words} are the same"
        )
    tables = [call("connectors", "list", *names).stdout for call in (cluster.connect, cluster.direct)]
    assert tables[0] == tables[1]


def _both_say_the_same(cluster, words):
    brokers = ("--worker", str(cluster.file)) if words[0] == "offsets" else ()  # Java does not tell the lag of sinks
    over_rest, direct = cluster.connect(*words, *brokers).json, cluster.direct(*words).json
    assert direct == over_rest
    return True


def _is_refused_while_it_lives(cluster):
    before = cluster.direct("connectors", "status", "src", "-o", "json").json
    refused = cluster.direct("connectors", "pause", "src", "--yes", expect=4)
    assert cluster.java.url in refused.stderr
    assert "--force" in refused.stderr
    assert "owned by live workers" in cluster.direct("offsets", "reset", "src", "--yes", expect=4).stderr
    assert "must be STOPPED" in cluster.direct("offsets", "reset", "src", "--yes", "--force", expect=4).stderr
    body = json.dumps([{"name": "src", "offsets": cluster.offsets("src")}])
    cluster.connect("offsets", "import", "-", "--worker", str(cluster.file), "--replace", "--yes", stdin=body)
    body = body.replace('"position": ', '"position": 1')
    refused = cluster.connect("offsets", "import", "-", "--worker", str(cluster.file), "--yes", stdin=body, expect=4)
    assert "src" in refused.stderr
    assert cluster.direct("connectors", "status", "src", "-o", "json").json == before


def _edit(cluster):
    """Every edit there is, with nobody running."""
    assert "No worker" in cluster.direct("connectors", "list").stderr
    cluster.direct("connectors", "delete", ODD, "gone", "--yes")
    cluster.direct("connectors", "stop", "src", "snk", "--yes")
    cluster.direct("connectors", "resume", "awake", "--yes")
    cluster.direct("connectors", "pause", "awake", "--yes")
    document = cluster.direct("offsets", "show", "src", "snk", "-o", "json").json
    for item in document:
        item["offsets"][0]["offset"] = {"position": 4} if item["name"] == "src" else {"kafka_offset": 1}
    reported = cluster.direct("offsets", "alter", "-f", "-", "--yes", stdin=json.dumps(document)).stderr
    assert "tasks-fencing-src" in reported
    assert "fenced" in reported
    moved = [{"name": "new", "offsets": [{"partition": {"filename": str(cluster.lines)}, "offset": {"position": 8}}]}]
    cluster.connect("offsets", "import", "-", "--worker", str(cluster.file), "--yes", stdin=json.dumps(moved))


def _finds_what_was_edited(cluster):
    java = cluster.java
    assert sorted(java.request("GET", "/connectors")[1]) == ["awake", "snk", "src"]
    for name, state in (("src", "STOPPED"), ("snk", "STOPPED"), ("awake", "PAUSED")):
        cluster.connect("connectors", "wait", name, "--state", state)
        status = java.request("GET", f"/connectors/{name}/status")[1]
        assert [task["state"] for task in status["tasks"]] == ([state] if state == "PAUSED" else []), status
    partition = {"filename": str(cluster.lines)}
    assert cluster.offsets("src") == [{"partition": partition, "offset": {"position": 4}}]
    at = {"kafka_topic": cluster.topic, "kafka_partition": 0}
    assert cluster.offsets("snk") == [{"partition": at, "offset": {"kafka_offset": 1}}]
    cluster.create("new", cluster.source())
    java.await_running("new")
    eventually(
        lambda: cluster.offsets("new") == [{"partition": partition, "offset": {"position": 14}}], _WITHIN_S, "14"
    )
    # goes on behind what was altered, and is not fenced by the edits
    assert java.request("PUT", "/connectors/src/resume")[0] == 202
    java.await_running("src")
    eventually(
        lambda: cluster.offsets("src") == [{"partition": partition, "offset": {"position": 14}}], _WITHIN_S, "14"
    )
