"""`connect topics .. put|delete|restore|export|import`: screens, refusals and exit codes, on a real broker's topics."""

from __future__ import annotations

import io
import itertools
import json
import stat
import sys

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.logs.redaction import HIDDEN
from kconnect.model import TargetState, TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect_cli.app import run
from kit.group_offsets import member_of
from kit.java_connect import write_properties
from kit.pace import ample_text
from kit.topics import create_topic, produce_lines
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "2", "file": "/data/in", "topic": "t"}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "/data/out", "topics": "t"}
TASKS = [{"file": "/data/in", "password": "hush"}, {"file": "/data/in"}]


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.add_connector("src", {**FILE_SOURCE, "password": "hush"}, TASKS, topics=["t"])
        running.commit_offsets("src", [({"filename": "/data/in"}, {"position": 7})])
        yield running


@pytest.fixture(scope="module")
def other(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("other")) as running:
        yield running


@pytest.fixture
def topics(cluster, monkeypatch, capsys, tmp_path):
    """Run `connect topics ARGS` on the cluster, or the one of `on`; gives code, stdout, stderr."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args, stdin="", on=cluster):
        monkeypatch.setenv("KCONNECT_WORKER", str(on.worker_file))
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run(["topics", *args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def configs(cluster):
    with ClusterReader(cluster.access) as reader:
        return reader.configs()


def offsets(cluster):
    with ClusterReader(cluster.access) as reader:
        return {key: value for key, value in reader.offsets().entries.items() if value is not None}


WORDS = ("config", "status", "offset")
PAUSED = '{ "state": "PAUSED", "state.v2": "PAUSED" }'


def test_a_dry_run_shows_old_and_new_without_secrets_and_writes_nothing(topics, cluster):
    end = configs(cluster).snapshot.offset
    value = json.dumps({"properties": {**FILE_SOURCE, "password": "other"}})
    code, out, err = topics("config", "put", "connector-src", value, "--dry-run")
    assert code == 0
    assert "update connector-src (at offset 0)" in out
    assert "  - {" in out
    assert "  + {" in out
    assert HIDDEN in out
    assert "hush" not in out + err
    assert "other" not in out + err
    assert "nothing was changed" in err
    assert configs(cluster).snapshot.offset == end
    code, out, _ = topics("config", "put", "connector-src", value, "--dry-run", "-o", "json")
    (found,) = json.loads(out)
    assert found["old"]["offset"] == 0
    assert json.loads(found["new"])["properties"]["password"] == HIDDEN
    _, out, _ = topics("config", "put", "connector-src", value, "--dry-run", "--show-secrets")
    assert '"password":"other"' in out
    assert '"password":"hush"' in out


def test_a_change_of_a_secret_alone_is_reported(topics):
    value = json.dumps({"properties": {**FILE_SOURCE, "password": "other", "name": "src"}})
    _, out, _ = topics("config", "put", "connector-src", value, "--dry-run")
    assert "only secrets differ" in out


def test_what_was_written_is_reported_with_its_offset(topics, cluster):
    code, out, err = topics("config", "put", "target-state-src", PAUSED, "--yes")
    view = configs(cluster)
    record = view.latest.get(b"target-state-src")
    assert code == 0
    assert record.value == b'{"state":"PAUSED","state.v2":"PAUSED"}'
    assert out.splitlines()[0].split() == ["TOPIC", "PARTITION", "OFFSET", "KEY"]
    assert out.splitlines()[1].split() == [record.topic, "0", str(record.offset), "target-state-src"]
    assert "written and read back" in err
    code, out, _ = topics("config", "put", "target-state-src", "-", "--yes", "-o", "json", stdin=PAUSED)
    (found,) = json.loads(out)
    assert found["offset"] == record.offset + 1
    assert found["value"] == record.value.decode()


def test_without_a_terminal_and_yes_nothing_is_written(topics, cluster):
    end = configs(cluster).snapshot.offset
    code, _, err = topics("config", "put", "target-state-src", PAUSED)
    assert code == 2
    assert "--yes" in err
    assert configs(cluster).snapshot.offset == end


def test_malformed_values_are_refused_with_the_reason(topics, cluster, tmp_path):
    end = configs(cluster).snapshot.offset
    for args, reported in (
        (("config", "put", "connector-src", "[1]"), "a list, not an object"),
        (("config", "put", "connector-src", "{"), "not JSON"),
        (("status", "put", "status-connector-src", "{}"), "no known state"),
        (("offsets", "put", '["src",{"f":1}]', '"x"'), "not a JSON object"),
        (("offsets", "put", '["src",{"f":1}]', '{"a":[1]}'), "primitive"),
    ):
        code, _, err = topics(*args, "--yes")
        assert code == 1, err
        assert reported in err
        assert "--force" in err
    code, _, err = topics("config", "put", "connector-src", "--yes")
    assert code == 2
    code, _, err = topics("config", "put", "connector-src", "-f", str(tmp_path / "none.json"), "--yes")
    assert code == 3
    assert configs(cluster).snapshot.offset == end
    file = tmp_path / "value"
    file.write_bytes(b"\xff no json")
    code, _, err = topics("config", "put", "commit-junk", "-f", str(file), "--yes", "--force")
    assert code == 0, err
    assert configs(cluster).latest.get(b"commit-junk").value == b"\xff no json"
    code, _, err = topics("config", "delete", "commit-junk", "--yes")
    assert code == 0, err


def test_statuses_and_offsets_are_put_and_deleted(topics, cluster):
    code, _, err = topics("offsets", "put", '["src", {"filename": "/data/in"}]', '{"position": 9}', "--yes")
    assert code == 0, err
    assert offsets(cluster) == {b'["src",{"filename":"/data/in"}]': b'{"position":9}'}
    code, out, _ = topics("offsets", "delete", '["src",{"filename":"/data/in"}]', "--yes", "-o", "name")
    assert (code, out) == (0, '["src",{"filename":"/data/in"}]\n')
    assert offsets(cluster) == {}
    code, out, err = topics("status", "delete", "status-task-src-0", "status-task-src-1", "--yes", "-o", "json")
    assert code == 0, err
    assert [found["key"] for found in json.loads(out)] == ["status-task-src-0", "status-task-src-1"]
    with ClusterReader(cluster.access) as reader:
        assert reader.statuses().statuses.tasks("src") == {}
        assert reader.statuses().statuses.status("src") is not None


def test_a_key_that_is_not_there_gives_those_near(topics):
    code, _, err = topics("config", "delete", "connector-scr", "--yes")
    assert code == 3
    assert "connector-src" in err


def test_a_deleted_connector_is_restored_as_it_was(topics, cluster):
    cluster.add_connector("lost", {**FILE_SOURCE, "password": "hush"}, TASKS, target=TargetState.PAUSED)
    before = configs(cluster).snapshot
    cluster.configs.remove_connector_config("lost")
    at = str(before.offset - 1)
    code, out, err = topics("config", "restore", "lost", "--at", at, "--dry-run")
    assert code == 0, err
    assert "create connector-lost" in out
    assert "  + topic = t" in out
    assert f"  + password = {HIDDEN}" in out
    assert "hush" not in out
    assert not configs(cluster).snapshot.contains("lost")
    code, out, err = topics("config", "restore", "lost", "--at", at, "--yes", "-o", "name")
    assert code == 0, err
    assert out.split() == ["target-state-lost", "connector-lost", "task-lost-0", "task-lost-1", "commit-lost"]
    after = configs(cluster).snapshot
    assert after.raw_config("lost") == before.raw_config("lost")
    assert after.target_state("lost") is TargetState.PAUSED
    assert after.task_configs["lost"] == before.task_configs["lost"]
    code, _, err = topics("config", "restore", "lost", "--at", at, "--yes")
    assert code == 0
    assert "already up to date" in err


def test_a_restore_says_as_of_when(topics):
    for args in ((), ("--at", "1", "--until", "-1h"), ("--until", "yesterday")):
        code, _, _ = topics("config", "restore", "src", *args)
        assert code == 2
    code, _, err = topics("config", "restore", "src", "--until", "2001-01-01T00:00Z", "--yes")
    assert code == 3
    assert "history" in err


# --- export and import ---


@pytest.fixture(scope="module")
def filled(broker, tmp_path_factory):
    """A cluster with a source, its offsets, a sink and its group's offsets."""
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("filled")) as running:
        name = running.access.group_id
        create_topic(broker.bootstrap, f"{name}-t", partitions=2)
        running.add_connector(f"{name}-src", {**FILE_SOURCE, "password": "hush"}, TASKS, target=TargetState.PAUSED)
        running.add_connector(f"{name}-sink", {**SINK, "topics": f"{name}-t"}, [{"file": "/data/out"}])
        running.commit_offsets(f"{name}-src", [({"filename": f"/{n}"}, {"position": n}) for n in range(4)])
        running.configs.put_task_count_record(f"{name}-src", 2)
        opened = kafka_group_offsets(running.access.worker, 20, timeout_setting="t")
        with opened({"name": f"{name}-sink"}) as groups:
            groups.alter_offsets(f"connect-{name}-sink", {TopicPartition(f"{name}-t", n): 0 for n in range(2)})
        yield running


