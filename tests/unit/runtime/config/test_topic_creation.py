"""topic.creation.* settings: which group a topic belongs to, and what it gets. Source: TopicCreationConfigTest."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.topic_creation import TopicGroup, topic_groups

DEFAULT = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "3"}


def group_of(topic: str, props: dict[str, str]) -> TopicGroup:
    groups = topic_groups(props)
    return next((group for group in groups if group.matches(topic)), groups[-1])


def test_a_connector_without_such_settings_has_no_groups() -> None:
    assert topic_groups({"name": "c", "topic": "t"}) == ()


def test_the_default_group_gives_its_numbers_and_every_other_key_to_the_topic() -> None:
    props = DEFAULT | {"topic.creation.default.cleanup.policy": "compact", "topic.creation.default.retention.ms": "9"}
    assert topic_groups(props) == (
        TopicGroup("default", ".*", "", 3, 1, {"cleanup.policy": "compact", "retention.ms": "9"}),
    )


def test_groups_are_in_the_order_named_and_take_numbers_they_do_not_give_from_the_default() -> None:
    props = DEFAULT | {
        "topic.creation.groups": "logs, orders, default",
        "topic.creation.logs.include": r"log-.*, .*\.log",
        "topic.creation.logs.exclude": "log-secret",
        "topic.creation.orders.include": ".*orders",
        "topic.creation.orders.partitions": "-1",
        "topic.creation.orders.max.message.bytes": "1000",
    }
    assert [group.name for group in topic_groups(props)] == ["logs", "orders", "default"]
    found = {
        topic: group_of(topic, props).name
        for topic in ("log-a", "a.log", "log-secret", "log-orders", "orders", "orders2")
    }
    assert found == {
        "log-a": "logs",
        "a.log": "logs",
        "log-secret": "default",
        "log-orders": "logs",
        "orders": "orders",
        "orders2": "default",
    }
    assert group_of("orders", props) == TopicGroup("orders", ".*orders", "", -1, 1, {"max.message.bytes": "1000"})


def test_patterns_of_the_default_group_are_ignored_and_a_group_without_patterns_takes_nothing() -> None:
    props = DEFAULT | {
        "topic.creation.groups": "none",
        "topic.creation.default.include": "only-this",
        "topic.creation.default.exclude": ".*",
    }
    assert group_of("other", props).name == "default"
    assert topic_groups(props)[-1].include == ".*"
    assert topic_groups(props)[-1].configs == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"topic.creation.default.partitions": None},
            'Missing required configuration "topic.creation.default.partitions" which has no default value.',
        ),
        (
            {"topic.creation.default.partitions": "0"},
            "Invalid value 0 for configuration partitions: "
            "Number of partitions must be positive, or -1 to use the broker's default",
        ),
        (
            {"topic.creation.default.replication.factor": "x"},
            "Invalid value x for configuration topic.creation.default.replication.factor: Not a number of type SHORT",
        ),
        (
            {"topic.creation.groups": "a", "topic.creation.a.include": "["},
            "Invalid value [[] for configuration include: Syntax error in regular expression: "
            "Unclosed character class near index 0\n[\n^",
        ),
    ],
)
def test_a_wrong_setting_is_reported_with_javas_words(change: dict[str, str | None], message: str) -> None:
    props = {name: value for name, value in (DEFAULT | change).items() if value is not None}
    with pytest.raises(ConfigError) as raised:
        topic_groups(props)
    assert str(raised.value) == message
