"""Why a worker is not healthy: reasons of many parts in one list."""

from __future__ import annotations

from kconnect.clock import ManualClock
from kconnect.runtime.herder.health.reasons import Health, Reason, reasons_text


def test_a_worker_of_which_no_part_complains_is_healthy():
    health = Health()
    health.add_source(lambda: ())
    assert health.reasons() == []
    assert reasons_text([], 0) == ""


def test_what_is_wrong_comes_before_what_the_start_waits_for():
    clock = ManualClock()
    health, wrong = Health(clock), Reason("Kafka is away", 5)
    with health.starting("Reading topic a"), health.starting("Joining group g"):
        health.add_source(lambda: [wrong])
        found = health.reasons()
    assert [reason.sentence for reason in found] == ["Kafka is away", "Reading topic a", "Joining group g"]
    assert [reason.is_starting for reason in found] == [False, True, True]
    assert found[1].since_ms == clock.time_ms()
    assert health.reasons() == [wrong]


def test_a_step_of_the_start_that_fails_is_over_as_well():
    health = Health()
    try:
        with health.starting("Reading topic a"):
            raise OSError
    except OSError:
        pass
    assert health.reasons() == []


def test_reasons_are_reported_as_sentences_with_their_age():
    reasons = [Reason("Spark is starting", 1_000), Reason("Waiting for Kafka at b:9092", 3_999)]
    assert reasons_text(reasons, 4_000) == "Spark is starting (3 s). Waiting for Kafka at b:9092 (0 s)."
    assert reasons_text(reasons[1:], 0) == "Waiting for Kafka at b:9092 (0 s)."
