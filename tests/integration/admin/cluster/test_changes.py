"""What all Changes of a cluster keep to, for commands and pages alike.

Over a Java worker's REST API, and on the topics of a cluster without workers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from kconnect.admin.cluster.port import Changes
from kconnect.admin.cluster.rest_changes import RestChanges
from kconnect.admin.cluster.topic_changes import TopicChanges
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.client import DirectClient
from kconnect.client import ConnectClient
from kconnect.errors import AlreadyExistsError, BadRequestError, ConnectError, NotFoundError
from kconnect.java.compat.properties import read_properties
from kconnect.model import ConnectorOffset, ConnectorType, TargetState, TaskId
from kit.java_cluster import JavaCluster
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

WITHIN_S = 30


@dataclass
class World:
    """A cluster, and who reads and changes its connectors."""

    admin: Changes
    reader: ConnectClient | DirectClient
    access: ClusterAccess
    create: Callable[[str], None]
    """Makes a running source with one committed offset."""
    config: Mapping[str, str]
    """What a source may be created with."""
    has_worker: bool
    takes_offsets: bool
    """Whether a connector can be created with its offsets; Java's workers do not know them."""

    def target_state(self, name: str) -> TargetState | None:
        """As the config topic has it, whoever wrote it."""
        direct = DirectClient(self.access)
        try:
            return direct.configs.snapshot.target_state(name)
        finally:
            direct.close()

    def offsets(self, name: str) -> list[ConnectorOffset]:
        return list(self.reader.connector_offsets(name))


