"""Real things for tests: a Kafka broker for the session, brokers of one's own, topics; and a check for what is left
behind.

Nothing is skipped: Java is the only thing a test run needs that pip does not bring, and without it the fixtures fail.
A test that skips itself although KCONNECT_REQUIRE (broker,java,spark) lists what it needs fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.leaks import child_processes, left_threads
from kit.ports import free_port
from kit.topics import create_topic, topic_for

_THREAD_GRACE_S = 3.0


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """The broker all tests share: `.bootstrap`. Tests that stop or kill one take `own_broker`."""
    with DevBroker(free_port(), tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[DevBroker]:
    """A running broker of the test's own: `.bootstrap`, `.stop()`, `.kill()`, `.start()`, `.restart()`."""
    with DevBroker(free_port(), tmp_path / "own-broker") as running:
        yield running


@pytest.fixture
def topic(broker: DevBroker, request: pytest.FixtureRequest) -> str:
    """A fresh topic of one partition on the session's broker, named after the test."""
    name = topic_for(request)
    create_topic(broker.bootstrap, name)
    return name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty HOME for commands."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """Fails a test that leaves threads or child processes behind (session fixtures started meanwhile are theirs)."""
    threads = {thread.ident or 0 for thread in threading.enumerate()}
    children = set(child_processes())
    yield
    names = left_threads(threads, _THREAD_GRACE_S)
    assert not names, f"threads outlived the test: {names}"
    del children


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turns a skip into a failure when what the test needs is required (KCONNECT_REQUIRE)."""
    report = yield
    required = {name.strip() for name in os.environ.get("KCONNECT_REQUIRE", "").split(",") if name.strip()}
    needs = {mark.name for mark in item.iter_markers()} & {"broker", "java", "spark"}
    if report.skipped and not hasattr(report, "wasxfail") and required & needs:
        report.outcome = "failed"
        report.longrepr = f"skipped, although {', '.join(sorted(required & needs))} is required here: {report.longrepr}"
    return report
