"""What clients report of themselves becomes what came since their last report."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from kconnect.clock import ManualClock
from kconnect.runtime.kafka.client_statistics import ClientStatistics, ClientUsage, Throttles, Window
from kit.waiting import eventually

NONE = Window(0, 0, 0)


def report(sent: int, received: int, *brokers: tuple[int, int, int]) -> str:
    """Each broker: how many requests, the sum and the largest of their times in us."""
    windows = {
        f"localhost:{number}/{number}": {
            "rtt": {"cnt": count, "sum": total, "max": most},
            "throttle": {"cnt": 0, "sum": 0, "max": 0},
        }
        for number, (count, total, most) in enumerate(brokers)
    }
    return json.dumps({"tx_bytes": sent, "rx_bytes": received, "brokers": windows})


def test_totals_become_what_came_since_and_brokers_are_taken_together() -> None:
    seen: list[ClientUsage] = []
    statistics = ClientStatistics(seen.append)
    statistics.take(report(100, 10, (2, 3_000, 2_000), (1, 5_000, 5_000), (0, 0, 0)))
    statistics.take(report(150, 10))
    assert seen == [ClientUsage(100, 10, Window(3, 8, 5), NONE), ClientUsage(50, 0, NONE, NONE)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tx_bytes": 1, "rx_bytes": 1, "brokers": {"b": {}}}'])
def test_what_cannot_be_read_counts_nothing(text: str) -> None:
    seen: list[ClientUsage] = []
    statistics = ClientStatistics(seen.append)
    statistics.take(text)
    statistics.take(report(5, 5))
    assert seen == [ClientUsage(5, 5, NONE, NONE)]


def test_a_client_reports_in_this_form() -> None:
    seen: list[ClientUsage] = []
    settings = ClientStatistics(seen.append).settings() | {"statistics.interval.ms": 10}
    client = Producer({"bootstrap.servers": "localhost:1", "log_level": 0, **settings})

    def has_reported() -> bool:
        client.poll(0.01)
        return bool(seen)

    eventually(has_reported, 10, "it reports")
    assert seen[0].bytes_sent == 0


def test_who_is_held_back_is_named_until_its_request_had_to_be_answered(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    throttles = Throttles(clock)
    throttles.note("shaped", 0.05)  # what nobody notices
    assert throttles.notices() == []
    throttles.note("connect-g-configs", 4.25)
    throttles.note("connect-g-statuses", 60.0)
    throttles.note("connect-g-configs", 0.0)  # an answer that had to wait; the next one may again
    (notice,) = throttles.notices()
    assert "every change: connect-g-configs (4.2 s), connect-g-statuses (60.0 s). kafka-configs" in notice
    clock.advance(9.5)
    throttles.note("connect-g-statuses", 50.0)
    (notice,) = throttles.notices()
    assert "every change: connect-g-statuses (50.0 s). kafka-configs" in notice
    clock.advance(55.5)
    assert throttles.notices() == []
    assert [record.args for record in caplog.records] == [("connect-g-configs", 4.25), ("connect-g-statuses", 60.0)]
