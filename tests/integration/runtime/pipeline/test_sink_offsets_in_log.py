"""Offsets of a sink at which nothing can be read: refused by commands that see the brokers, reported by the worker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.offsets.changes import check_readable
from kconnect.builtin.connectors.file_sink import FileStreamSinkConnector
from kconnect.errors import BadRequestError
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType, TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.offsets_admin import STARTS_OVER, OffsetsAdmin
from kconnect.runtime.kafka.admin import cluster_id
from kconnect.runtime.storage import MemoryOffsetStore
from kit.topics import create_topic

pytestmark = pytest.mark.broker

_WITHIN_S = 60.0


@pytest.fixture
def log(broker, topic):
    """A topic of two partitions: records 3 to 9 in the first one, none in the second."""
    name = f"{topic}-log"
    create_topic(broker.bootstrap, name, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(name, str(number), partition=0)
    assert producer.flush(_WITHIN_S) == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([ClientPartition(name, 0, 3)]).values():
        future.result(_WITHIN_S)
    return name


def item(topic: str, partition: int, offset: int | None) -> ConnectorOffset:
    at: Mapping[str, object] = {"kafka_topic": topic, "kafka_partition": partition}
    return ConnectorOffset(dict(at), None if offset is None else {"kafka_offset": offset})


CASES = [
    (0, 10, None),
    (0, 3, None),
    (1, 0, None),
    (0, None, None),
    (0, 11, "offset 11 of {log}-0 is beyond its end, 10"),
    (0, 2, "offset 2 of {log}-0 is before its first record, 3"),
    (1, 1, "offset 1 of {log}-1 is beyond its end, 0"),
    (7, 0, "topic {log} has no partition 7: it has 2 partitions, numbered from 0"),
]


@pytest.mark.parametrize(("partition", "offset", "reported"), CASES[:-1])
def test_the_worker_writes_what_it_is_reported_and_warns_where_nothing_can_be_read(
    broker, log, partition, offset, reported
):
    groups = kafka_group_offsets({"bootstrap.servers": broker.bootstrap}, _WITHIN_S, timeout_setting="t")
    config = {"name": log, "topics": log, "connector.class": "FileStreamSink"}
    admin = OffsetsAdmin(MemoryOffsetStore(), groups, _WITHIN_S)
    with groups(config) as found:
        found.alter_offsets(f"connect-{log}", {TopicPartition(log, 0): 5})
    wanted = [item(log, partition, offset)]
    message = admin.alter(log, ConnectorType.SINK, config, wanted, FileStreamSinkConnector)
    assert "altered successfully" in message
    warning = message.partition(" WARNING: ")[2]
    assert warning == ("" if reported is None else f"{reported.format(log=log)}. {STARTS_OVER}")
    with groups(config) as found:
        assert found.list_offsets(f"connect-{log}").get(TopicPartition(log, partition)) == offset


def test_the_worker_refuses_a_partition_that_does_not_exist_as_the_broker_does(broker, log):
    groups = kafka_group_offsets({"bootstrap.servers": broker.bootstrap}, _WITHIN_S, timeout_setting="t")
    config = {"name": log, "topics": log, "connector.class": "FileStreamSink"}
    admin = OffsetsAdmin(MemoryOffsetStore(), groups, _WITHIN_S)
    with pytest.raises(BadRequestError, match="Unknown topic or partition"):
        admin.alter(log, ConnectorType.SINK, config, [item(log, 7, 0)], FileStreamSinkConnector)


@pytest.mark.parametrize(("partition", "offset", "reported"), CASES)
def test_a_command_that_sees_the_brokers_refuses_it_beforehand(broker, log, partition, offset, reported):
    access = ClusterAccess({"bootstrap.servers": broker.bootstrap}, _WITHIN_S)
    info = ConnectorInfo("s", {"name": "s", "topics": log}, (), ConnectorType.SINK)
    here = cluster_id({"bootstrap.servers": broker.bootstrap}, _WITHIN_S)
    if reported is None:
        assert check_readable(access, info, [item(log, partition, offset)], here) is None
        return
    with pytest.raises(BadRequestError) as refused:
        check_readable(access, info, [item(log, partition, offset)], here)
    assert str(refused.value) == f"Connector s: {reported.format(log=log)}"
    assert "--force writes it all the same." in (refused.value.hint or "")


def test_brokers_of_another_cluster_than_the_workers_are_not_asked(broker, log):
    access = ClusterAccess({"bootstrap.servers": broker.bootstrap}, _WITHIN_S)
    info = ConnectorInfo("s", {"name": "s", "topics": log}, (), ConnectorType.SINK)
    why = check_readable(access, info, [item(log, 0, 99)], "another-id")
    assert why is not None
    assert "is another Kafka cluster" in why
