"""A producer that is abandoned while a batch is handed to it: no later part of the batch follows what was dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from kconnect.runtime.kafka import BulkProducer, ByteColumn, KafkaBatch
from kit.pace import ample_s
from kit.producers import queued
from kit.waiting import eventually

VALUES = [b"line %09d" % number for number in range(30_000)]
COLUMN = ByteColumn(pa.array(VALUES, pa.binary()))


def batch(kind: str) -> KafkaBatch:
    """One for each way in which records are handed over."""
    values = COLUMN if kind == "bulk" else VALUES
    return KafkaBatch("gone", None, None, values, 1 if kind == "rows" else None, None)


@pytest.mark.parametrize("kind", ["bulk", "plain", "rows"])
def test_of_a_batch_that_is_abandoned_in_the_middle_nothing_is_left_to_be_sent(kind: str) -> None:
    for _ in range(5):
        sender = BulkProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 2}, "orders-0")
        delivery = sender.delivery(lambda acknowledged: None)
        sending = threading.Thread(target=send, args=(sender, kind, delivery))
        sending.start()
        while not len(sender) and sending.is_alive():
            pass
        sender.abandon()
        sending.join(ample_s(10))
        try:
            sender.flush(ample_s(5))  # tells of what was dropped
            eventually(lambda sender=sender: queued(sender) == 0, 10, "nothing is left")
            assert not send(sender, kind, delivery)
        finally:
            sender.close()


def send(sender: BulkProducer, kind: str, delivery: Callable[..., None]) -> bool:
    return sender.send_batch(batch(kind), delivery, lambda: False)  # type: ignore[arg-type]  # a Delivery
