"""`listeners` and `rest.advertised.*`."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.rest import BoundListener, advertised_address, advertised_url, bind_listeners, worker_id


@pytest.mark.parametrize("listener", ["8083", "localhost:8083", "http://localhost", "http://a b:1", ""])
def test_a_malformed_listener_is_refused_in_javas_words(listener):
    with pytest.raises(ConfigError, match=r"listeners: Listener doesn't have the right format"):
        bind_listeners([listener])


@pytest.mark.parametrize(
    ("listener", "why"),
    [
        ("ftp://:8083", 'must be either "http" or "https"'),
        ("http://:70000", "between 0 and 65535"),
        ("http://:-1", "between 0 and 65535"),
    ],
)
def test_listeners_that_can_not_be_served_are_refused_with_the_reason(listener, why):
    with pytest.raises(ConfigError, match=why):
        bind_listeners([listener])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ("10.0.0.1", 8083)),
        ({"rest.advertised.host.name": "me.example"}, ("me.example", 8083)),
        ({"rest.advertised.port": "9"}, ("10.0.0.1", 9)),
    ],
)
def test_the_advertised_address_is_the_first_listener_unless_set(config, expected):
    bound = [BoundListener("http", "10.0.0.1", 8083), BoundListener("http", "10.0.0.2", 8084)]
    assert advertised_address(config, bound) == expected


@pytest.mark.parametrize("host", ["a", "::1", "me.example"])
def test_a_worker_is_named_by_host_and_port_of_the_url_that_it_tells_the_others(host):
    bound = [BoundListener("http", host, 8083)]
    assert worker_id({}, bound) == urlsplit(advertised_url({}, bound)).netloc


def test_https_is_advertised_when_asked_for_or_when_there_is_nothing_else():
    http, https = BoundListener("http", "a", 1), BoundListener("https", "b", 2)
    assert advertised_address({}, [https, http]) == ("a", 1)
    assert advertised_address({"rest.advertised.listener": "HTTPS"}, [http, https]) == ("b", 2)
    assert advertised_address({}, [https]) == ("b", 2)


@pytest.mark.parametrize(("scheme", "why"), [("ftp", "must be either"), ("https", "`listeners` has no such listener")])
def test_an_advertised_listener_that_is_not_there_is_refused(scheme, why):
    with pytest.raises(ConfigError, match=rf"rest\.advertised\.listener: .*{why}"):
        advertised_address({"rest.advertised.listener": scheme}, [BoundListener("http", "a", 1)])


def test_all_addresses_are_advertised_as_one_that_others_can_use():
    host, port = advertised_address({}, [BoundListener("http", "", 8083)])
    assert (host not in ("", "0.0.0.0", "::"), port) == (True, 8083)


def test_an_advertised_port_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match=r"Invalid value x for configuration rest\.advertised\.port"):
        advertised_address({"rest.advertised.port": "x"}, [BoundListener("http", "", 1)])


def test_urls_work_on_this_machine():
    assert BoundListener("http", "", 1).url == "http://localhost:1"
    assert BoundListener("http", "::1", 1).url == "http://[::1]:1"
