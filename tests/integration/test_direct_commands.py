"""The ordinary commands with --direct on a cluster without workers; source offsets moved between files and topics."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kconnect.direct.access import InternalTopic
from kconnect.direct.read.reader import ClusterReader
from kconnect.model import ConnectorOffset, RunState, TargetState
from kconnect.storage import FileOffsetStore
from kconnect.storage.offset_values import commit_source_offsets, list_source_offsets
from kconnect_cli.app import run
from kit.cli import cli_env, connect_command
from kit.group_members import Member, is_settled
from kit.picture import Picture
from kit.screen import Terminal
from kit.topics import create_topic
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/in", "topic": "t", "db.password": "geheim"}
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
    """Run `connect ARGS`; a worker that would be asked over REST is not there."""
    monkeypatch.setenv("KCONNECT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args, stdin="", expect=0):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run(args)
        out, err = capsys.readouterr()
        assert code == expect, f"connect {' '.join(map(str, args))} ended with {code}\n{out}\n{err}"
        return out, err

    return call


def records_of(cluster, which, connector, since=None):
    """Keys and values of a connector's records, from an offset on."""
    with ClusterReader(cluster.access) as reader:
        return [
            (record.key.decode(), None if record.value is None else record.value.decode())
            for record in reader.records(which, begin=since)
            if connector in record.key.decode()
        ]


def end_of_configs(cluster):
    with ClusterReader(cluster.access) as reader:
        return {0: reader.configs().snapshot.offset}


def snapshot(cluster):
    with ClusterReader(cluster.access) as reader:
        return reader.configs().snapshot


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


def test_pause_resume_and_stop_write_what_java_writes(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    since = end_of_configs(cluster)
    for verb in ("pause", "resume", "stop"):
        _, err = connect("connectors", verb, name, "--direct", "--yes")
        assert f"target-state-{name}" in err
        assert "@" in err, "the offset written is told"
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


def test_source_offsets_are_shown_altered_and_reset(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=RunState.STOPPED)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7}), ({"filename": "/b"}, {"position": 1})])
    out, _ = connect("offsets", "show", name, "--direct", "-o", "json")
    document = json.loads(out)
    by_file = {item["partition"]["filename"]: item for item in document["offsets"]}
    by_file["/in"]["offset"], by_file["/b"]["offset"] = {"position": 3}, None
    _, err = connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps(document))
    assert '{"position":7}' in err
    assert '{"position":3}' in err
    after = json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0])
    assert after == {"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 3}}]}
    connect("offsets", "reset", name, "--direct", "--yes")
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == {"offsets": []}
    assert "nothing changes" in connect("offsets", "reset", name, "--direct", "--yes")[1]


def test_what_show_prints_for_several_is_what_alter_takes(cluster, connect, name):
    names = [f"{name}-{number}" for number in range(2)]
    for each in names:
        cluster.add_connector(each, SOURCE, target=TargetState.STOPPED, state=None)
        cluster.commit_offsets(each, [({"filename": "/in"}, {"position": 7})])
    document = json.loads(connect("offsets", "show", *names, "--direct", "-o", "json")[0])
    for item in document:
        item["offsets"][0]["offset"]["position"] = 8
    connect("offsets", "alter", "-f", "-", "--direct", "--yes", stdin=json.dumps(document))
    assert json.loads(connect("offsets", "show", *names, "--direct", "-o", "json")[0]) == document


@pytest.mark.parametrize(
    ("offsets", "code", "told"),
    [
        ([{"partition": {"filename": "/other"}, "offset": {"position": 1}}], 1, "no such partition"),
        ([{"partition": {"filename": "/in"}, "offset": {"position": [1]}}], 1, "primitive types"),
        ([{"partition": {"filename": "/in"}, "offset": 3}], 1, "must be objects"),
        ([{"partition": {"filename": "/in"}, "offset": {"p": 1}}] * 2, 1, "more than one offset"),
    ],
)
def test_offsets_that_can_not_be_are_refused_and_nothing_is_written(cluster, connect, name, offsets, code, told):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    body = json.dumps({"offsets": offsets})
    assert told in connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body, expect=code)[1]
    assert len(records_of(cluster, InternalTopic.OFFSET, name)) == 1


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
    ("config", "offsets", "told"),
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
def test_what_a_worker_would_refuse_creates_no_connector(cluster, connect, name, tmp_path, config, offsets, told):
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": name, "config": config}))
    first = [] if offsets is None else ["--offsets", "-"]
    body = json.dumps({"offsets": offsets})
    assert told in connect("connectors", "create", str(file), "--direct", "--yes", *first, stdin=body, expect=1)[1]
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
    assert committed(broker, f"connect-{name}", name) == [1, -1001]
    assert snapshot(cluster).contains(name)


