"""Every action of Java's REST API, read in the topics by our command after each; then every edit of ours with Java
down, and Java shows just that.

One worker without exactly-once support, started twice; test_direct_java has the other kind.
"""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from kit.java_cluster import JavaCluster
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

WIDE = "wide → ü 😀"
_WITHIN_S = 30.0
_LOGGER = "org.apache.kafka.connect.runtime.WorkerSinkTask"


@pytest.fixture
def cluster(broker, tmp_path):
    cluster = JavaCluster(broker, tmp_path)
    cluster.java.start()
    try:
        yield cluster
    finally:
        cluster.java.stop()


def topics(cluster, *args, expect=0, stdin=""):
    return cluster.connect("topics", *args, "--worker", str(cluster.file), expect=expect, stdin=stdin)


def put(cluster, which, key, value):
    topics(cluster, which, "put", key, json.dumps(value), "--yes")


def get(cluster, path):
    code, body = cluster.java.request("GET", path)
    assert code == 200, body
    return body


def path_of(name):
    return f"/connectors/{quote(name)}"


def test_after_every_action_over_rest_the_topics_show_it_and_what_is_edited_without_java_it_shows(cluster):
    for step in actions(cluster):
        for action in step:
            code, body = cluster.java.request(*action)
            assert code in (200, 201, 202, 204), f"{action}: {code} {body}"
        eventually(lambda: is_the_same(cluster), _WITHIN_S, f"the topics show what REST shows after {step}")
    assert cluster.java.request("GET", "/connectors/failing/status")[1]["tasks"][0]["trace"]
    loggers = topics(cluster, "config", "show", "-o", "json").json["loggers"]
    assert [(logger["name"], logger["level"]) for logger in loggers] == [(_LOGGER, "DEBUG")]
    cluster.java.stop()
    edit(cluster)
    cluster.java.start()
    shows_what_was_edited(cluster)
    eventually(lambda: is_the_same(cluster), _WITHIN_S, "the topics show what REST shows")


def actions(cluster):
    """All that changes something, step by step; each step waits for what it needs."""
    source, sink, partition = cluster.source(), cluster.sink(), {"filename": str(cluster.lines)}
    missing = {"transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value"}
    missing |= {"transforms.t.static.field": "a", "transforms.t.static.value": "b", "transforms.t.predicate": "none"}
    yield [
        *(post("", {"name": name, "config": source}) for name in ("src", "gone", WIDE)),
        post("", {"name": "snk", "config": sink}),
        *(
            post("", {"name": f"born-{state}", "config": source, "initial_state": state})
            for state in ("PAUSED", "STOPPED")
        ),
        ("PUT", "/connectors/failing/config", {**source, **missing, "db.password": "geheim"}),
    ]
    for name in ("src", "gone", "snk"):
        cluster.java.await_running(name)
        eventually(lambda name=name: cluster.offsets(name), _WITHIN_S, f"{name} has committed")
    yield [("PUT", "/connectors/src/config", {**source, "batch.size": "7"})]
    yield [("PATCH", "/connectors/src/config", {"batch.size": None, "tasks.max": "2"})]
    yield [post("/src/restart?includeTasks=true&onlyFailed=false")]
    cluster.java.await_running("src")
    yield [post("/snk/tasks/0/restart"), post("/gone/restart")]
    cluster.java.await_running("snk")
    yield [("PUT", f"{path_of(WIDE)}/pause", None), ("PUT", "/connectors/born-PAUSED/resume", None)]
    yield [("PUT", f"/connectors/{name}/stop", None) for name in ("src", "snk", "gone")]
    for name in ("src", "snk", "gone"):
        eventually(lambda name=name: state_of(cluster, name) == ("STOPPED", 0), _WITHIN_S, f"{name} is stopped")
    at = {"kafka_topic": cluster.topic, "kafka_partition": 0}
    yield [("PUT", "/connectors/gone/topics/reset", None)]
    yield [
        ("PATCH", "/connectors/src/offsets", {"offsets": [{"partition": partition, "offset": {"position": 4}}]}),
        ("PATCH", "/connectors/snk/offsets", {"offsets": [{"partition": at, "offset": {"kafka_offset": 2}}]}),
    ]
    yield [("DELETE", "/connectors/gone/offsets", None)]
    yield [("PUT", f"/admin/loggers/{_LOGGER}?scope=cluster", {"level": "DEBUG"}), ("DELETE", "/connectors/gone", None)]


def post(path, body=None):
    return "POST", f"/connectors{path}", body


def state_of(cluster, name):
    code, status = cluster.java.request("GET", f"{path_of(name)}/status")
    return (status["connector"]["state"], len(status["tasks"])) if code == 200 else None


