"""Levels of loggers that change while the process runs."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Iterator

import pytest

from kconnect.logs.log_context import LogLevels, level_number


@pytest.fixture(autouse=True)
def _levels_put_back() -> Iterator[None]:
    before, known = logging.root.level, set(logging.root.manager.loggerDict)
    logging.root.setLevel(logging.INFO)
    yield
    logging.root.setLevel(before)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name not in known and name.startswith(("levels", "org.")):
            del logging.root.manager.loggerDict[name]  # other tests look at which loggers there are
        elif isinstance(logger, logging.Logger) and (name not in known or name.startswith("kconnect")):
            logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("text", "number"),
    [("INFO", 20), (" warn ", 30), ("Fatal", 50), ("off", 60), ("TRACE", 5), ("ALL", 1), ("LOUD", None), ("", None)],
)
def test_levels_have_the_names_of_log4j(text: str, number: int | None) -> None:
    assert level_number(text) == number


def test_a_level_covers_what_is_below_and_says_which_changed() -> None:
    levels = LogLevels()
    names = ["levels.a", "levels.a.b", "levels.ab"]
    for name in names:
        logging.getLogger(name)
    before_ms = time.time_ns() // 1_000_000
    assert levels.set("levels.a", logging.DEBUG) == ["levels.a", "levels.a.b"]
    assert levels.set("levels.a", logging.DEBUG) == []
    assert [logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in names] == [True, True, False]
    found = levels.find("levels.a.b")
    assert found is not None
    assert (found.level, (found.last_modified_ms or 0) >= before_ms) == ("DEBUG", True)
    assert levels.find("levels.ab").to_json() == {"level": "INFO", "last_modified": None}  # type: ignore[union-attr]


def test_the_root_covers_all_and_its_name_has_no_case() -> None:
    levels = LogLevels()
    logging.getLogger("levels.own").setLevel(logging.DEBUG)
    assert {"root", "levels.own"} <= set(levels.set("ROOT", logging.ERROR))
    assert {level.level for level in levels.all().values()} == {"ERROR"}
    assert levels.find("Root") == levels.all()["root"]


def test_loggers_that_only_slots_use_are_known_before_they_log() -> None:
    logged = set(logging.root.manager.loggerDict)  # other tests of the run have loggers of their own
    levels = LogLevels()
    known = levels.all()

    assert {
        "kconnect.runtime.pipeline.sink",
        "kconnect.runtime.kafka.consumer",
        "kconnect.spark.slot_pool",
    } <= known.keys()
    assert "kconnect.errors" not in known  # it has none
    assert "kconnect.runtime.pipeline.sink" in levels.set("kconnect.runtime.pipeline", logging.DEBUG)
    assert all(importlib.util.find_spec(name) for name in known.keys() - logged if name.startswith("kconnect."))


def test_a_package_is_no_logger_until_it_has_a_level() -> None:
    levels = LogLevels()
    logging.getLogger("levels.only.inner")
    assert levels.find("levels.only") is None
    assert "levels.only" not in levels.all()
    levels.set("levels.only", logging.WARNING)
    assert levels.all()["levels.only"].level == "WARN"


def test_the_root_of_javas_loggers_stands_for_ours() -> None:
    logging.getLogger("kconnect.runtime.herder")
    assert "kconnect.runtime.herder" in LogLevels().set("org.apache.kafka.connect", logging.DEBUG)
