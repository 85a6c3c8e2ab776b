"""An internal topic that the worker may not create: it is waited for, named, and in the end refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import ConnectError, NotFoundError
from kconnect.runtime.kafka.admin import TopicInfo
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec, TopicWait, ensure_internal_topic


class GuardedAdmin:
    """A broker where nobody may create a topic, and that has it from the n-th look on."""

    def __init__(self, from_look: int | None) -> None:
        self.looks = 0
        self._from_look = from_look

    def create_topic(self, _topic: TopicInfo, _timeout_s: float) -> None:
        error = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        raise ConnectError("'o' cannot be created: User:w lacks CREATE.", hint="Grant it: kafka-acls ..") from error

    def topic_configs(self, name: str, _timeout_s: float) -> dict[str, str]:
        self.looks += 1
        if self._from_look is None or self.looks < self._from_look:
            raise NotFoundError(f"{name} does not exist")
        return {"cleanup.policy": "compact"}

    def describe_topics(self, names: list[str], _timeout_s: float) -> dict[str, TopicInfo]:
        return {name: TopicInfo(name, 1, 1) for name in names}


def ensure(admin: Any, timeout_s: float, wait: TopicWait | None = None) -> bool:
    spec = InternalTopicSpec(
        topic="o",
        setting="offset.storage.topic",
        purpose="offsets",
        partitions=1,
        replication_factor=1,
        timeout_s=timeout_s,
        backoff_s=0.001,
    )
    return ensure_internal_topic(admin, spec, wait)


def test_it_says_at_once_which_right_lacks_and_goes_on_once_somebody_made_the_topic(caplog):
    asked: list[str] = []

    @contextmanager
    def telling(sentence: str) -> Iterator[None]:
        asked.append(sentence)
        yield

    admin = GuardedAdmin(from_look=3)
    assert ensure(admin, 60, TopicWait(telling=telling)) is False
    missing = (
        "The topic of offset.storage.topic does not exist yet: 'o' cannot be created: User:w lacks CREATE. Grant it: "
        "kafka-acls"
    )
    assert asked == [missing]
    assert [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING] == [missing]


def test_it_ends_with_the_right_that_lacks():
    with pytest.raises(
        ConnectError, match=r"^offset\.storage\.topic: 'o' cannot be created: User:w lacks CREATE"
    ) as raised:
        ensure(GuardedAdmin(from_look=None), 0.01)
    assert raised.value.hint == "Grant it: kafka-acls .."


def test_a_stop_ends_the_wait():
    wait = TopicWait()
    wait.stop.set()
    with pytest.raises(ConnectError, match="was stopped while it waited for topic o"):
        ensure(GuardedAdmin(from_look=None), 60, wait)
