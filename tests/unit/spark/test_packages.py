"""Workers take turns to fetch packages for Spark."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError, TimedOutError
from kconnect.files.file_turn import turn
from kconnect.spark.shipping import package_turn
from kit.waiting import eventually

_CONF = {"spark.jars.packages": "org.example:one:1.0"}


def test_without_packages_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    with turn(tmp_path / "spark-packages.lock", 0.0), package_turn({}, tmp_path, 0.0, threading.Event()):
        pass
    with package_turn({"spark.jars.packages": " "}, tmp_path / "none", 0.0, threading.Event()):
        assert not (tmp_path / "none").exists()


def test_the_second_waits_says_so_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    order: list[str] = []

    def second() -> None:
        with package_turn(_CONF, tmp_path, 60.0, threading.Event()):
            order.append("second")

    waiter = threading.Thread(target=second)
    with package_turn(_CONF, tmp_path, 60.0, threading.Event()):
        waiter.start()
        eventually(lambda: "waiting for it to fetch org.example:one:1.0" in caplog.text, 10, "it says why it waits")
        order.append("first")
    waiter.join(30)
    assert order == ["first", "second"]


def test_it_does_not_wait_for_ever_and_a_stop_ends_the_wait(tmp_path: Path) -> None:
    stopping = threading.Event()
    with package_turn(_CONF, tmp_path, 1.0, stopping):
        with (
            pytest.raises(TimedOutError, match=r"for 0\.1 s \(kconnect\.slot\.start\.timeout\.ms"),
            package_turn(_CONF, tmp_path, 0.1, stopping),
        ):
            pytest.fail("two at once")
        stopping.set()
        with pytest.raises(EnvironmentProblemError, match="stops"), package_turn(_CONF, tmp_path, 600.0, stopping):
            pytest.fail("two at once")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(EnvironmentProblemError, match=r"Cannot write .*file/spark-packages\.lock") as raised,
        package_turn(_CONF, tmp_path / "file", 1.0, threading.Event()),
    ):
        pytest.fail("without a lock")
    assert raised.value.hint is not None
    assert "KCONNECT_CACHE" in raised.value.hint