def is_the_same(cluster):
    """What our command reads in the three topics is what REST answers, for each connector and of all of them."""
    found = get(cluster, "/connectors?expand=info&expand=status")
    configs = {
        row["name"]: row for row in topics(cluster, "config", "show", "--show-secrets", "-o", "json").json["connectors"]
    }
    statuses = {row["name"]: row for row in topics(cluster, "status", "show", "-o", "json").json}
    offsets = {row["name"]: row["offsets"] for row in topics(cluster, "offsets", "show", "-o", "json").json}
    assert set(configs) == set(found)
    for name, answer in found.items():
        info, status, ours = answer["info"], answer["status"], configs[name]
        assert (ours["config"], ours["type"]) == (info["config"], info["type"])
        tasks = get(cluster, f"{path_of(name)}/tasks")
        assert ours["task_configs"] == [task["config"] for task in tasks]
        assert ours["tasks"] == len(tasks) == len(info["tasks"])
        assert not ours["inconsistent"]
        assert reported(statuses[name]["connector"]) == reported(status["connector"])
        assert list(map(reported, statuses[name]["tasks"])) == list(map(reported, status["tasks"]))
        used = [use["name"] for use in statuses[name]["topics"]]
        assert sorted(used) == sorted(get(cluster, f"{path_of(name)}/topics")[name]["topics"])
        if info["type"] == "source":
            assert offsets.get(name, []) == get(cluster, f"{path_of(name)}/offsets")["offsets"]
    return True


def reported(status):
    """What both say of a status: REST leaves the generation out, and has null where the topic's record has nothing."""
    shown = ("id", "state", "worker_id", "version", "trace")
    return {key: status[key] for key in shown if status.get(key) is not None}


def edit(cluster):
    """Each edit of the command, one after the other, with no worker."""
    partition = {"filename": str(cluster.lines)}
    at_the_start = json.dumps({"offsets": [{"partition": partition, "offset": {"position": 8}}]})
    versions = topics(cluster, "config", "history", "gone", "-o", "name").stdout.split()
    saved = topics(cluster, "export", "-").stdout
    topics(cluster, "config", "restore", "gone", "--at", versions[-3], "--yes")
    put(cluster, "config", "connector-made", {"properties": {**cluster.source(), "name": "made"}})
    put(cluster, "config", "target-state-made", {"state": "PAUSED", "state.v2": "PAUSED"})
    topics(cluster, "config", "delete", "connector-failing", "target-state-failing", "--yes", "--force")
    put(cluster, "offsets", json.dumps(["made", partition]), {"position": 4})
    topics(cluster, "offsets", "delete", json.dumps([WIDE, partition]), "--yes")
    document = json.loads(saved)
    document["connectors"] = [one for one in document["connectors"] if one["name"] == "src"]
    document["connectors"][0]["config"]["batch.size"] = "99"
    document["connectors"].append(
        {"name": "brought", "target_state": "STOPPED", "config": cluster.source(name="brought")}
    )
    document["offsets"] = {
        "src": document["offsets"]["src"],
        "brought": {"offsets": [{"partition": partition, "offset": {"position": 14}}]},
    }
    document["groups"] = {}
    topics(cluster, "import", "-", "--replace", "--yes", stdin=json.dumps(document))
    cluster.direct("offsets", "alter", "src", "-f", "-", "--yes", stdin=at_the_start)
    cluster.direct("offsets", "reset", "snk", "--yes")
    cluster.direct("connectors", "pause", "born-PAUSED", "--yes")
    cluster.direct("connectors", "resume", "born-STOPPED", "--yes")
    cluster.direct("connectors", "stop", WIDE, "--yes")
    cluster.direct("connectors", "stop", "gone", "--yes")
    topics(cluster, "status", "delete", f"status-topic-{cluster.topic}:connector-snk", "--yes")
    cluster.direct("connectors", "stop", "brought", "--yes")
    cluster.direct("connectors", "delete", "born-STOPPED", "--yes")


def shows_what_was_edited(cluster):
    states = {"src": "STOPPED", "snk": "STOPPED", "gone": "STOPPED", WIDE: "STOPPED", "brought": "STOPPED"}
    states |= {"made": "PAUSED", "born-PAUSED": "PAUSED"}
    assert set(get(cluster, "/connectors")) == set(states)
    for name, state in states.items():
        wanted = (state, 1 if name == "born-PAUSED" else 0)
        eventually(lambda name=name, wanted=wanted: state_of(cluster, name) == wanted, _WITHIN_S, f"{name} is {wanted}")
    at = {"filename": str(cluster.lines)}
    for name, position in {"src": 8, "made": 4, "brought": 14}.items():
        there = [{"partition": at, "offset": {"position": position}}]
        eventually(lambda name=name, there=there: cluster.offsets(name) == there, _WITHIN_S, f"{name} is at {position}")
    for name in ("gone", "snk"):
        eventually(lambda name=name: cluster.offsets(name) == [], _WITHIN_S, f"{name} has no offsets")
    assert get(cluster, f"{path_of(WIDE)}/offsets")["offsets"] == []
    assert get(cluster, "/connectors/src/config")["batch.size"] == "99"
    assert get(cluster, "/connectors/gone/config") == {**cluster.source(), "name": "gone"}
    assert get(cluster, "/connectors/snk/topics") == {"snk": {"topics": []}}
