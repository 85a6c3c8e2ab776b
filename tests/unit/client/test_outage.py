"""An outage in words."""

from __future__ import annotations

import pytest

from kconnect.client.outage import Outage


@pytest.mark.parametrize(
    ("servers", "problem", "why"),
    [
        ("k:9092", "the broker at k:9092: Connection refused", "Connection refused"),
        ("k:9092", "the broker at k:9092 closed the connection", "the broker closed the connection"),
        (
            "k:9092",
            "The certificate of the broker at k:9092 is not accepted",
            "The certificate of the broker is not accepted",
        ),
        (
            "k:9092",
            "the broker at elsewhere:9092: no answer in time",
            "the broker at elsewhere:9092: no answer in time",
        ),
        ("k:9092,l:9092", "the broker at k:9092: Connection refused", "the broker at k:9092: Connection refused"),
    ],
)
def test_the_only_broker_is_named_once(servers: str, problem: str, why: str) -> None:
    outage = Outage(1_700_000_000_000, 3.0, servers, problem, 2)

    assert outage.sentence() == (
        f"Kafka is away: no broker of bootstrap.servers={servers} has answered since 2023-11-14T22:13:20Z ({why})"
    )
    assert problem in outage.banner(), "a banner names no servers"
