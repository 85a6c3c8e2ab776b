"""Requests to a group's coordinator, retried while there is none yet or it is not ready."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException

from kconnect.runtime.kafka.retriable_codes import COORDINATOR_CODES

# A broker creates the offsets topic in a second, a busy one in ten; a later attempt has time for both
_FIRST_TURN_S: Final = 2.0
_PAUSE_S: Final = 0.1
# The client has its own deadline; ours, slightly later, applies if it misses that.
_SLACK_S: Final = 2.0
_PASSING: Final = COORDINATOR_CODES | {KafkaError._TIMED_OUT}


def ask_coordinator(ask: Callable[[float], Future[Any]], timeout_s: float) -> Any:  # what the client's futures hold
    """The answer of a group's coordinator. `ask` sends the request with a deadline and must be idempotent.

    The client looks for the coordinator three times within a second. If the broker has none by then, for example while
    it creates the offsets topic for the very first group, the request stays unsent until its deadline. And, unlike
    Java's client, it does not ask a coordinator again that is still loading its groups (librdkafka 2.16). So we make
    several attempts, each with twice the time of the previous one.
    Errors: KafkaException, TimeoutError of the last attempt.
    """
    deadline, turn_s = time.monotonic() + timeout_s, _FIRST_TURN_S
    while True:
        given_s = max(min(turn_s, deadline - time.monotonic()), _PAUSE_S)
        is_late = False
        try:
            answer = ask(given_s).result(given_s + _SLACK_S)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in _PASSING or _is_over(deadline):
                raise
            is_late = code == KafkaError._TIMED_OUT
        except FutureTimeoutError:
            if _is_over(deadline):
                raise
            is_late = True
        else:
            if not _is_put_off(answer) or _is_over(deadline):
                return answer
        if is_late:
            turn_s *= 2
        else:
            time.sleep(_PAUSE_S)


def _is_over(deadline: float) -> bool:
    return time.monotonic() + _PAUSE_S >= deadline


def _is_put_off(answer: object) -> bool:
    """Whether some partition is refused because the coordinator is not ready."""
    if not isinstance(answer, ConsumerGroupTopicPartitions):
        return False
    return any(part.error is not None and part.error.code() in _PASSING for part in answer.topic_partitions or ())
