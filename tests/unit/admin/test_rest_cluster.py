"""What is read of a connector while the worker's answer for it alone does not come."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kconnect.admin.cluster.rest_cluster import RestCluster, WorkerKind
from kconnect.errors import NotFoundError, TimedOutError, UnreachableError
from kconnect.model import ConnectorInfo, ConnectorType

INFOS = {name: ConnectorInfo(name, {"name": name}, (), ConnectorType.SINK) for name in ("a", "b")}
LATE = TimedOutError("http://w1:8083 did not answer GET /connectors/a within 4 s")


class HeldUpClient(SimpleNamespace):
    """Answers for all connectors, and for one only once it is no longer `late`."""

    url = "http://w1:8083"
    outage = None

    def __init__(self, late=LATE, infos=INFOS):
        super().__init__(late=late, infos=infos, asked=[])

    def connector(self, name):
        return self.tagged_connector(name)[0]

    def tagged_connector(self, name):
        self.asked.append(name)
        if self.late is not None:
            raise self.late
        return INFOS[name], '"etag"'

    def connector_infos(self):
        self.asked.append("all")
        if isinstance(self.infos, Exception):
            raise self.infos
        return self.infos


def cluster_of(client):
    return RestCluster(client, WorkerKind(is_ours=False))


def test_a_held_up_worker_gives_the_config_that_it_has_in_memory_and_the_cluster_says_so():
    client = HeldUpClient()
    cluster = cluster_of(client)
    assert cluster.connector("a") == INFOS["a"]
    assert cluster.held_up == f"{LATE}: its config is shown as the worker has it in memory"
    assert cluster.tagged_connector("b")[0] == INFOS["b"]
    assert client.asked == ["a", "all"]  # each late answer would cost its time


def test_a_worker_that_answers_is_not_held_up():
    cluster = cluster_of(HeldUpClient(late=None))
    assert cluster.tagged_connector("a") == (INFOS["a"], '"etag"')
    assert cluster.held_up is None


def test_once_the_worker_answers_again_nothing_is_from_memory():
    now_s = [100.0]
    client = HeldUpClient()
    cluster = RestCluster(client, WorkerKind(is_ours=False), monotonic=lambda: now_s[0])
    cluster.connector("a")
    now_s[0], client.late = 105.0, None
    assert cluster.tagged_connector("a")[1] == '"etag"'
    assert cluster.held_up is None


def test_a_worker_that_answers_for_none_of_them_is_late_for_the_one():
    cluster = cluster_of(HeldUpClient(infos=UnreachableError("gone")))
    with pytest.raises(TimedOutError, match="within 4 s"):
        cluster.connector("a")
    assert cluster.held_up is None


def test_a_connector_that_a_held_up_worker_does_not_know_is_not_found():
    with pytest.raises(NotFoundError, match="Connector c not found"):
        cluster_of(HeldUpClient()).connector("c")
