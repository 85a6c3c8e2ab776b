"""Real things for tests: a Kafka broker for the session, brokers of one's own, topics; and a check for what is left
behind.

Nothing is skipped: Java, and systemd-analyze for the unit in deploy/, are all a test run needs that pip does not bring;
without them tests fail.
A test that skips itself although KCONNECT_REQUIRE (broker,java,spark) lists what it needs fails.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_registry import DevRegistry
from kit.broker_pool import BrokerPool
from kit.brokers import PatientRegistry
from kit.costs import Costs
from kit.examples import load_profile
from kit.leaks import Snapshot
from kit.limits import Limits
from kit.needs import REQUIRED, missing_needs
from kit.pace import pace
from kit.part_choice import PartChoice, add_options
from kit.places import TESTS
from kit.ports import free_port
from kit.postgres import postgres
from kit.run_processes import Sweep, mark_run, use_own_state
from kit.run_signals import set_signals
from kit.s3 import S3Server, s3_server
from kit.secure_broker import SecureBroker
from kit.shared_broker import SharedBroker
from kit.topics import create_topic, topic_for

if TYPE_CHECKING:
    from kit.mariadb import MariaDb

_GRACE_S = 3.0
_LONGEST_FIRST = {"system": 0, "integration": 1, "unit": 2}


pytest_addoption = add_options


def pytest_configure(config: pytest.Config) -> None:
    """Sets up what watches over a run: kit has a module for each."""
    if not hasattr(config, "workerinput"):
        if missing := missing_needs(_required()):
            raise pytest.UsageError("\n".join(missing))
        config.pluginmanager.register(Sweep(mark_run()), "kit-sweep")
    config.pluginmanager.register(PartChoice(config), "kit-parts")
    config.pluginmanager.register(Limits(), "kit-limits")

    set_signals()
    pace.start()
    config.pluginmanager.register(Costs(config), "kit-costs")
    use_own_state(config)
    load_profile()


# It needs a server that only `make mariadb` installs
_OF_MARIADB = [
    "integration/builtin/test_sql_mariadb.py",
    "integration/builtin/test_sql_mariadb_troubles.py",
    "integration/builtin/test_sql_mariadb_widening.py",
    "system/builtin/test_sql_killed.py",
]
# Minutes: `make day` alone
_OF_DAY = ["system/builtin/test_day.py"]
collect_ignore = [
    *([] if os.environ.get("KCONNECT_MARIADB") else _OF_MARIADB),
    *([] if os.environ.get("KCONNECT_DAY_ROWS") else _OF_DAY),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rooms whose tests are long come first, so that on several processes short files fill up the end."""
    items.sort(key=lambda item: _LONGEST_FIRST[item.path.relative_to(TESTS).parts[0]])


def pytest_report_header() -> str:
    return pace.reported()


@pytest.fixture(scope="session")
def _running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBroker]:
    broker = SharedBroker(tmp_path_factory.mktemp("broker"))
    with broker:
        yield broker


@pytest.fixture(scope="module")
def broker(_running_broker: SharedBroker) -> Iterator[SharedBroker]:
    """The broker all tests share: `.bootstrap`. Tests that stop or kill one take `own_broker`.

    Consumer groups end with the module: two modules may call a sink alike, whose offsets would be the next one's.
    """
    yield _running_broker
    _running_broker.forget_groups()


@pytest.fixture(scope="session")
def secure(_running_broker: SharedBroker) -> SecureBroker:
    """Where the same broker asks for TLS, logins and certificates."""
    return _running_broker.secure


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevRegistry]:
    """The schema registry all tests share: `.url`. Subjects are named after the test's topic."""
    with PatientRegistry(free_port(), tmp_path_factory.mktemp("registry") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def postgres_uri() -> Iterator[str]:
    """The PostgreSQL server all tests share. Tables are named after the test's topic."""
    with postgres() as uri:
        yield uri


@pytest.fixture(scope="session")
def maria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """The MariaDB server all tests share; who kills one starts a server of its own."""
    from kit.mariadb import mariadb  # here: it loads the harnesses, which few tests need

    with mariadb(tmp_path_factory.mktemp("maria")) as running:
        yield running


@pytest.fixture
def schema(maria: MariaDb, request: pytest.FixtureRequest) -> str:
    """A database of MariaDB of the test's own, named after it."""
    name = request.node.name.translate(str.maketrans("[]-", "___"))
    return maria.make_schema(f"{name[5:40]}_{name[-12:]}")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The S3 server all tests share. Buckets are named after the test; who kills one starts a server of its own."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def _broker_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPool]:
    pool = BrokerPool(tmp_path_factory.mktemp("own-brokers"))
    yield pool
    pool.close()


@pytest.fixture
def own_broker(_broker_pool: BrokerPool) -> Iterator[DevBroker]:
    """A running broker for the test alone: `.bootstrap`, `.stop()`, `.kill()`, `.start()`, `.restart()`.

    Topics, groups and whatever else tests before it have made are still there: names are of the test's own.
    """
    with _broker_pool.one() as running:
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
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves threads, child processes or listening ports behind. Session fixtures stand before it."""
    before = Snapshot.now()
    request.config.pluginmanager.get_plugin("kit-limits").fixtures_stand(before.processes)
    yield
    left = before.left_behind(_GRACE_S)
    before.end_newcomers()
    assert not left, f"left behind by the test: {left}"


@pytest.fixture(autouse=True)
def _levels_of_a_fresh_process() -> Iterator[None]:
    """Log levels are those of a fresh process, whatever ran before: a worker's REST API sets any logger's."""
    if logging.root.level != logging.WARNING:
        logging.root.setLevel(logging.WARNING)
    before = {}
    for name, logger in logging.root.manager.loggerDict.items():
        if not isinstance(logger, logging.Logger):
            continue
        if name.startswith("kconnect") and logger.level != logging.NOTSET:
            logger.setLevel(logging.NOTSET)
        before[logger] = logger.level
    yield
    for logger, level in before.items():
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def _no_archive_in_the_background() -> Iterator[None]:
    """Workers and brokers of tests use class archives and make none: their makers would outlive the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KCONNECT_MAKE_CLASS_ARCHIVE", "no")
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_temporary_files_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Temporary files of the run and of the processes it starts go to one folder; ours must be gone at the end."""
    folder = tmp_path_factory.mktemp("tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)  # read TMPDIR anew
        yield
    left = sorted(path.name for path in folder.iterdir() if path.name.startswith("kconnect"))
    assert not left, f"temporary files left behind: {left}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turns a skip into a failure when what the test needs is required (KCONNECT_REQUIRE)."""
    report = yield
    needs = {mark.name for mark in item.iter_markers()} & {"broker", "java", "spark"}
    if report.skipped and not hasattr(report, "wasxfail") and _required() & needs:
        report.outcome = "failed"
        report.longrepr = (
            f"skipped, although {', '.join(sorted(_required() & needs))} is required here: {report.longrepr}"
        )
    return report


def _required() -> set[str]:
    return {name.strip() for name in os.environ.get(REQUIRED, "").split(",") if name.strip()}
