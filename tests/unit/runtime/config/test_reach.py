"""Which addresses take connections: known in milliseconds where somebody listens, and where nobody does."""

from __future__ import annotations

import pytest

from kconnect.runtime.config.reach import Reached


def test_what_was_refused_is_reported_with_its_reason():
    found = Reached(None, {("a", 1): "Connection refused", ("::1", 2): "Network is unreachable"})
    assert found.sentence() == "a:1: Connection refused; [::1]:2: Network is unreachable"


def test_of_a_single_address_the_reason_is_enough():
    assert Reached(None, {("a", 1): "Connection refused"}).sentence() == "Connection refused"


@pytest.mark.parametrize(
    ("refused", "reported"),
    [
        ({}, "no answer yet"),
        ({("a", 1): "Connection refused"}, "a:1: Connection refused; no answer yet from the others"),
    ],
)
def test_what_has_not_answered_yet_is_no_refusal(refused, reported):
    assert Reached(None, refused, is_open=True).sentence() == reported
