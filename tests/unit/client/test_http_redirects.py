"""Where a redirect may lead."""

from __future__ import annotations

import pytest

from kconnect.client.http_wire import is_led_inside

INTERNET, INSIDE = "93.184.215.14", "10.0.0.7"


@pytest.mark.parametrize(
    "inside", [INSIDE, "127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0"]
)
def test_a_server_of_the_internet_leads_to_no_address_of_this_network(inside: str) -> None:
    assert is_led_inside(INTERNET, inside)
    assert is_led_inside("2606:2800:21f::1", inside)


@pytest.mark.parametrize(
    ("one", "other"),
    [(INTERNET, "8.8.8.8"), (INSIDE, "127.0.0.1"), (INSIDE, INTERNET), (None, INSIDE), (INTERNET, None)],
)
def test_other_servers_lead_anywhere(one: str | None, other: str | None) -> None:
    assert not is_led_inside(one, other)
