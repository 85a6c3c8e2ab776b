"""Settings of the clients of the config topic."""

from __future__ import annotations

import pytest

from kconnect.runtime.storage.config_clients import config_topic_clients

WORKER = {"bootstrap.servers": "127.0.0.1:9092", "group.id": "my-cluster"}


@pytest.mark.parametrize("own", [{}, {"transactional.id": "mine", "enable.idempotence": "false"}])
def test_the_leaders_producer_is_transactional_whatever_the_user_says(
    own,
):  # testFencableProducerPropertiesInsertedByDefault, testFencableProducerPropertiesOverrideUserSuppliedValues
    clients = config_topic_clients({**WORKER, **own, "exactly.once.source.support": "preparing"}, client_id_base="c-")
    assert clients.leader is not None
    fixed = {"transactional.id": "connect-cluster-my-cluster", "enable.idempotence": "true", "acks": "all"}
    assert {key: clients.leader[key] for key in fixed} == fixed
    assert len(clients.warnings) == len(own)


@pytest.mark.parametrize(
    ("support", "own", "level"),
    [
        # testConsumerPropertiesNotInsertedByDefaultWithoutExactlyOnceSourceEnabled
        ("preparing", {}, "read_uncommitted"),
        ("disabled", {}, "read_uncommitted"),
        # testConsumerPropertiesDoNotOverrideUserSuppliedValuesWithoutExactlyOnceSourceEnabled
        ("preparing", {"isolation.level": "read_committed"}, "read_committed"),
        # testConsumerPropertiesInsertedByDefaultWithExactlyOnceSourceEnabled
        ("enabled", {}, "read_committed"),
        # testConsumerPropertiesOverrideUserSuppliedValuesWithExactlyOnceSourceEnabled
        ("enabled", {"isolation.level": "read_uncommitted"}, "read_committed"),
    ],
)
def test_the_log_is_read_committed_with_exactly_once_and_else_as_the_user_says(support, own, level):
    clients = config_topic_clients({**WORKER, **own, "exactly.once.source.support": support}, client_id_base="c-")
    assert clients.isolation_level == level


def test_client_ids_name_the_topic_and_the_leader():  # testClientIds
    clients = config_topic_clients({**WORKER, "exactly.once.source.support": "enabled"}, client_id_base="base-")
    assert clients.leader is not None
    ids = [kind["client.id"] for kind in (clients.log.producer, clients.log.consumer, clients.leader)]
    assert ids == ["base-configs", "base-configs", "base-configs-leader"]
    assert config_topic_clients(WORKER, client_id_base="base-").leader is None
