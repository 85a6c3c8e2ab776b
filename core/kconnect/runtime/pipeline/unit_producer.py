"""UnitProducer: what the loops and dead letter queues need of a producer of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kconnect.runtime.kafka import AnyDelivery, Delivery, DeliveryFailure
from kconnect.runtime.pipeline.conversion import KafkaBatch, KafkaHeaders


class UnitProducer(Protocol):
    """What a source loop needs from its producer; see RecordProducer, which implements it."""

    def __len__(self) -> int: ...

    @property
    def last_error(self) -> str | None: ...

    def delivery(
        self, on_end: Callable[[bool], None], on_failure: Callable[[DeliveryFailure], bool] = ...
    ) -> Delivery: ...

    def send_batch(self, records: KafkaBatch, delivery: Delivery, give_up: Callable[[], bool]) -> bool: ...

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: KafkaHeaders | None,
        delivery: AnyDelivery,
        give_up: Callable[[], bool],
    ) -> bool: ...

    def serve(self, timeout_s: float = 0) -> None: ...

    def flush(self, timeout_s: float, give_up: Callable[[], bool] = ...) -> bool: ...

    def abandon(self) -> None: ...

    def close(self) -> None: ...