@pytest.fixture(scope="module", params=[pytest.param("rest", marks=pytest.mark.java), "topics"])
def world(request, broker, tmp_path_factory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp(request.param)
    yield from (over_rest if request.param == "rest" else on_topics)(broker, folder)


def over_rest(broker, folder):
    cluster = JavaCluster(broker, folder)
    with cluster.java, ConnectClient(cluster.java.url, retry_conflicts_s=10) as client:

        def create(name):
            cluster.create(name, cluster.source())
            eventually(lambda: client.connector_offsets(name), WITHIN_S, f"{name} has committed")

        access = ClusterAccess(read_properties(cluster.file))
        yield World(
            RestChanges(lambda: client), client, access, create, cluster.source(), takes_offsets=False, has_worker=True
        )


def on_topics(broker, folder):
    source = {"connector.class": "FileStreamSource", "file": "/in", "topic": "t"}
    with WrittenCluster(broker.bootstrap, folder) as cluster:
        client = DirectClient(cluster.access)

        def create(name):
            cluster.add_connector(name, source, [source])
            cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
            client.forget()

        yield World(TopicChanges(client), client, cluster.access, create, source, False, takes_offsets=True)
        client.close()


@pytest.fixture
def name(world):
    found = f"src-{uuid.uuid4().hex[:6]}"
    world.create(found)
    return found


def stop(world, name):
    """Ends its tasks as well: statuses of a cluster without workers say they run until somebody writes others."""
    world.admin.stop(name).make()
    eventually(lambda: not world.reader.connector_status(name).tasks, WITHIN_S, f"{name} has no tasks")


def test_a_reader_tells_of_connectors(world, name):
    assert name in world.reader.connectors()
    assert world.reader.connector(name).type is ConnectorType.SOURCE
    assert world.reader.connector_infos()[name] == world.reader.connector(name)
    assert world.reader.connector_status(name).name == name
    assert name in world.reader.connector_statuses()
    with pytest.raises(NotFoundError):
        world.reader.connector("no-such")


def test_what_is_created_has_the_config_and_the_state_it_was_given(world):
    name = f"new-{uuid.uuid4().hex[:6]}"
    config = {**world.config, "name": name}
    change = world.admin.create(name, config, TargetState.STOPPED)
    change.check()
    assert world.target_state(name) is None
    assert change.make()[-1] == f"created {name}"
    assert world.target_state(name) is TargetState.STOPPED
    assert world.reader.connector(name).config == config
    assert world.offsets(name) == []
    with pytest.raises(AlreadyExistsError, match=f"Connector {name} already exists"):
        world.admin.create(name, config).make()
    assert world.target_state(name) is TargetState.STOPPED


def test_first_offsets_are_there_with_the_connector_or_there_is_none(world):
    name = f"new-{uuid.uuid4().hex[:6]}"
    config, partition = {**world.config, "name": name}, {"filename": world.config["file"]}
    first = [ConnectorOffset(partition, {"position": 3})]
    if not world.takes_offsets:
        with pytest.raises(ConnectError):
            world.admin.create(name, config, TargetState.STOPPED, first).make()
        assert world.target_state(name) is None
        return
    wrong = [ConnectorOffset(partition, {"position": -1})]
    with pytest.raises(ConnectError, match="non-negative"):
        world.admin.create(name, config, TargetState.STOPPED, wrong).make()
    assert world.target_state(name) is None
    world.admin.create(name, config, TargetState.STOPPED, first).make()
    assert world.offsets(name) == first


def test_what_is_prepared_is_not_written(world, name):
    before = world.target_state(name)
    change = world.admin.pause(name)
    change.description()
    change.check()
    assert world.target_state(name) == before
    assert not change.is_empty


def test_pause_resume_and_stop_set_the_target_state(world, name):
    for act, done, wanted in (
        (world.admin.pause, "paused", TargetState.PAUSED),
        (world.admin.resume, "resumed", TargetState.STARTED),
        (world.admin.stop, "stopped", TargetState.STOPPED),
    ):
        assert act(name).make()[-1] == f"{done} {name}"
        assert world.target_state(name) is wanted


def test_delete_asks_and_takes_the_connector_away(world, name):
    change = world.admin.delete(name)
    assert change.needs_consent
    assert change.make()[-1] == f"deleted {name}"
    assert world.target_state(name) is None


def test_what_only_a_worker_can_do_is_done_by_it_or_refused_before_anything_is_asked(world, name):
    config = {**world.reader.connector(name).config, "topic": "another"}
    actions = [
        (lambda: world.admin.put_config(name, config), f"updated {name}"),
        (lambda: world.admin.restart(name, include_tasks=True), f"restarted {name}: the connector and task 0"),
        (
            lambda: world.admin.restart(name, only_failed=True),
            f"restarted nothing of {name}: the connector itself has not FAILED",
        ),
        (lambda: world.admin.restart_task(TaskId(name, 0)), f"restarted {name} task 0"),
    ]
    for prepare, done in actions:
        if world.has_worker:
            eventually(lambda: world.reader.connector_status(name).tasks, WITHIN_S, f"{name} has a task")
            assert list(prepare().make()) == [done]
        else:
            with pytest.raises(BadRequestError, match="Only a worker can do that"):
                prepare()
    assert (world.reader.connector(name).config == config) is world.has_worker


def test_a_change_says_what_it_writes_where_nobody_else_decides_that(world, name):
    message = "\n".join(world.admin.stop(name).description())
    assert ("target-state" in message) is not world.has_worker
    assert bool(message) is not world.has_worker


def test_one_that_is_not_there_cannot_be_changed(world):
    for act in (world.admin.pause, world.admin.stop, world.admin.delete, world.admin.reset_offsets):
        with pytest.raises(NotFoundError):
            act("no-such").make()


def test_offsets_of_a_stopped_connector_are_altered_and_reset(world, name):
    stop(world, name)
    (found,) = world.offsets(name)
    altered = ConnectorOffset(found.partition, {"position": 3})
    change = world.admin.alter_offsets(name, [altered])
    assert change.needs_consent
    assert "3" in "\n".join(change.description())
    assert world.offsets(name) == [found]
    assert change.make()[-1].startswith(f"{name}: ")
    assert world.offsets(name) == [altered]

    world.admin.alter_offsets(name, [ConnectorOffset(found.partition, None)]).make()
    eventually(lambda: world.offsets(name) == [], WITHIN_S, "Java, which shows null for a moment, has forgotten it")


def test_reset_forgets_all_offsets(world, name):
    stop(world, name)
    assert world.offsets(name)
    world.admin.reset_offsets(name).make()
    eventually(lambda: world.offsets(name) == [], WITHIN_S, "Java, which shows null for a moment, has forgotten them")
