"""Lines of the log as JSON, one object each."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kconnect.logs import log_context as logs
from kconnect.logs import redaction
from kconnect.spark.messages import LogLine
from kconnect.spark.slot_io import replay_log_line


@pytest.fixture
def handler() -> Iterator[logging.StreamHandler[io.StringIO]]:
    root = logging.getLogger()
    before = root.level
    handler = logs.configure("debug", io.StringIO(), "json")
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.fixture
def stream(handler: logging.StreamHandler[io.StringIO]) -> io.StringIO:
    return handler.stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_object_whatever_is_in_it(
    handler: logging.StreamHandler[io.StringIO], stream: io.StringIO
) -> None:
    record = logging.LogRecord(
        "kconnect.test", logging.WARNING, __file__, 1, 'two\nlines, a "quote" and ü \ud800', None, None
    )
    with logs.log_context("or|ders", 3, "value-converter"):  # past the root: reports of tests have no lone surrogates
        handler.handle(record)
    (found,) = lines(stream)
    assert found["level"] == "WARN"
    assert (found["connector"], found["task"], found["stage"]) == ("or|ders", 3, "value-converter")
    assert found["message"] == 'two\nlines, a "quote" and ü \ud800'
    assert str(found["time"]).endswith("Z")
    assert {"logger", "line", "worker", "thread"} <= found.keys()
    assert "stack" not in found
    assert stream.getvalue().isascii()


def test_the_worker_part_of_a_connector_is_no_stage_and_a_line_of_none_has_no_connector(stream: io.StringIO) -> None:
    with logs.log_context("orders"):
        logging.getLogger("kconnect.test").info("one")
    logging.getLogger("kconnect.test").info("two")
    first, second = lines(stream)
    assert first["connector"] == "orders"
    assert not {"task", "stage"} & first.keys()
    assert not {"connector", "task", "stage"} & second.keys()


def test_a_trace_is_apart_also_of_a_line_that_a_slot_sent_and_secrets_are_in_neither(stream: io.StringIO) -> None:
    redaction.remember("test", ["hunter2hunter2"])
    try:
        try:
            raise ValueError("hunter2hunter2")
        except ValueError:
            logging.getLogger("kconnect.test").exception("failed with hunter2hunter2")
        text = "poll failed\nTraceback (most recent call last):\n  File x\nValueError: hunter2hunter2"
        replay_log_line(LogLine(40, "my.plugin", 7, 1_700_000_000.5, "task-orders-1", "[orders|task-1] ", text), 2)
    finally:
        redaction.forget("test")
    here, there = lines(stream)
    assert here["message"] == "failed with [hidden]"
    assert str(here["stack"]).startswith("Traceback (most recent call last):\n")
    assert str(here["stack"]).endswith("ValueError: [hidden]")
    assert (there["message"], there["connector"], there["task"]) == ("poll failed", "orders", 1)
    assert there["stack"] == "Traceback (most recent call last):\n  File x\nValueError: [hidden]"
    assert (there["time"], there["thread"]) == ("2023-11-14T22:13:20.500Z", "slot-2/task-orders-1")


def test_levels_given_at_the_start_are_kept_for_slots() -> None:
    logs.give_levels({"kconnect.test.levels.below": logging.ERROR, "kconnect.test.levels": logging.DEBUG})
    try:
        assert list(logs.given_levels().items())[-2:] == [
            ("kconnect.test.levels", logging.DEBUG),
            ("kconnect.test.levels.below", logging.ERROR),
        ]
        assert logging.getLogger("kconnect.test.levels.other").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("kconnect.test.levels.below.x").isEnabledFor(logging.WARNING)
    finally:
        for name in ("kconnect.test.levels.below", "kconnect.test.levels"):
            logs._given.pop(name)
            logging.getLogger(name).setLevel(logging.NOTSET)
