"""Offsets changed with --direct on a cluster without workers, and moved between files and topics."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import KafkaException, Producer

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.offsets import changes
from kconnect.model import ConnectorOffset, RunState, TargetState
from kconnect.runtime.storage import FileOffsetStore
from kconnect.runtime.storage.offset_values import commit_source_offsets, list_source_offsets
from kit.direct_commands import SOURCE, DirectCommands, commit_one, committed, end_of_configs, records_of, snapshot
from kit.group_offsets import member_of
from kit.topics import create_topic
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker


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
    ("offsets", "code", "reported"),
    [
        ([{"partition": {"filename": "/other"}, "offset": {"position": 1}}], 1, "no such partition"),
        ([{"partition": {"filename": "/in"}, "offset": {"position": [1]}}], 1, "primitive types"),
        ([{"partition": {"filename": "/in"}, "offset": 3}], 1, "must be objects"),
        ([{"partition": {"filename": "/in"}, "offset": {"p": 1}}] * 2, 1, "more than one offset"),
    ],
)
def test_offsets_that_can_not_be_are_refused_and_nothing_is_written(cluster, connect, name, offsets, code, reported):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    body = json.dumps({"offsets": offsets})
    assert reported in connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body, expect=code)[1]
    assert len(records_of(cluster, InternalTopic.OFFSET, name)) == 1


def test_a_plugin_that_is_installed_here_is_asked_before_anything_is_written(cluster, connect, name):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": -1}}]})
    _, err = connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body, expect=1)
    assert "non-negative" in err
    assert len(records_of(cluster, InternalTopic.OFFSET, name)) == 1


@pytest.mark.parametrize("meanwhile", ["resumed", "committed"])
def test_nothing_is_written_over_what_happens_while_the_plugin_is_asked(cluster, connect, name, monkeypatch, meanwhile):
    cluster.add_connector(name, SOURCE, target=TargetState.STOPPED, state=None)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])

    def ask():
        if meanwhile == "resumed":
            cluster.add_connector(name, SOURCE, target=TargetState.STARTED, state=None)
        else:
            cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 8})])

    monkeypatch.setattr(changes, "plugin_hook", lambda *_: ask)
    body = json.dumps({"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 3}}]})
    _, err = connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=body, expect=4)
    assert ("must be STOPPED" if meanwhile == "resumed" else "changed in the meantime") in err
    assert len(records_of(cluster, InternalTopic.OFFSET, name)) == (1 if meanwhile == "resumed" else 2)


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
    assert committed(broker.bootstrap, group, name) == [-1001, -1001]
    connect(*alter, "--force", stdin=json.dumps({"offsets": [item, other]}))
    assert committed(broker.bootstrap, group, name) == [5, 6]
    shown = json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0])
    shown["offsets"][0]["offset"] = None
    connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps(shown))
    assert committed(broker.bootstrap, group, name) == [-1001, 6]
    item["partition"]["kafka_partition"] = 7
    _, err = connect(
        "offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps({"offsets": [item]}), expect=3
    )
    assert "no partition 7" in err
    connect("offsets", "reset", name, "--direct", "--yes")
    assert committed(broker.bootstrap, group, name) == [-1001, -1001]


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
    assert committed(broker.bootstrap, group, name) == [5, 0]
    reset("--shift-by", "-2", "--partition", "0")
    assert committed(broker.bootstrap, group, name) == [3, 0]
    reset("--shift-by", "100")
    assert committed(broker.bootstrap, group, name) == [10, 0]
    reset("--to-earliest", "--topic", name)
    assert committed(broker.bootstrap, group, name) == [0, 0]
    reset("--to-time", "1h")
    assert committed(broker.bootstrap, group, name) == [10, 0]
    assert "reads no topic nothing" in reset("--to-latest", "--topic", "nothing", expect=3)
    connect("offsets", "undo", name, "--direct", "--yes")
    assert committed(broker.bootstrap, group, name) == [0, 0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_sink_whose_group_has_members_is_left_alone(cluster, connect, name, broker, protocol):
    create_topic(broker.bootstrap, name)
    config = {"connector.class": "FileStreamSink", "topics": name}
    cluster.add_connector(name, config, target=TargetState.STOPPED, state=None)
    with member_of(broker.bootstrap, f"connect-{name}", name, protocol):
        assert "has 1 member" in connect("offsets", "reset", name, "--direct", "--yes", expect=4)[1]


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
            commit_one(zombie, exactly_once)
    assert json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0]) == json.loads(body)
    since = end_of_configs(exactly_once)
    connect("offsets", "reset", name, "--direct", "--yes")
    assert end_of_configs(exactly_once) == since, "fenced already: no record again, as in Java"
    assert records_of(exactly_once, InternalTopic.OFFSET, name)[-1][1] is None


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
