"""Edits by someone without the rights: the sentence names what is refused, and nothing is written."""

from __future__ import annotations

import io
import sys

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect_cli.app import run
from kit.guarded_broker import add_rules, login_of
from kit.java_connect import write_properties
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

PAUSED = '{"state":"PAUSED","state.v2":"PAUSED"}'
USER = "editor"


def test_what_may_not_be_written_or_described_is_named(broker, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    login = write_properties(tmp_path / "client.properties", login_of(USER))
    with WrittenCluster(broker.bootstrap, tmp_path) as cluster, ClusterReader(cluster.access) as reader:
        cluster.add_connector("src", {"connector.class": "FileStreamSource"})
        end = reader.configs().snapshot.offset
        topic, group = cluster.access.topic(InternalTopic.CONFIG), cluster.access.group_id
        put = ["topics", "config", "put", "target-state-src", PAUSED, "--yes", "--worker", str(cluster.worker_file)]
        put += ["--bootstrap-servers", broker.guarded, "--command-config", str(login)]
        principal, reading = f"User:{USER}", (AclOperation.READ, AclOperation.DESCRIBE)
        add_rules(broker.bootstrap, ResourceType.GROUP, group, principal, *reading)
        add_rules(broker.bootstrap, ResourceType.TOPIC, topic, principal, *reading)
        assert run(put) == 1
        reported = capsys.readouterr().err
        assert f"could not be written to topic {topic}" in reported
        assert f"{principal} lacks WRITE on topic {topic}" in reported
        deny = AclPermissionType.DENY
        add_rules(broker.bootstrap, ResourceType.GROUP, group, principal, AclOperation.DESCRIBE, permission=deny)
        assert run(put) == 1
        reported = capsys.readouterr().err
        assert group in reported
        assert f"{principal} lacks DESCRIBE on group {group}" in reported
        assert reader.configs().snapshot.offset == end
