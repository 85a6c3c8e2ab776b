"""One browser, and one cluster to look at, for the tests of a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kconnect.java.devbroker import DevBroker
from kit.browser import TestBrowser
from kit.console_world import ConsoleWorld, console_world
from kit.leaks import Snapshot

_GRACE_S = 5.0

RATES = {"orders-source": 1200.0, "payments-sink": 800.0, "clicks": 24000.0, "mail-export": 3.0, "quiet": 0.0}


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind(broker: DevBroker) -> Iterator[None]:
    """In place of the check after each test: the pools of workers that a file shares grow with what is asked."""
    before = Snapshot.now()
    yield
    left = before.left_behind(_GRACE_S)
    assert not left, f"left behind by the file: {left}"


@pytest.fixture(scope="module")
def browser() -> Iterator[TestBrowser]:
    with TestBrowser() as running:
        yield running


@pytest.fixture(scope="module")
def world() -> Iterator[ConsoleWorld]:
    """Two workers, five sources, one of them FAILED; an hour of history; some lines."""
    with console_world(RATES) as made:
        made.live_an_hour()
        made.fail("mail-export")
        made.say(0, "Joined group connect-cluster, generation 2")
        made.say(1, "Polling failed: no route to host; repeated in 0.4 s", logging.WARNING, connector="clicks")
        yield made
