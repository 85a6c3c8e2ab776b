"""How long tasks wait for their offsets: a read ends behind all open transactions, which killed tasks leave behind."""

from __future__ import annotations

from kconnect.runtime.config import DistributedConfig
from kconnect.runtime.config.exactly_once_settings import transaction_timeout_ms
from kconnect.worker.distributed import offset_read_timeout_s

WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "connect",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "exactly.once.source.support": "enabled",
}
# transaction.abort.timed.out.transaction.cleanup.interval.ms, as brokers have it by default
BROKER_LOOKS_EVERY_S = 10.0


def test_a_read_outlasts_the_transaction_of_a_killed_task() -> None:
    open_s = transaction_timeout_ms(WORKER, {}) / 1000 + BROKER_LOOKS_EVERY_S
    assert offset_read_timeout_s(DistributedConfig.parse(WORKER)) > open_s


def test_the_worker_gives_up_a_read_before_the_task_that_asked_does() -> None:
    config = DistributedConfig.parse(WORKER | {"kconnect.offsets.request.timeout.ms": "1000"})
    assert offset_read_timeout_s(config) < config.kconnect.offsets_request_timeout_ms / 1000 == 1.0