def test_a_plugin_that_is_installed_here_is_asked_before_anything_is_written(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": -1}}]})
    _, err = connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body, expect=1)
    assert "non-negative" in err
    assert len(records_of(cluster, InternalTopic.OFFSET, name)) == 1


def test_of_several_connectors_none_is_written_when_one_may_not_be(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    _, err = connect("offsets", "reset", name, "not-there", "--direct", "--yes", expect=3)
    assert "Nothing was changed" in err
    assert len(records_of(cluster, InternalTopic.OFFSET, name)) == 1
    since = end_of_configs(cluster)
    assert "Nothing was changed" in connect("connectors", "pause", name, "not-there", "--direct", "-y", expect=3)[1]
    assert end_of_configs(cluster) == since


def test_a_partition_the_connector_does_not_have_is_written_with_force(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    body = json.dumps({"offsets": [{"partition": {"filename": "/new"}, "offset": {"position": 1}}]})
    connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", "--force", stdin=body)
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(body)


def test_offsets_of_a_connector_that_is_not_stopped_stay(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.PAUSED)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    assert "must be STOPPED" in connect("offsets", "reset", name, "--direct", "--yes", "--force", expect=4)[1]


def test_a_topic_of_its_own_comes_before_the_workers(cluster, connect, name, broker):
    own = f"{name}-own"
    create_topic(broker.bootstrap, own, config={"cleanup.policy": "compact"})
    cluster.add_connector(name, SOURCE | {"offsets.storage.topic": own}, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    assert '"position": 7' in connect("offsets", "show", name, "--direct", "-o", "json")[0]
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 9}}]})
    _, err = connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body)
    assert err.index(f"{own}-0@0") < err.index(f"{cluster.access.topic(InternalTopic.OFFSET)}-")
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(body)
    _, err = connect("offsets", "reset", name, "--direct", "--yes")
    assert err.index(f"{cluster.access.topic(InternalTopic.OFFSET)}-") < err.index(f"{own}-0@1"), (
        "a tombstone goes to the worker's topic first"
    )


def committed(broker, group, topic):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        return [part.offset for part in consumer.committed([TopicPartition(topic, number) for number in range(2)], 10)]
    finally:
        consumer.close()


def test_sink_offsets_are_those_of_the_consumer_group(cluster, connect, name, broker):
    create_topic(broker.bootstrap, name, partitions=2)
    group = f"{name}-group"
    config = {"connector.class": "FileStreamSink", "topics": name, "consumer.override.group.id": group}
    cluster.add_connector(name, config, target=TargetState.STOPPED, state=None)
    item = {"partition": {"kafka_topic": name, "kafka_partition": 0}, "offset": {"kafka_offset": 5}}
    other = {"partition": {"kafka_topic": name, "kafka_partition": 1}, "offset": {"kafka_offset": "6"}}
    alter = ("offsets", "alter", name, "-f", "-", "--direct", "--yes")
    _, err = connect(*alter, stdin=json.dumps({"offsets": [item, other]}), expect=1)
    assert f"offset 5 of {name}-0 is beyond its end, 0; offset 6 of {name}-1 is beyond its end, 0" in err
    assert committed(broker, group, name) == [-1001, -1001]
    connect(*alter, "--force", stdin=json.dumps({"offsets": [item, other]}))
    assert committed(broker, group, name) == [5, 6]
    shown = json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0])
    shown["offsets"][0]["offset"] = None
    connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps(shown))
    assert committed(broker, group, name) == [-1001, 6]
    item["partition"]["kafka_partition"] = 7
    _, err = connect(
        "offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps({"offsets": [item]}), expect=3
    )
    assert "no partition 7" in err
    connect("offsets", "reset", name, "--direct", "--yes")
    assert committed(broker, group, name) == [-1001, -1001]


