"""Why a topic cannot serve: Java's sentences, from what Java 4.3 said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.kafka.internal_topics import cleanup_refusal, partitions_refusal
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs
from kit.places import GOLDEN

GOLDEN = {
    case["name"]: case
    for case in json.loads((GOLDEN / "topics/distributed-misc.json").read_text("utf-8"))
    if case["properties"]
}
BASE = {
    "bootstrap.servers": "127.0.0.1:9092",
    "group.id": "g",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}


def specs(**settings: str):
    return internal_topic_specs(
        DistributedConfig.parse(BASE | {key.replace("_", "."): value for key, value in settings.items()})
    )


def said_by_java(case: str) -> str:
    lead = "org.apache.kafka.common.config.ConfigException: "
    return next(line.removeprefix(lead) for line in GOLDEN[case]["error_lines"] if line.startswith(lead))


@pytest.mark.parametrize(
    ("case", "kind", "policy"),
    [
        ("config-topic-delete-policy", "config", "delete"),
        ("offset-topic-compact-delete", "offsets", "compact,delete"),
        ("offset-topic-compact-delete", "offsets", " DELETE , compact"),
        ("status-topic-delete-policy", "status", "delete"),
    ],
)
def test_another_cleanup_policy_is_refused_in_javas_words(case, kind, policy):
    found = internal_topic_specs(DistributedConfig.parse(GOLDEN[case]["properties"]))
    assert cleanup_refusal(getattr(found, kind), policy) == said_by_java(case)


@pytest.mark.parametrize("policy", ["compact", " Compact ", "compact,compact", ""])
def test_compact_is_taken_and_so_is_what_can_not_be_known(policy):
    assert cleanup_refusal(specs().config, policy) is None


def test_a_config_topic_of_two_partitions_is_refused_in_javas_words():
    case = "config-topic-two-partitions"
    found = internal_topic_specs(DistributedConfig.parse(GOLDEN[case]["properties"]))
    assert partitions_refusal(found.config, 2) == said_by_java(case)
    assert partitions_refusal(found.config, 1) is None


def test_the_other_topics_may_have_any_number_of_partitions():
    assert partitions_refusal(specs().offsets, 7) is None
    assert partitions_refusal(specs().status, 1) is None


def test_javas_defaults_are_1_25_and_5_partitions_three_times_replicated():
    found = specs()
    assert [(spec.topic, spec.partitions, spec.replication_factor, spec.all_configs) for spec in found] == [
        ("configs", 1, 3, {"cleanup.policy": "compact"}),
        ("offsets", 25, 3, {"cleanup.policy": "compact"}),
        ("statuses", 5, 3, {"cleanup.policy": "compact"}),
    ]


def test_extra_settings_go_to_the_topic_of_their_prefix():
    found = internal_topic_specs(DistributedConfig.parse(GOLDEN["topic-settings-ok"]["properties"]))
    made = GOLDEN["topic-settings-ok"]["topics"]
    for spec in found:
        assert spec.all_configs == made[spec.topic]["explicit_configs"]
        assert spec.partitions == made[spec.topic]["partitions"]
        assert spec.ignored == ()


def test_settings_without_effect_are_reported_in_javas_words():
    found = internal_topic_specs(DistributedConfig.parse(GOLDEN["topic-settings"]["properties"]))
    assert found.config.ignored == (
        "Ignoring 'config.storage.partitions=3' setting, since config topic partitions is always 1",
        "Ignoring 'config.storage.cleanup.policy=delete' setting, since compaction is always used",
    )
    assert found.config.partitions == 1
    assert found.config.all_configs["cleanup.policy"] == "compact"
    assert found.offsets.configs == {"segment.bytes": "1048576", "bogus.setting": "x"}


def test_deadline_and_pause_come_from_the_clients_settings():
    found = specs(default_api_timeout_ms="5000", retry_backoff_ms="250").config
    assert (found.timeout_s, found.backoff_s) == (5.0, 0.25)
    assert (specs().config.timeout_s, specs().config.backoff_s) == (60.0, 0.1)
    with pytest.raises(ConfigError, match=r"Invalid value soon for configuration default\.api\.timeout\.ms"):
        specs(default_api_timeout_ms="soon")


def test_a_connectors_own_offsets_topic_is_the_workers_under_another_name():
    own = replace(specs(offset_storage_partitions="7").offsets, topic="own-offsets")
    assert (own.topic, own.partitions, own.purpose) == ("own-offsets", 7, "source connector offsets")
