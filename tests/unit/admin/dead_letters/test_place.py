"""In which Kafka cluster a connector's dead letters lie, and whether they can go back from there."""

from __future__ import annotations

import pytest

from kconnect.admin.dead_letters import letters_worker, refuse_two_clusters
from kconnect.errors import BadRequestError

WORKER = {"bootstrap.servers": "a:9092,b:9092", "sasl.jaas.config": "ours", "group.id": "g"}
AWAY = {"producer.override.bootstrap.servers": "far:9092", "producer.override.security.protocol": "SASL_SSL"}
READS_AWAY = {"consumer.override.bootstrap.servers": "far:9092"}


def test_letters_lie_where_the_producer_writes_with_its_login() -> None:
    assert letters_worker({"name": "c", **AWAY, **READS_AWAY}, WORKER) == {
        **WORKER,
        "bootstrap.servers": "far:9092",
        "security.protocol": "SASL_SSL",
    }
    of_all = {**WORKER, "producer.bootstrap.servers": "far:9092"}
    assert letters_worker({"name": "c"}, of_all)["bootstrap.servers"] == "far:9092"


@pytest.mark.parametrize(
    "config",
    [{}, READS_AWAY, {"producer.override.bootstrap.servers": "b:9092, a:9092", "producer.override.acks": "1"}],
)
def test_they_lie_in_the_workers_cluster_where_these_are_its_brokers(config: dict[str, str]) -> None:
    assert letters_worker(config, WORKER) is WORKER


def test_references_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_BROKERS", "far:9092")
    worker = {
        **WORKER,
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    config = {"producer.override.bootstrap.servers": "${env::FAR_BROKERS}", "db.password": "${vault:not:here}"}
    assert letters_worker(config, worker)["bootstrap.servers"] == "far:9092"


def test_a_sink_that_reads_from_another_cluster_gets_its_letters_by_through_alone() -> None:
    refuse_two_clusters({**AWAY, **READS_AWAY}, WORKER)
    refuse_two_clusters({}, WORKER)
    for config in (AWAY, READS_AWAY):
        with pytest.raises(BadRequestError, match=r"in one transaction") as raised:
            refuse_two_clusters({"name": "orders", **config}, WORKER)
        assert "far:9092" in str(raised.value)
        assert "--through" in str(raised.value.hint)
