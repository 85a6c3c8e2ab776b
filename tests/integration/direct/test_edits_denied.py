"""Edits by someone without the rights: the sentence names what is refused, and nothing is written."""

from __future__ import annotations

import io
import sys

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kconnect.direct.access import InternalTopic
from kconnect.direct.read.reader import ClusterReader
from kconnect_cli.app import run
from kit.brokers import PatientBroker
from kit.guarded_broker import AUTHORIZER, add_rules
from kit.ports import free_port
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

PAUSED = '{"state":"PAUSED","state.v2":"PAUSED"}'


@pytest.fixture
def guarded(tmp_path):
    settings = {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with PatientBroker(free_port(), tmp_path / "guarded", settings=settings) as broker:
        yield broker


def only_allow(broker, kind, name, principal):
    """Reading, by this principal: a resource with one rule is closed for all the rest."""
    add_rules(broker.bootstrap, kind, name, principal, AclOperation.READ)


def test_what_may_not_be_written_or_described_is_named(guarded, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with WrittenCluster(guarded.bootstrap, tmp_path) as cluster, ClusterReader(cluster.access) as reader:
        cluster.add_connector("src", {"connector.class": "FileStreamSource"})
        end = reader.configs().snapshot.offset
        topic, group = cluster.access.topic(InternalTopic.CONFIG), cluster.access.group_id
        put = ["topics", "config", "put", "target-state-src", PAUSED, "--yes", "--worker", str(cluster.worker_file)]
        only_allow(guarded, ResourceType.TOPIC, topic, "User:ANONYMOUS")
        assert run(put) == 1
        told = capsys.readouterr().err
        assert f"could not be written to topic {topic}" in told
        assert "rights on this topic" in told
        only_allow(guarded, ResourceType.GROUP, group, "User:worker")
        assert run(put) == 1
        told = capsys.readouterr().err
        assert group in told
        assert "rights on this consumer group" in told
        assert reader.configs().snapshot.offset == end
