"""What a unit's failure says; that librdkafka ends units as promised is tested with a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kconnect.kafka.delivery import Delivery, DeliveryFailure, EndedUnits


def told(code: int) -> DeliveryFailure:
    failures: list[DeliveryFailure] = []

    def on_failure(failure: DeliveryFailure) -> bool:
        failures.append(failure)
        return False

    Delivery(lambda is_acked: None, on_failure, EndedUnits()).fail(KafkaError(code), "orders", 3)
    (failure,) = failures
    return failure


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY])
def test_a_topic_deleted_under_a_producer_is_named_in_whichever_way_the_client_lets_go_of_its_partition(
    code: int,
) -> None:
    failure = told(code)
    assert str(failure.error).endswith(" written to topic 'orders', partition 3: Local: Unknown partition")
    assert failure.error.hint == "The topic was deleted, or the record names a partition that it does not have."
    assert failure.code == "_UNKNOWN_PARTITION"