def test_a_sink_is_moved_to_a_time_to_an_end_and_by_a_number_of_records(cluster, connect, name, broker):
    create_topic(broker.bootstrap, name, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for number in range(10):
        producer.produce(name, f"{number}", partition=0, timestamp=1_700_000_000_000 + 60_000 * number)
    assert producer.flush(30) == 0
    config = {"connector.class": "FileStreamSink", "topics.regex": f"{name[:-6]}.*"}
    cluster.add_connector(name, config, target=TargetState.STOPPED, state=None)
    group = f"connect-{name}"

    def reset(*target, expect=0):
        return connect("offsets", "reset", name, *target, "--direct", "--yes", expect=expect)[1]

    reset("--to-time", "2023-11-14T22:17:30Z")  # 4 minutes and 10 s after the first
    assert committed(broker, group, name) == [5, 0]
    reset("--shift-by", "-2", "--partition", "0")
    assert committed(broker, group, name) == [3, 0]
    reset("--shift-by", "100")
    assert committed(broker, group, name) == [10, 0]
    reset("--to-earliest", "--topic", name)
    assert committed(broker, group, name) == [0, 0]
    reset("--to-time", "1h")
    assert committed(broker, group, name) == [10, 0]
    assert "reads no topic nothing" in reset("--to-latest", "--topic", "nothing", expect=3)
    connect("offsets", "undo", name, "--direct", "--yes")
    assert committed(broker, group, name) == [0, 0]


def test_a_sink_whose_group_has_members_is_left_alone(cluster, connect, name, broker):
    create_topic(broker.bootstrap, name)
    config = {"connector.class": "FileStreamSink", "topics": name}
    cluster.add_connector(name, config, target=TargetState.STOPPED, state=None)
    zombie = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"connect-{name}"})
    try:
        zombie.subscribe([name])
        eventually(lambda: zombie.poll(0.1) is not None or zombie.assignment(), 20, "the zombie is in the group")
        assert "has 1 member" in connect("offsets", "reset", name, "--direct", "--yes", expect=4)[1]
    finally:
        zombie.close()


def test_offsets_move_from_a_standalone_file_to_the_topic_and_back(cluster, connect, name, tmp_path):
    old, new, saved = tmp_path / "connect.offsets", tmp_path / "new.offsets", tmp_path / "saved.json"
    offset = ConnectorOffset({"filename": "/ü→😀"}, {"position": 42})
    store = FileOffsetStore(old)
    store.start()
    commit_source_offsets(store, name, [offset])
    connect("offsets", "export", str(saved), "--from-file", str(old))
    assert json.loads(saved.read_text())[0]["name"] == name
    assert "--overwrite" in connect("offsets", "export", str(saved), "--from-file", str(old), expect=2)[1]
    connect("offsets", "import", str(saved), "--yes")
    assert records_of(cluster, InternalTopic.OFFSET, name)[-1][1] == '{"position":42}'
    assert "already" in connect("offsets", "import", str(saved), "--yes")[1]
    out, _ = connect("offsets", "export", "-", name)
    assert json.loads(out) == json.loads(saved.read_text())
    connect("offsets", "import", "-", "--to-file", str(new), "--yes", stdin=out)
    again = FileOffsetStore(new)
    again.start()
    assert list_source_offsets(again, name) == [offset]
    assert again.entries() == store.entries()


def test_import_with_replace_forgets_what_the_file_does_not_have(cluster, connect, name):
    cluster.commit_offsets(name, [({"filename": "/a"}, {"position": 1}), ({"filename": "/b"}, {"position": 2})])
    body = json.dumps([{"name": name, "offsets": [{"partition": {"filename": "/a"}, "offset": {"position": 5}}]}])
    connect("offsets", "import", "-", "--yes", stdin=body)
    assert len(json.loads(connect("offsets", "export", "-", name)[0])[0]["offsets"]) == 2
    connect("offsets", "import", "-", "--yes", "--replace", stdin=body)
    assert json.loads(connect("offsets", "export", "-", name)[0]) == json.loads(body)


def test_offsets_of_sinks_can_not_be_moved(cluster, connect, name):
    cluster.add_connector(name, {"connector.class": "FileStreamSink", "topics": "t"}, state=None)
    assert "consumer group" in connect("offsets", "export", "-", name, expect=1)[1]


@pytest.fixture(scope="module")
def exactly_once(broker, tmp_path_factory):
    more = {"exactly.once.source.support": "enabled"}
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("exactly-once"), more=more) as running:
        yield running


def test_with_exactly_once_zombies_are_fenced_before_offsets_are_written_in_a_transaction(
    exactly_once, connect, name, broker, monkeypatch
):
    monkeypatch.setenv("KCONNECT_WORKER", str(exactly_once.worker_file))
    exactly_once.add_connector(name, SOURCE, [{"file": "/in"}] * 2, state=RunState.UNASSIGNED)
    exactly_once.configs.put_task_count_record(name, 2)
    exactly_once.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    zombies = [
        Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{exactly_once.access.group_id}-{name}-{task}"}
        )
        for task in range(2)
    ]
    for zombie in zombies:
        zombie.init_transactions(10)
    connect("connectors", "stop", name, "--direct", "--yes")
    since = end_of_configs(exactly_once)
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 3}}]})
    _, err = connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body)
    assert "2 producers" in err
    assert records_of(exactly_once, InternalTopic.CONFIG, name, since) == [
        (f"tasks-fencing-{name}", '{"task-count":0}')
    ]
    for zombie in zombies:
        with pytest.raises(KafkaException, match=r"(?i)fence|epoch|newer"):
            _commit_one(zombie, exactly_once)
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(body)
    since = end_of_configs(exactly_once)
    connect("offsets", "reset", name, "--direct", "--yes")
    assert end_of_configs(exactly_once) == since, "fenced already: no record again, as in Java"
    assert records_of(exactly_once, InternalTopic.OFFSET, name)[-1][1] is None


