"""Limits of requests, and what one worker tells another of a caller."""

from __future__ import annotations

import pytest

from kconnect.errors import ForbiddenError
from kconnect.runtime.rest.access.access import (
    CALLER_HEADER,
    SEAL_HEADER,
    Vouched,
    body_digest,
    vouched,
    vouching_headers,
)
from kconnect.runtime.rest.access.callers import Caller
from kconnect.runtime.rest.guards import TokenBuckets


def seal(message: bytes) -> bytes:
    return body_digest(b"key" + message).encode()


WHO = Vouched(Caller("ann", "10.0.0.7"), "1234", True, body_digest(b"{}"))


def test_a_caller_has_a_burst_and_then_a_rate_of_its_own():
    now = [0.0]
    buckets = TokenBuckets(2.0, 3, lambda: now[0])
    assert [buckets.wait_s("ann") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.wait_s("bob") == 0
    now[0] = 0.5
    assert buckets.wait_s("ann") == 0
    assert buckets.wait_s("ann") == 0.5
    now[0] = 100.0
    assert [buckets.wait_s("ann") for _ in range(4)] == [0, 0, 0, 0.5]


def test_what_a_worker_says_of_a_caller_is_believed_by_who_has_the_key():
    headers = vouching_headers(seal, WHO, "PUT", "/connectors/a/config?forward=true", 1000)
    assert vouched(seal, headers, "PUT", "/connectors/a/config?forward=true", 2000) == WHO
    assert vouched(seal, {}, "PUT", "/", 0) is None
    assert vouching_headers(lambda _: None, WHO, "PUT", "/", 0) == {}
    WHO.check_body(b"{}")
    with pytest.raises(ForbiddenError, match="not the one that was sealed"):
        WHO.check_body(b"{ }")


@pytest.mark.parametrize(
    ("change", "method", "target", "now_ms", "message"),
    [
        ({SEAL_HEADER: "00"}, "PUT", "/a", 0, "not sealed with this group's session key"),
        ({SEAL_HEADER: "\xe9"}, "PUT", "/a", 0, "not sealed"),
        ({CALLER_HEADER: "e30="}, "PUT", "/a", 0, "not sealed"),
        ({CALLER_HEADER: "\u00ff"}, "PUT", "/a", 0, "not sealed"),
        ({}, "DELETE", "/a", 0, "made for another request"),
        ({}, "PUT", "/b", 0, "made for another request"),
        ({}, "PUT", "/a", 301_000, "set the clocks of the workers right"),
    ],
)
def test_nobody_else_is_believed(change, method, target, now_ms, message):
    headers = {**vouching_headers(seal, WHO, "PUT", "/a", 0), **change}
    with pytest.raises(ForbiddenError, match=message):
        vouched(seal, headers, method, target, now_ms)
    without = {CALLER_HEADER: headers[CALLER_HEADER]}
    with pytest.raises(ForbiddenError, match="not sealed"):
        vouched(seal, without, "PUT", "/a", 0)
    with pytest.raises(ForbiddenError, match="not sealed"):
        vouched(lambda _: None, headers, "PUT", "/a", 0)
