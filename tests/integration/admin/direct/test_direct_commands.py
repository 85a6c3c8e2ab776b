"""The ordinary commands with --direct on a cluster without workers."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.group.live_group import live_group, other_groups
from kconnect.admin.direct.read import reader
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.model import TargetState
from kit.cli import cli_env, connect_command
from kit.direct_commands import SOURCE, DirectCommands, committed, end_of_configs, records_of, snapshot
from kit.group_members import Member, group_state, is_settled, member_ids
from kit.picture import Picture
from kit.screen import Terminal
from kit.topics import create_topic
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

ODD = "a/b c%"


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def name():
    return f"src-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def connect(cluster, monkeypatch, capsys, tmp_path):
    return DirectCommands(cluster, monkeypatch, capsys, tmp_path)


def test_labels_select_what_is_listed_and_changed_on_the_topics(cluster, connect, name):
    cluster.add_connector(name, {**SOURCE, "kconnect.labels": f"team={name}"}, [{"file": "/in"}])
    cluster.add_connector(f"{name}-other", {**SOURCE, "kconnect.labels": "team=other"}, [{"file": "/in"}])
    [row] = json.loads(connect("connectors", "list", "-l", f"team={name}", "--direct", "-o", "json")[0])
    assert (row["name"], row["labels"]) == (name, {"team": name})
    connect("connectors", "pause", "-l", f"team={name}", "--direct", "--yes")
    assert snapshot(cluster).target_state(name) is TargetState.PAUSED
    assert snapshot(cluster).target_state(f"{name}-other") is TargetState.STARTED


def test_list_show_and_status_have_the_shapes_of_the_rest_api(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}], worker_id="w:1")
    out, err = connect("connectors", "list", name, "--direct", "-o", "json")
    task = {"id": 0, "state": "RUNNING", "worker_id": "w:1", "version": "4.3.0"}
    assert json.loads(out) == [{"name": name, "type": "source", "state": "RUNNING", "tasks": [task]}]
    assert "No worker of group" in err
    shown = json.loads(connect("connectors", "show", name, "--direct", "-o", "json")[0])
    assert shown["config"]["db.password"] == "[hidden]"
    assert shown["tasks"] == [task]
    revealed = connect("connectors", "show", name, "--direct", "--show-secrets", "-o", "json")[0]
    assert json.loads(revealed)["config"] == {**SOURCE, "name": name}
    status = json.loads(connect("connectors", "status", name, "--direct", "-o", "json")[0])
    assert [(row["task"], row["state"], row["worker_id"]) for row in status] == [
        (None, "RUNNING", "w:1"),
        (0, "RUNNING", "w:1"),
    ]


def test_a_connector_that_is_not_there_is_not_found_with_names_that_are(cluster, connect, name):
    cluster.add_connector(name, SOURCE)
    for verb in (["connectors", "show"], ["connectors", "pause"], ["offsets", "show"], ["offsets", "reset"]):
        _, err = connect(*verb, f"{name}x", "--direct", expect=3)
        assert f"Unknown connector {name}x" in err
        assert name in err.replace(f"{name}x", "")


def test_every_command_works_while_the_status_topic_is_gone(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    without = ("--direct", "--status-topic", f"gone-{name}")
    said = f"Topic 'gone-{name}' does not exist. States are not known, and shown as UNASSIGNED."
    out, err = connect("connectors", "list", name, *without, "-o", "json")
    assert ([row["state"] for row in json.loads(out)], said in err) == (["UNASSIGNED"], True)
    for words in (
        ("connectors", "show", name),
        ("connectors", "status", name),
        ("connectors", "pause", name, "--yes"),
        ("connectors", "resume", name, "--yes"),
        ("connectors", "stop", name, "--yes"),
        ("offsets", "show", name),
        ("offsets", "reset", name, "--yes"),
        ("describe", name),
        ("connectors", "rename", name, f"{name}-new", "--yes"),
        ("connectors", "delete", f"{name}-new", "--yes"),
    ):
        out, err = connect(*words, *without)
        is_reported = words[0] == "describe" or words[1] == "status"
        assert not is_reported or said in out + err, (words, out, err)


def test_pause_resume_and_stop_write_what_java_writes(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    since = end_of_configs(cluster)
    for verb in ("pause", "resume", "stop"):
        _, err = connect("connectors", verb, name, "--direct", "--yes")
        assert f"target-state-{name}" in err
        assert "@" in err, "the offset written is reported"
    assert records_of(cluster, InternalTopic.CONFIG, name, since) == [
        (f"target-state-{name}", '{"state":"PAUSED","state.v2":"PAUSED"}'),
        (f"target-state-{name}", '{"state":"STARTED","state.v2":"STARTED"}'),
        (f"commit-{name}", '{"tasks":0}'),
        (f"target-state-{name}", '{"state":"PAUSED","state.v2":"STOPPED"}'),
    ]
    assert records_of(cluster, InternalTopic.STATUS, f"task-{name}-0")[-1] == (f"status-task-{name}-0", None)


def test_a_dry_run_shows_key_old_and_new_and_writes_nothing(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.PAUSED)
    since = end_of_configs(cluster)
    _, err = connect("connectors", "resume", name, "--direct", "--dry-run")
    assert f"target-state-{name}" in err
    assert '"PAUSED"' in err
    assert '"STARTED"' in err
    assert end_of_configs(cluster) == since


def test_a_dry_run_shows_also_what_may_not_be_done_and_says_why(cluster, connect, name, monkeypatch):
    cluster.add_connector(name, SOURCE)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    _, err = connect("offsets", "reset", name, "--direct", "--dry-run")
    assert f'delete ["{name}",{{"filename":"/in"}}]' in err
    assert f"As things are: Reset offsets of {name}: refused. Connector {name} must be STOPPED" in err
    assert "Hint: Stop it first" in err
    monkeypatch.delenv("KCONNECT_WORKER")
    topic = ("--config-topic", cluster.access.topic(InternalTopic.CONFIG))
    where = ("--bootstrap-servers", cluster.worker["bootstrap.servers"], *topic)
    _, err = connect("topics", "config", "delete", f"connector-{name}", "--dry-run", *where)
    assert "As things are:" in err
    assert "--group-id" in err
    assert snapshot(cluster).contains(name)


def test_without_an_answer_nothing_is_written(cluster, connect, name):
    cluster.add_connector(name, SOURCE)
    since = end_of_configs(cluster)
    _, err = connect("connectors", "delete", name, "--direct", expect=2)
    assert "--yes" in err
    assert end_of_configs(cluster) == since


def test_a_name_that_rest_can_not_address_is_deleted_with_its_statuses(cluster, connect):
    cluster.add_connector(ODD, SOURCE, [{"file": "/in"}], topics=["t"])
    connect("connectors", "delete", ODD, "--direct", "--yes")
    assert not snapshot(cluster).contains(ODD)
    assert records_of(cluster, InternalTopic.CONFIG, ODD)[-2:] == [
        (f"connector-{ODD}", None),
        (f"target-state-{ODD}", None),
    ]
    with ClusterReader(cluster.access) as reader:
        statuses = reader.statuses().statuses
    assert statuses.status(ODD) is None
    assert not statuses.tasks(ODD)
    assert not statuses.topics(ODD)


def test_options_that_need_direct_are_refused_without_it(cluster, connect):
    _, err = connect("connectors", "pause", "x", "--worker", str(cluster.worker_file), expect=2)
    assert "--direct" in err
    assert "--direct" in connect("connectors", "pause", "x", "--dry-run", expect=2)[1]
    assert "--direct" in connect("offsets", "reset", "x", "--force", expect=2)[1]
    assert "--url" in connect("connectors", "list", "--direct", "--url", "http://x:1", expect=2)[1]


def test_a_connector_is_created_with_the_offsets_its_tasks_start_at(cluster, connect, name, tmp_path):
    cluster.commit_offsets(name, [({"filename": "/former"}, {"position": 1}), ({"filename": "/in"}, {"position": 7})])
    file = tmp_path / "source.json"
    file.write_text(json.dumps({"name": name, "config": SOURCE, "initial_state": "PAUSED"}))
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 3}}]}))
    create = ("connectors", "create", str(file), "--offsets", str(offsets), "--direct")

    since = end_of_configs(cluster)
    _, err = connect(*create, "--dry-run")
    assert "geheim" not in err
    assert end_of_configs(cluster) == since

    _, err = connect(*create, "--yes")
    offsets_topic, configs = (cluster.access.topic(which) for which in (InternalTopic.OFFSET, InternalTopic.CONFIG))
    assert err.rindex(f"{offsets_topic}-") < err.index(f"{configs}-0@"), "offsets come before what makes it run"
    assert [key for key, _ in records_of(cluster, InternalTopic.CONFIG, name)] == [
        f"target-state-{name}",
        f"connector-{name}",
    ]
    assert snapshot(cluster).raw_config(name) == {**SOURCE, "name": name}
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(offsets.read_text())

    assert f"Two of the files are named {name}" in connect("connectors", "create", *[str(file)] * 2, expect=2)[1]
    assert "--direct" in connect("connectors", "create", str(file), "--dry-run", expect=2)[1]
    written = records_of(cluster, InternalTopic.OFFSET, name)
    assert f"Connector {name} already exists" in connect(*create, "--yes", "--force", expect=4)[1]
    assert records_of(cluster, InternalTopic.OFFSET, name) == written


@pytest.mark.parametrize(
    ("config", "offsets", "reported"),
    [
        (SOURCE, [], "need to be provided"),
        (SOURCE, [{"partition": {"filename": "/in"}, "offset": {"position": -1}}], "non-negative"),
        (SOURCE, [{"partition": {"filename": "/in"}, "offset": {"position": [1]}}], "primitive types"),
        (SOURCE | {"tasks.max": "many"}, None, "tasks.max"),
        (
            {"connector.class": "FileStreamSink", "topics": "t"},
            [{"partition": {"f": 1}, "offset": {"p": 1}}],
            "kafka_topic",
        ),
    ],
)
def test_what_a_worker_would_refuse_creates_no_connector(cluster, connect, name, tmp_path, config, offsets, reported):
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": name, "config": config}))
    first = [] if offsets is None else ["--offsets", "-"]
    body = json.dumps({"offsets": offsets})
    assert reported in connect("connectors", "create", str(file), "--direct", "--yes", *first, stdin=body, expect=1)[1]
    assert not snapshot(cluster).contains(name)
    assert records_of(cluster, InternalTopic.OFFSET, name) == []


def test_first_offsets_of_a_sink_replace_those_of_a_former_one(cluster, connect, name, broker, tmp_path):
    create_topic(broker.bootstrap, name, partitions=2)
    former = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"connect-{name}"})
    former.commit(offsets=[TopicPartition(name, 0, 0), TopicPartition(name, 1, 0)], asynchronous=False)
    former.close()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(name, b"x", partition=0)
    assert producer.flush(20) == 0
    file = tmp_path / "sink.json"
    config = {"connector.class": "org.example.ElsewhereSinkConnector", "topics": name}
    file.write_text(json.dumps({"name": name, "config": config}))
    first = {"partition": {"kafka_topic": name, "kafka_partition": "0"}, "offset": {"kafka_offset": 1}}
    create = ("connectors", "create", str(file), "--offsets", "-", "--direct", "--yes")
    beyond = {**first, "offset": {"kafka_offset": 5}}
    assert "beyond its end" in connect(*create, stdin=json.dumps({"offsets": [beyond]}), expect=1)[1]
    assert not snapshot(cluster).contains(name)
    _, err = connect(*create, stdin=json.dumps({"offsets": [first]}))
    assert "org.example.ElsewhereSinkConnector is not installed here" in err
    assert committed(broker.bootstrap, f"connect-{name}", name) == [1, -1001]
    assert snapshot(cluster).contains(name)


def test_workers_under_another_group_id_are_noticed(cluster, connect, name, broker):
    """A wrong --group-id would find nobody, and write beside workers that live."""
    cluster.add_connector(name, SOURCE, [{"file": "/in"}], worker_id="w9")
    wrong = ("pause", name, "--direct", "--yes", "--group-id", f"not-{name}")
    # A long session: no moment in which this process stands still takes the member out of its group
    with Member(broker.bootstrap, f"real-{name}", "w9", shared=(name,), session_ms=60_000) as member:
        member.await_assigned()
        eventually(lambda: is_settled(broker.bootstrap, f"real-{name}", 1), 10, "the group is settled")
        end = end_of_configs(cluster)
        err = connect("connectors", *wrong, expect=4)[1]
        assert f"group real-{name} runs connectors of these topics: http://w9/ runs connector {name}" in err
        assert f"--group-id real-{name}" in err
        assert end_of_configs(cluster) == end
        cluster.add_connector(name, SOURCE, [{"file": "/in"}], worker_id="elsewhere:1")
        err = connect("connectors", *wrong)[1]
        assert f"Warning: Group not-{name} has no workers" in err
        assert f"real-{name}" in err
    eventually(lambda: not member_ids(broker.bootstrap, f"real-{name}"), 20, "the group is empty")
    assert f"real-{name}" not in connect("connectors", "resume", *wrong[1:])[1]


def test_workers_under_another_group_id_are_noticed_while_they_rebalance(cluster, connect, name, broker, monkeypatch):
    """The broker tells who they are only once it is over."""
    group, looks = f"real-{name}", []
    cluster.add_connector(name, SOURCE, [{"file": "/in"}], worker_id="w9")

    def look(access):
        looks.append(other_groups(access))
        member.busy.clear()
        return looks[-1]

    monkeypatch.setattr(reader, "other_groups", look)
    with Member(broker.bootstrap, group, "w9", shared=(name,), session_ms=60_000) as member:
        member.await_assigned()
        member.busy.set()
        with Member(broker.bootstrap, group, "w10", session_ms=60_000):
            eventually(lambda: group_state(broker.bootstrap, group) == "PreparingRebalance", 20, "it rebalances")
        err = connect("connectors", "pause", name, "--direct", "--yes", "--group-id", f"not-{name}", expect=4)[1]
    assert f"group {group} runs connectors of these topics: http://w9/ runs connector {name}" in err
    assert not next(seen for seen in looks[0] if seen.name == group).is_reported


def test_top_reads_the_topics_shows_the_record_before_it_pauses_and_has_no_restart(cluster, connect, name, home):
    cluster.add_connector(name, SOURCE)
    command = [*connect_command(), "top", name, "--direct", "--worker", str(cluster.worker_file), "--interval", "300ms"]
    with Terminal(command, cli_env(home), cwd=str(home)) as terminal:
        screen = Picture(terminal)
        screen.until(name)
        screen.press("p")
        screen.until(lambda text: f"target-state-{name}" in text and "y: yes" in text)
        screen.press("y")
        screen.until(f"paused {name}", 30)
        eventually(lambda: snapshot(cluster).target_states[name] is TargetState.PAUSED)
        screen.until("PAUSED with the next worker")
        screen.press("R")
        screen.until("A restart needs a worker")
        screen.press("\r3")
        assert "geheim" not in screen.until("db.password = [hidden]")
        screen.press("q")
        assert terminal.wait() == 0


def test_describe_reads_state_offsets_topics_and_last_changes_from_the_topics(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}], topics=["t"])
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    cluster.add_connector(name, {**SOURCE, "topic": "u"})
    out, err = connect("describe", name, "--direct")
    assert "geheim" not in out + err
    assert '\n  {"filename":"/in"}   {"position":7}\n' in out
    assert "TOPICS\n  t\n" in out
    assert "    - topic = t\n    + topic = u" in out
    body = json.loads(connect("describe", name, "--direct", "-o", "json")[0])
    assert (body["state"], body["records_per_s"]) == ("RUNNING", None)
    assert body["changes"][-1]["settings"] == [{"key": "topic", "old": "t", "new": "u"}]


def test_during_a_rebalance_nobody_is_taken_for_gone_and_what_is_not_known_is_said(broker, tmp_path, connect):
    """A worker that is slow to join again holds the rebalance up; who the others are, the broker tells only then."""
    with (
        WrittenCluster(broker.bootstrap, tmp_path) as cluster,
        Member(broker.bootstrap, cluster.access.group_id, "w1", shared=("src",)) as slow,
    ):
        cluster.add_connector("src", SOURCE, [{"file": "/in"}], worker_id="w1")
        slow.await_assigned()
        slow.busy.set()
        with Member(broker.bootstrap, cluster.access.group_id, "w2"):
            eventually(lambda: not live_group(cluster.access).is_settled, 15, "the group is rebalancing")
            out, err = connect("topics", "doctor", "--worker", str(cluster.worker_file))
            assert out == ""
            assert "Not checked: statuses of workers that are gone, the session key's age (group " in err
            assert "is rebalancing" in err
            found = json.loads(connect("status", "--direct", "--worker", str(cluster.worker_file), "-o", "json")[0])
            assert found["healthy"]
            assert all(worker["worker"] for worker in found["workers"])
            slow.busy.clear()


def test_status_of_topics_says_that_no_worker_is_running_and_what_the_doctor_finds(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    out, err = connect("status", "--direct", expect=7)
    assert "No worker is running" in out.splitlines()[1]
    assert "doctor: " in out
    assert "states are the last ones that workers wrote" in err
