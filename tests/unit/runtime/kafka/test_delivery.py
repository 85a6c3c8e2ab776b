"""What a unit's failure says; that librdkafka ends units as promised is tested with a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kconnect.runtime.kafka.delivery import Delivery, DeliveryFailure, EndedUnits
from kconnect.runtime.kafka.refusals import RefusedRecord


def reported(code: int) -> DeliveryFailure:
    failures: list[DeliveryFailure] = []

    def on_failure(failure: DeliveryFailure) -> bool:
        failures.append(failure)
        return False

    Delivery(lambda is_acked: None, on_failure, EndedUnits()).fail(KafkaError(code), RefusedRecord("orders", 3))
    (failure,) = failures
    return failure


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY])
def test_a_topic_deleted_under_a_producer_is_named_in_whichever_way_the_client_lets_go_of_its_partition(
    code: int,
) -> None:
    failure = reported(code)
    assert str(failure.error).endswith(" written to topic 'orders', partition 3: Local: Unknown partition")
    assert failure.error.hint == "The topic was deleted, or the record names a partition that it does not have."
    assert failure.code == "_UNKNOWN_PARTITION"


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._FATAL),
        KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER),
        KafkaError(KafkaError.UNKNOWN_PRODUCER_ID),
        KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, fatal=True),
    ],
)
def test_a_record_that_is_refused_as_the_client_can_write_no_more_is_not_tolerated_whatever_is_answered(
    error: KafkaError,
) -> None:
    reported: list[str] = []
    ended, acked = EndedUnits(), list[bool]()
    unit = Delivery(acked.append, lambda failure: reported.append(failure.topic) or True, ended)
    unit.fail(error, RefusedRecord("orders", 3))
    unit.complete()
    del unit
    ended.tell()
    assert (acked, reported) == ([False], ["orders"])