def _commit_one(zombie, cluster):
    zombie.begin_transaction()
    zombie.produce(cluster.access.topic(InternalTopic.OFFSET), b"zombie", b"zombie")
    zombie.commit_transaction(10)


def test_with_exactly_once_a_topic_of_its_own_is_reset_too(exactly_once, connect, name, broker, monkeypatch):
    monkeypatch.setenv("KCONNECT_WORKER", str(exactly_once.worker_file))
    own = f"{name}-own"
    create_topic(broker.bootstrap, own, config={"cleanup.policy": "compact"})
    exactly_once.add_connector(name, SOURCE | {"offsets.storage.topic": own}, target=TargetState.STOPPED, state=None)
    exactly_once.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 3}}]})
    connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body)
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(body)
    _, err = connect("offsets", "reset", name, "--direct", "--yes")
    assert err.count('["' + name) >= 4, "shown and written in both topics"
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == {"offsets": []}


def test_with_exactly_once_a_connector_is_created_in_transactions(exactly_once, connect, name, monkeypatch, tmp_path):
    monkeypatch.setenv("KCONNECT_WORKER", str(exactly_once.worker_file))
    exactly_once.commit_offsets(name, [({"filename": "/former"}, {"position": 1})])
    (tmp_path / "source.json").write_text(json.dumps({"name": name, "config": SOURCE}))
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 3}}]})
    connect("connectors", "create", str(tmp_path / "source.json"), "--offsets", "-", "--direct", "--yes", stdin=body)
    assert snapshot(exactly_once).contains(name)
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(body)


def test_a_file_that_a_running_worker_uses_is_not_written(connect, tmp_path):
    target = tmp_path / "connect.offsets"
    (tmp_path / "worker.properties").write_text("offset.storage.file.filename=connect.offsets\n")
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", "ConnectStandalone", "worker.properties"]
    body = json.dumps([{"name": "x", "offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]}])
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE) as worker:
        try:
            _, err = connect("offsets", "import", "-", "--to-file", str(target), "--yes", stdin=body, expect=4)
            assert f"process {worker.pid}" in err
        finally:
            worker.stdin.close()
    assert not target.exists()
    connect("offsets", "import", "-", "--to-file", str(target), "--yes", stdin=body)
    assert target.exists()


def test_a_standalone_workers_properties_name_its_file(connect, tmp_path):
    file, properties = tmp_path / "connect.offsets", tmp_path / "standalone.properties"
    properties.write_text(f"offset.storage.file.filename={file}\n")
    body = json.dumps([{"name": "x", "offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]}])
    connect("offsets", "import", "-", "--worker", str(properties), "--yes", stdin=body)
    assert json.loads(connect("offsets", "export", "-", "--worker", str(properties))[0]) == json.loads(body)
    assert "has no offsets of y" in connect("offsets", "export", "-", "y", "--from-file", str(file), expect=3)[1]
    assert "does not exist" in connect("offsets", "export", "-", "--from-file", str(tmp_path / "z"), expect=3)[1]
    both = ("--from-file", str(file), "--worker", str(properties))
    assert "Give one of them" in connect("offsets", "export", "-", *both, expect=2)[1]


def test_workers_under_another_group_id_are_noticed(cluster, connect, name, broker):
    """A wrong --group-id would find nobody, and write beside workers that live."""
    cluster.add_connector(name, SOURCE, [{"file": "/in"}], worker_id="w9")
    wrong = ("pause", name, "--direct", "--yes", "--group-id", f"not-{name}")
    with Member(broker.bootstrap, f"real-{name}", "w9", shared=(name,)) as member:
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
    assert "Warning" not in connect("connectors", "resume", *wrong[1:])[1]


def test_top_reads_the_topics_shows_the_record_before_it_pauses_and_has_no_restart(cluster, connect, name, home):
    cluster.add_connector(name, SOURCE)
    command = [*connect_command(), "top", name, "--direct", "--worker", str(cluster.worker_file), "--interval", "300ms"]
    with Terminal(command, cli_env(home), cwd=str(home)) as terminal:
        screen = Picture(terminal)
        screen.until(name)
        screen.press("p")
        assert f"target-state-{name}" in screen.until("y: yes")
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


def test_status_of_topics_says_that_no_worker_is_running_and_what_the_doctor_finds(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    out, err = connect("status", "--direct", expect=1)
    assert "No worker is running" in out.splitlines()[1]
    assert "doctor: " in out
    assert "states are the last ones that workers wrote" in err