def test_a_cluster_is_moved_by_export_and_import(topics, filled, other, tmp_path):
    file, name = tmp_path / "state.json", filled.access.group_id
    code, _, err = topics("export", str(file), "--show-secrets", on=filled)
    assert code == 0, err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    document = json.loads(file.read_text())
    assert (document["format"], document["version"], document["secrets"]) == ("kconnect-topics", 1, "included")
    assert [c["name"] for c in document["connectors"]] == [f"{name}-src", f"{name}-sink"]
    assert document["groups"][f"{name}-sink"]["group"] == f"connect-{name}-sink"
    code, _, err = topics("import", str(file), "--yes", on=other)
    assert code == 0, err
    was, found = configs(filled).snapshot, configs(other).snapshot
    for connector in (f"{name}-src", f"{name}-sink"):
        assert found.raw_config(connector) == was.raw_config(connector)
        assert found.target_state(connector) is was.target_state(connector)
        assert found.task_configs[connector] == was.task_configs[connector]
    assert found.task_count_record(f"{name}-src") == 2
    assert found.is_pending_fencing(f"{name}-src")
    assert offsets(other) == offsets(filled)
    code, _, err = topics("import", str(file), "--yes", on=other)
    assert code == 0
    assert "already up to date" in err


def test_what_is_there_and_differs_is_left_alone_unless_replaced(topics, filled, other, tmp_path):
    file, name = tmp_path / "state.json", f"{filled.access.group_id}-src"
    assert topics("export", str(file), "--show-secrets", "--connectors", name, "--without-groups", on=filled)[0] == 0
    assert [c["name"] for c in json.loads(file.read_text())["connectors"]] == [name]
    topics("import", str(file), "--yes", "--replace", on=other)
    other.configs.put_connector_config(name, {**FILE_SOURCE, "topic": "another"})
    other.commit_offsets(name, [({"filename": "/9"}, {"position": 9})])
    end = configs(other).snapshot.offset
    code, _, err = topics("import", str(file), "--yes", on=other)
    assert code == 4
    assert "--replace" in err
    assert configs(other).snapshot.offset == end
    code, out, err = topics("import", str(file), "--replace", "--dry-run", on=other)
    assert "  - topic = another" in out
    code, _, err = topics("import", str(file), "--replace", "--yes", on=other)
    assert code == 0, err
    assert configs(other).snapshot.raw_config(name) == configs(filled).snapshot.raw_config(name)
    assert offsets(other) == offsets(filled)


