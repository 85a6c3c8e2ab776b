"""Internal topics on a real broker: created as Java does, checked, refused; rights that are missing."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psutil
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from kconnect.errors import ConfigError, ConnectError, TimedOutError
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.kafka import CompactedLog, InternalTopicSpec, KafkaAdmin, LogSpec, ensure_internal_topic
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs
from kit.freezing import freeze, wake
from kit.pace import ample_s
from kit.places import GOLDEN
from kit.topics import create_topic, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

GOLDEN = {
    case["name"]: case
    for case in json.loads((GOLDEN / "topics/distributed-misc.json").read_text("utf-8"))
    if case["properties"]
}


@pytest.fixture
def admin(broker) -> Iterator[KafkaAdmin]:
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "test") as found:
        yield found


def specs_of(case: str, suffix: str) -> list[InternalTopicSpec]:
    """The topics of a golden case, under names of the test's own."""
    found = internal_topic_specs(DistributedConfig.parse(GOLDEN[case]["properties"]))
    return [replace(spec, topic=f"{spec.topic}-{suffix}") for spec in found]


def explicit_configs(bootstrap: str, topic: str) -> dict[str, str]:
    client = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = client.describe_configs([resource])[resource].result(20)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {entry.name: entry.value for entry in entries.values() if entry.source == own}


@pytest.mark.parametrize("case", ["topic-defaults-rf1", "topic-settings-ok"])
def test_topics_are_created_just_as_java_created_them(broker, admin, request, case):
    suffix = topic_for(request)
    for spec in specs_of(case, suffix):
        assert ensure_internal_topic(admin, spec) is True
        assert ensure_internal_topic(admin, spec) is False, "now it is there, and fits"
        java = GOLDEN[case]["topics"][spec.topic.removesuffix(f"-{suffix}")]
        assert admin.describe_topics([spec.topic], 20)[spec.topic].partitions == java["partitions"]
        assert explicit_configs(broker.bootstrap, spec.topic) == java["explicit_configs"]


def test_replicas_and_partitions_can_be_left_to_the_broker(admin, request):
    config, *_ = specs_of("topic-defaults-rf1", topic_for(request))
    spec = replace(config, replication_factor=-1, partitions=-1)
    assert [ensure_internal_topic(admin, spec), ensure_internal_topic(admin, spec)] == [True, False]
    made = admin.describe_topics([config.topic], 20)[config.topic]
    assert (made.partitions, made.replication_factor) == (1, 1)


def test_a_setting_the_broker_does_not_know_ends_with_its_words(admin, request, caplog):
    config, offsets, _ = specs_of("topic-settings", topic_for(request))
    with pytest.raises(ConnectError) as refused:
        ensure_internal_topic(admin, offsets)
    assert (
        str(refused.value) == f"Unable to create topic(s) '{offsets.topic}': Unknown topic config name: bogus.setting"
    )
    assert refused.value.hint == "Correct the worker's settings that begin with offset.storage."
    ensure_internal_topic(admin, config)
    warned = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    assert warned[:2] == list(config.ignored)
    assert len(config.ignored) == 2


@pytest.mark.parametrize(
    ("case", "position", "settings", "partitions"),
    [
        ("config-topic-delete-policy", 0, {"cleanup.policy": "delete"}, 1),
        ("config-topic-two-partitions", 0, {"cleanup.policy": "compact"}, 2),
        ("offset-topic-compact-delete", 1, {"cleanup.policy": "compact,delete"}, 25),
        ("status-topic-delete-policy", 2, {}, 5),
    ],
)
def test_a_topic_that_does_not_fit_is_refused_as_java_does(
    broker, admin, request, case, position, settings, partitions
):
    suffix = topic_for(request).replace(" ", "")
    spec = specs_of(case, suffix)[position]
    create_topic(broker.bootstrap, spec.topic, partitions=partitions, config=settings)
    with pytest.raises(ConfigError) as refused:
        ensure_internal_topic(admin, spec)
    said = next(line for line in GOLDEN[case]["error_lines"] if line.startswith("org.apache.kafka.common.config"))
    assert str(refused.value).replace(f"-{suffix}", "") == said.partition(": ")[2]
    group = ("config", "offsets", "status")[position]
    repair = f"`connect topics {group} repair --worker FILE` sets it on the topic."
    assert refused.value.hint == (None if partitions == 2 else repair)
    assert refused.value.problems[0].key == spec.setting


def test_while_replicas_can_not_be_placed_it_is_tried_again_and_reported_once(admin, request, caplog):
    caplog.set_level(logging.INFO)
    config, *_ = specs_of("topic-defaults", topic_for(request))
    assert config.replication_factor == 3
    within_s = min(ample_s(0.25), 8.0)  # the broker has to answer in it; longer, and it would be reported twice
    message = rf"within {re.escape(f'{within_s:g}')} s \(default\.api\.timeout\.ms\).*replication factor"
    began = time.monotonic()
    with pytest.raises(TimedOutError, match=message) as late:
        ensure_internal_topic(admin, replace(config, timeout_s=within_s))
    assert time.monotonic() - began > within_s - 0.2, "all but the last pause between two tries"
    assert "config.storage.replication.factor" in (late.value.hint or "")
    assert sum("cannot be created yet" in line.getMessage() for line in caplog.records) == 1


def test_a_refusal_is_reported_also_when_the_last_try_is_not_answered(own_broker, request, caplog):
    caplog.set_level(logging.INFO)
    config, *_ = specs_of("topic-defaults", topic_for(request))
    spec = replace(config, timeout_s=ample_s(0.5), request_timeout_s=ample_s(0.2))
    assert own_broker.pid is not None
    broker = psutil.Process(own_broker.pid)
    with KafkaAdmin({"bootstrap.servers": own_broker.bootstrap}, "test") as admin, ThreadPoolExecutor(1) as pool:
        creating = pool.submit(ensure_internal_topic, admin, spec)
        eventually(lambda: "cannot be created yet" in caplog.text, 20, "it was refused once")
        freeze([broker])
        try:
            error = creating.exception(timeout=ample_s(20))
        finally:
            wake([broker])
    assert type(error) is TimedOutError
    assert "replication factor" in str(error)
    assert "Start more brokers" in (error.hint or "")


def test_a_deadline_names_its_setting_when_no_broker_answers():
    spec = InternalTopicSpec(
        topic="t", setting="config.storage.topic", purpose="p", partitions=1, replication_factor=1, timeout_s=0.5
    )
    with (
        KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}, "test") as admin,
        pytest.raises(TimedOutError, match=r"'t' \(config\.storage\.topic\).* 0\.5 s \(default\.api\.timeout\.ms\)"),
    ):
        ensure_internal_topic(admin, spec)


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.describe_topics(["t"], 0.5),
        lambda admin: admin.topic_configs("t", 0.5),
    ],
)
def test_a_request_that_is_not_answered_names_the_setting_of_its_time(ask):
    with (
        KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}, "test", timeout_setting="--timeout") as admin,
        pytest.raises(TimedOutError, match=r"no answer within 0\.5 s \(--timeout\)"),
    ):
        ask(admin)


def test_a_log_can_be_started_on_a_topic_made_a_moment_ago(broker, admin, request):
    client = {"bootstrap.servers": broker.bootstrap}
    _, offsets, _ = specs_of("topic-defaults-rf1", topic_for(request))
    ensure_internal_topic(admin, offsets)
    log = CompactedLog(LogSpec(topic=offsets.topic, consumer=client), admin)
    log.start(lambda record: None)
    assert log.partition_count == 25
    log.stop()
