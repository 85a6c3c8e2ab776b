from __future__ import annotations

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.errors import ConfigError

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
WORKER = {"bootstrap.servers": "b:1", "group.id": "g", "config.storage.topic": "c", "sasl.jaas.config": "secret"}


def test_a_topic_that_was_not_named_is_asked_for_by_setting_and_flag():
    with pytest.raises(ConfigError, match=r"offset\.storage\.topic") as caught:
        ClusterAccess(WORKER).topic(InternalTopic.OFFSET)
    assert "--offset-topic" in caught.value.hint


def test_clients_say_for_which_topic_they_are():
    clients = ClusterAccess({**WORKER, "sasl.jaas.config": PLAIN}).clients(InternalTopic.STATUS)
    assert clients.consumer["client.id"] == "g-statuses-direct"
    assert clients.producer["bootstrap.servers"] == "b:1"


def test_clients_need_brokers():
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        ClusterAccess({"group.id": "g"}).clients()


@pytest.mark.parametrize(("given", "expected"), [("enabled", True), ("preparing", True), ("disabled", False)])
def test_the_leader_writes_in_transactions_from_preparing_on(given, expected):
    assert ClusterAccess({"exactly.once.source.support": given}).is_exactly_once is expected
    assert not ClusterAccess({}).is_exactly_once


def test_settings_are_not_in_its_repr():
    assert "secret" not in repr(ClusterAccess(WORKER))