def test_masked_secrets_come_from_what_is_there_or_are_asked_for(topics, filled, cluster, tmp_path):
    file = tmp_path / "state.json"
    code, out, _ = topics("export", "-", on=filled)
    assert code == 0
    assert "hush" not in out
    file.write_text(out)
    code, _, err = topics("import", str(file), "--yes", on=filled)
    assert code == 0, err
    assert "already up to date" in err
    end = configs(cluster).snapshot.offset
    code, _, err = topics("import", str(file), "--yes", on=cluster)
    assert code == 1
    assert "password of connector" in err
    assert "is [hidden], which stands for a secret that does not exist" in err
    assert "${file:" in err
    assert configs(cluster).snapshot.offset == end


def test_bad_files_and_names_are_reported_and_nothing_is_written(topics, cluster, filled, tmp_path):
    end = configs(cluster).snapshot.offset
    file = tmp_path / "state.json"
    for text, code, reported in (
        ("{", 1, "line 1, column 2"),
        ("[]", 1, "not an export of a cluster"),
        ('{"format": "kconnect-topics", "version": 9, "connectors": []}', 1, "version 9"),
    ):
        file.write_text(text)
        found, _, err = topics("import", str(file), "--yes")
        assert (found, reported in err) == (code, True), err
    assert topics("import", str(tmp_path / "none.json"), "--yes")[0] == 3
    assert topics("export", "-", "--show-secrets")[0] == 2
    assert topics("export", str(tmp_path / "no" / "folder.json"))[0] == 1
    code, _, err = topics("export", "-", "--connectors", "scr")
    assert code == 3
    assert "src" in err
    topics("export", str(file), on=filled)
    code, _, err = topics("import", str(file), "--connectors", "nobody", "--yes")
    assert code == 1
    assert "nobody" in err
    assert configs(cluster).snapshot.offset == end
    assert list(tmp_path.glob(".*")) == []


