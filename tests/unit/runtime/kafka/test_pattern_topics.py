"""When the topics of a pattern are looked for, and what is said of them."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import consumer_additions
from kconnect.runtime.kafka.consumer_additions import PatternTopics


class Cluster:
    """Lists its topics, or fails; and the time, which passes as a test says."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.now_s = 100.0
        self.takes_s = 0.0
        self.error: KafkaError | None = None
        self.waits: list[float] = []

    def list_topics(self, timeout_s: float) -> Any:
        self.waits.append(timeout_s)
        self.now_s += self.takes_s
        if self.error is not None:
            raise KafkaException(self.error)
        return SimpleNamespace(topics=dict.fromkeys(self.topics))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(consumer_additions, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


def watch(cluster: Cluster, every_s: float | None = None) -> PatternTopics:
    return PatternTopics(TopicPattern("a.*"), cluster.list_topics, every_s, "Consumer of a-0")


def test_topics_are_reported_when_they_change_and_looked_for_every_few_seconds(cluster: Cluster) -> None:
    watched, errors = watch(cluster), []
    cluster.topics = ["b", "a2", "a1"]
    assert watched.look_if_due(errors.append) == ["a1", "a2"]
    cluster.topics.append("a3")
    assert watched.look_if_due(errors.append) is None
    cluster.now_s += 3
    assert watched.look_if_due(errors.append) == ["a1", "a2", "a3"]
    cluster.now_s += 3
    assert watched.look_if_due(errors.append) is None
    cluster.topics = []
    cluster.now_s += 3
    assert watched.look_if_due(errors.append) == []
    assert len(cluster.waits) == 4
    assert errors == []


def test_metadata_max_age_is_how_often(cluster: Cluster) -> None:
    watched = watch(cluster, every_s=300.0)
    assert watched.look_if_due(pytest.fail) == []
    cluster.now_s += 299
    assert watched.look_if_due(pytest.fail) is None
    assert len(cluster.waits) == 1
    cluster.now_s += 1
    watched.look_if_due(pytest.fail)
    assert len(cluster.waits) == 2


def test_a_look_that_takes_long_is_made_rarely(cluster: Cluster) -> None:
    watched = watch(cluster)
    cluster.takes_s = 0.2
    watched.look_if_due(pytest.fail)
    cluster.now_s += 19
    watched.look_if_due(pytest.fail)
    assert len(cluster.waits) == 1
    cluster.now_s += 1.1
    watched.look_if_due(pytest.fail)
    assert len(cluster.waits) == 2


def test_brokers_that_are_away_are_given_more_time_and_asked_again(cluster: Cluster) -> None:
    watched, errors = watch(cluster, every_s=300.0), []
    cluster.error = KafkaError(KafkaError._TRANSPORT)
    for _ in range(5):
        assert watched.look_if_due(errors.append) is None
        cluster.now_s += 3
    assert cluster.waits == [1, 2, 4, 8, 8]
    assert [error.code() for error in errors] == [KafkaError._TRANSPORT] * 5
    cluster.error, cluster.topics = None, ["a"]
    assert watched.look_if_due(errors.append) == ["a"]


def test_a_pattern_without_topics_is_warned_of(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = watch(cluster)
    watched.look_if_due(pytest.fail)
    cluster.topics = ["a", "a1"]
    cluster.now_s += 3
    watched.look_if_due(pytest.fail)
    cluster.topics = ["a"]
    cluster.now_s += 3
    watched.look_if_due(pytest.fail)
    assert [record.getMessage() for record in caplog.records] == [
        "Consumer of a-0 reads no topic: none matches topics.regex=a.*. It looks again every 3 s.",
        "Consumer of a-0 reads a, a1, by topics.regex=a.*",
        "Consumer of a-0 no longer reads a1, by topics.regex=a.*",
    ]
