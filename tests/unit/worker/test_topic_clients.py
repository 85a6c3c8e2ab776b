"""Settings of the clients of the status and offsets topics."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.worker.distributed import offset_topic_clients, status_topic_clients

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="x9";'
WORKER = {
    "bootstrap.servers": "a:1",
    "group.id": "g",
    "status.storage.topic": "statuses",
    "offset.storage.topic": " offsets ",
    "config.storage.topic": "configs",
}
BASE = "connect-g-"


@pytest.mark.parametrize("topic", ["", "  ", None])
def test_a_worker_without_its_topics_is_refused_in_javas_words(topic):
    worker = {key: value for key, value in WORKER.items() if not key.endswith("storage.topic")}
    if topic is not None:
        worker |= {"status.storage.topic": topic, "offset.storage.topic": topic}
    with pytest.raises(ConfigError, match=r"^Must specify topic for connector status\.$") as status:
        status_topic_clients(worker, client_id_base=BASE)
    with pytest.raises(ConfigError, match=r"^Offset storage topic must be specified$"):
        offset_topic_clients(worker, client_id_base=BASE)
    assert [problem.key for problem in status.value.problems] == ["status.storage.topic"]


def test_client_ids_tell_the_store():
    for make, store in ((status_topic_clients, "statuses"), (offset_topic_clients, "offsets")):
        clients = make(WORKER, client_id_base=BASE)
        assert clients.topic == store
        for settings in (clients.log.producer, clients.log.consumer, clients.log.admin):
            assert settings["client.id"] == f"connect-g-{store}"
            assert settings["bootstrap.servers"] == "a:1"


def test_statuses_are_tried_again_by_the_store_and_offsets_by_the_producer_for_ever():
    statuses = status_topic_clients({**WORKER, "retries": "5"}, client_id_base=BASE).log.producer
    offsets = offset_topic_clients(WORKER, client_id_base=BASE).log.producer
    assert (statuses["retries"], statuses["message.timeout.ms"]) == (0, 120_000)
    assert offsets["message.timeout.ms"] == 0
    short = status_topic_clients({**WORKER, "delivery.timeout.ms": "7000"}, client_id_base=BASE)
    assert short.log.producer["message.timeout.ms"] == 7000


def test_with_exactly_once_offsets_are_read_committed():
    clients = offset_topic_clients({**WORKER, "exactly.once.source.support": "enabled"}, client_id_base=BASE)
    assert (clients.isolation_level, clients.warnings) == ("read_committed", ())


def test_with_exactly_once_another_isolation_level_is_overruled_with_a_warning():
    worker = {**WORKER, "exactly.once.source.support": "ENABLED", "isolation.level": "read_uncommitted"}
    clients = offset_topic_clients(worker, client_id_base=BASE)
    assert clients.isolation_level == "read_committed"
    assert len(clients.warnings) == 1
    assert "'isolation.level' in the worker's settings is ignored" in clients.warnings[0]


@pytest.mark.parametrize("support", ["disabled", "preparing"])
def test_without_exactly_once_offsets_are_read_uncommitted(support):
    clients = offset_topic_clients({**WORKER, "exactly.once.source.support": support}, client_id_base=BASE)
    assert (clients.isolation_level, clients.warnings) == ("read_uncommitted", ())


def test_without_exactly_once_the_users_isolation_level_counts():
    clients = offset_topic_clients({**WORKER, "isolation.level": "read_committed"}, client_id_base=BASE)
    assert (clients.isolation_level, clients.warnings) == ("read_committed", ())


def test_secrets_are_not_shown():
    worker = {
        **WORKER,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
    }
    clients = offset_topic_clients(worker, client_id_base=BASE)
    assert clients.log.producer["sasl.password"] == "x9"
    assert "x9" not in repr(clients)