def test_the_group_that_is_not_named_is_asked_for(topics, cluster, monkeypatch, capsys):
    monkeypatch.delenv("KCONNECT_WORKER", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    servers = cluster.worker["bootstrap.servers"]
    where = ("--bootstrap-servers", servers, "--config-topic", cluster.access.topic(InternalTopic.CONFIG))
    assert run(["topics", "config", "put", "target-state-src", PAUSED, "--yes", *where]) == 4
    assert "--group-id" in capsys.readouterr().err
    assert run(["topics", "config", "put", "target-state-src", PAUSED, "--yes", "--force", *where]) == 0
    assert "Forced: The workers' group" in capsys.readouterr().err


def test_a_cluster_that_never_ran_gets_its_topics_too(topics, filled, tmp_path, broker):
    fresh = WrittenCluster(broker.bootstrap, tmp_path, more={f"{w}.storage.replication.factor": "1" for w in WORDS})
    file, name = tmp_path / "state.json", filled.access.group_id
    assert topics("export", str(file), "--show-secrets", on=filled)[0] == 0
    code, _, err = topics("import", str(file), "--yes", on=fresh)
    assert code == 3
    assert "--create-topics" in err
    code, out, err = topics("import", str(file), "--create-topics", "--dry-run", on=fresh)
    assert code == 0, err
    assert f"create connector-{name}-src" in out
    assert topics("import", str(file), "--yes", on=fresh)[0] == 3, "a dry run creates none"
    code, _, err = topics("import", str(file), "--create-topics", "--yes", "--timeout", ample_text(60), on=fresh)
    assert code == 0, err
    assert configs(fresh).snapshot.configs == configs(filled).snapshot.configs
    assert offsets(fresh) == offsets(filled)
    with ClusterReader(fresh.access) as reader:
        names = [fresh.access.topic(which) for which in InternalTopic]
        found = reader.admin.describe_topics(names, 20)
        assert [found[name].partitions for name in names] == [1, 5, 25]
        assert reader.admin.topic_configs(names[0], 20)["cleanup.policy"] == "compact"


def test_more_replicas_than_brokers_are_refused_at_once_and_no_topic_is_made(topics, filled, tmp_path, broker):
    fresh = WrittenCluster(
        broker.bootstrap, tmp_path, more={f"{w}.storage.replication.factor": "1" for w in ("config", "offset")}
    )
    file = tmp_path / "state.json"
    assert topics("export", str(file), "--show-secrets", on=filled)[0] == 0
    code, _, err = topics("import", str(file), "--create-topics", "--yes", "--timeout", ample_text(60), on=fresh)
    assert code == 1
    assert "with 3 replicas (status.storage.replication.factor): the cluster has 1 broker" in err, err
    with ClusterReader(fresh.access) as reader:
        assert reader.admin.describe_topics([fresh.access.topic(which) for which in InternalTopic], 20) == {}


def test_topics_are_created_without_converters_and_a_wrong_setting_is_reported_before_anything_is_asked(
    topics, filled, tmp_path, broker
):
    fresh = WrittenCluster(broker.bootstrap, tmp_path, more={f"{w}.storage.replication.factor": "1" for w in WORDS})
    settings = {key: value for key, value in fresh.worker.items() if not key.endswith(".converter")}
    file, worker = tmp_path / "state.json", tmp_path / "worker.properties"
    assert topics("export", str(file), "--show-secrets", on=filled)[0] == 0
    write_properties(worker, settings | {"offset.storage.partitions": "many"})
    code, _, err = topics("import", str(file), "--create-topics", "--worker", str(worker), on=fresh)
    assert code == 1
    assert "offset.storage.partitions" in err
    assert "?" not in err, "nothing was asked"
    write_properties(worker, settings)
    patiently = ("--yes", "--timeout", ample_text(60))
    code, _, err = topics("import", str(file), "--create-topics", *patiently, "--worker", str(worker), on=fresh)
    assert code == 0, err
    assert configs(fresh).snapshot.configs == configs(filled).snapshot.configs


def test_a_connectors_own_offsets_topic_counts_and_is_written(topics, broker, tmp_path):
    """It wins over the worker's, which Java writes as well."""
    with WrittenCluster(broker.bootstrap, tmp_path) as one, WrittenCluster(broker.bootstrap, tmp_path) as two:
        own, name = f"{one.access.group_id}-own", "src"
        create_topic(broker.bootstrap, own, config={"cleanup.policy": "compact"})
        one.add_connector(name, {**FILE_SOURCE, "offsets.storage.topic": own})
        one.commit_offsets(name, [({"filename": "/1"}, {"position": 1}), ({"filename": "/2"}, {"position": 1})])
        produce_lines(broker.bootstrap, own, [b'{"position":5}'], key=b'["src",{"filename":"/1"}]')
        file = tmp_path / "state.json"
        assert topics("export", str(file), on=one)[0] == 0
        found = json.loads(file.read_text())["offsets"]["src"]["offsets"]
        assert [(item["partition"]["filename"], item["offset"]["position"]) for item in found] == [("/1", 5), ("/2", 1)]
        file.write_text(file.read_text().replace('"position": 5', '"position": 6'))
        code, out, err = topics("import", str(file), "--replace", "--yes", "-o", "json", on=two)
        assert code == 0, err
        written = [(item["topic"], item["key"], item["value"]) for item in json.loads(out) if item["key"][0] == "["]
        workers = two.access.topic(InternalTopic.OFFSET)
        assert written == [
            (own, '["src",{"filename":"/1"}]', '{"position":6}'),
            (own, '["src",{"filename":"/2"}]', '{"position":1}'),
            (workers, '["src",{"filename":"/1"}]', '{"position":6}'),
            (workers, '["src",{"filename":"/2"}]', '{"position":1}'),
        ]


def test_with_exactly_once_each_connector_is_a_transaction(topics, filled, broker, tmp_path):
    with WrittenCluster(broker.bootstrap, tmp_path, more={"exactly.once.source.support": "enabled"}) as strict:
        file = tmp_path / "state.json"
        assert topics("export", str(file), "--show-secrets", "--without-groups", on=filled)[0] == 0
        code, out, err = topics("import", str(file), "--yes", "-o", "json", on=strict)
        assert code == 0, err
        places = [
            item["offset"] for item in json.loads(out) if item["topic"] == strict.access.topic(InternalTopic.CONFIG)
        ]
        gaps = [after - before for before, after in itertools.pairwise(places)]
        assert sorted(set(gaps)) == [1, 2], "a marker stands between the two transactions"
        assert gaps.count(2) == 1
        assert configs(strict).snapshot.configs == configs(filled).snapshot.configs


def test_an_import_while_a_sinks_group_has_members_names_the_way_without_offsets(topics, other, broker, tmp_path):
    name, topic = "live-sink", "live-sink-lines"
    create_topic(broker.bootstrap, topic)
    config = {**SINK, "topics": topic, "name": name}
    offsets = [{"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 0}}]
    document = {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [{"name": name, "target_state": "STARTED", "config": config}],
        "groups": {name: {"group": f"connect-{name}", "offsets": offsets}},
    }
    file = tmp_path / "live.json"
    file.write_text(json.dumps(document))
    with member_of(broker.bootstrap, f"connect-{name}", topic):
        code, _, err = topics("import", str(file), "--yes", on=other)
        assert (code, "still has members" in err) == (4, True), err
        assert "--without-offsets leaves offsets and groups as they are." in err
        code, _, err = topics("import", str(file), "--yes", "--without-offsets", on=other)
        assert code == 0, err
    assert configs(other).snapshot.configs[name] == config
