"""Dead letters of a source that Spark reads: in Kafka before its offsets move past their records."""

from __future__ import annotations

import logging
from typing import Final

from kconnect.errors import ConnectError, TimedOutError
from kconnect.runtime.config.client_config import producer_config
from kconnect.runtime.kafka import DeliveryFailure, RecordProducer
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters

log = logging.getLogger(__name__)

# offset.flush.timeout.ms of a worker, by its default
_WITHIN_S: Final = 60.0


class LetterSender:
    """Sends what SourceDeadLetters made. Threads: the task's. Lifecycle: constructed -> start -> send()* -> close."""

    def __init__(self, letters: SourceDeadLetters, control: TaskControl) -> None:
        spec = control.spec
        settings, warnings = producer_config(
            spec.worker_config, spec.connector_config, client_id=f"connector-dlq-producer-{spec.id}"
        )
        for warning in warnings:
            log.warning("%s", warning)
        self._letters, self._control, self._settings = letters, control, settings
        self._producer: RecordProducer | None = None
        self._refused: ConnectError | None = None

    def start(self) -> None:
        """Create the topic, where it is missing. Errors: ConnectError."""
        self._letters.start()

    def send(self) -> None:
        """Send what was reported since the last call, and wait until Kafka has it.

        Errors: ConnectError for a letter that Kafka rejects; TimedOutError.
        """
        waiting = self._letters.take()
        if not waiting:
            return
        if self._producer is None:
            self._producer = RecordProducer(self._settings, f"the dead letters of {self._control.spec.id}")
        delivery = self._producer.delivery(lambda is_acked: None, self._is_tolerated)
        for one in waiting:
            self._producer.send(one, delivery, lambda: self._control.is_stopping)
        delivery.seal()
        del delivery
        is_flushed = self._producer.flush(_WITHIN_S, lambda: self._refused is not None)
        if self._refused is not None:
            raise self._refused
        if not is_flushed:
            raise TimedOutError(
                f"{len(waiting)} dead letters were not acknowledged by topic {self._letters.topic!r} within "
                f"{_WITHIN_S:g} s"
            )

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def _is_tolerated(self, failure: DeliveryFailure) -> bool:
        self._letters.refused(failure)
        self._refused = self._refused or failure.error
        return False
