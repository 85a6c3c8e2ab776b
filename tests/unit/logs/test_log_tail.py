"""The last lines of a worker's log: fields, filters, bounds, secrets, and waiting for the next one."""

import logging
import sys

import pytest

from kconnect.logs import log_tail, redaction
from kconnect.logs.log_context import log_context
from kconnect.logs.log_tail import LogQuery, LogTail, parse_context
from kconnect.spark.messages import LogLine as SlotLine
from kconnect.spark.slot_io import replay_log_line


@pytest.fixture
def tail():
    """A tail on a logger of its own."""
    tail, logger = LogTail(lambda: 1_000.0), logging.getLogger("log_tail_test")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(tail.handler)
    yield tail
    logger.removeHandler(tail.handler)


log = logging.getLogger("log_tail_test")


def texts(tail, **query):
    return [line.text for line in tail.page(LogQuery(**query)).lines]


def test_a_line_has_connector_task_stage_and_slot_as_fields(tail):
    with log_context("orders", 3, "offsets"):
        log.warning("slow")
    replay_log_line(SlotLine(30, "log_tail_test", 7, 5.5, "task-orders-1", "[orders|task-1] ", "from a slot"), 2)
    own, slots = tail.page(LogQuery()).lines
    assert (own.level, own.connector, own.task, own.stage, own.slot) == ("WARN", "orders", 3, "offsets", None)
    assert (slots.connector, slots.task, slots.stage, slots.slot, slots.time_ms) == ("orders", 1, None, 2, 5500)
    assert slots.thread == "slot-2/task-orders-1"


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ("", (None, None, None)),
        ("[orders|worker] ", ("orders", None, None)),
        ("[orders|task-12] ", ("orders", 12, None)),
        ("[orders|validate] ", ("orders", None, "validate")),
        ("[a|b|task-0|offsets] ", ("a|b", 0, "offsets")),
        ("[a|task-1|worker] ", ("a|task-1", None, None)),
        ("[line\nfeed] |worker] ", ("line\nfeed] ", None, None)),
        ("[orders", (None, None, None)),
    ],
)
def test_the_prefix_of_a_line_is_taken_apart(context, found):
    assert parse_context(context) == found


def test_lines_of_a_connector_are_its_own_and_those_that_name_it(tail):
    with log_context("orders"):
        log.info("own")
    with log_context("orders-eu", 0):
        log.info("of orders-eu")
    for text in ("Task orders-0 is FAILED", "Stopping connector orders.", "orders-eu is new", "my.orders", "reorders"):
        log.info(text)
    assert texts(tail, connector="orders") == ["own", "Task orders-0 is FAILED", "Stopping connector orders."]


def test_level_time_and_limit_choose_lines(tail):
    for level, text in ((10, "d"), (20, "i"), (30, "w"), (40, "e")):
        log.log(level, text)
    assert texts(tail, level=30) == ["w", "e"]
    assert texts(tail, limit=1) == ["e"]
    assert texts(tail, limit=0) == []
    assert texts(tail, since_ms=2**62) == []
    assert texts(tail, since_ms=0) == ["d", "i", "w", "e"]


def test_pages_behind_a_number_leave_nothing_out(tail):
    before = tail.last
    for number in range(5):
        log.info("%d", number)
    first = tail.page(LogQuery(after=before, limit=3))
    second = tail.page(LogQuery(after=first.last, limit=3))
    assert [line.text for page in (first, second) for line in page.lines] == ["0", "1", "2", "3", "4"]
    assert tail.page(LogQuery(after=second.last)).lines == []
    assert not second.missed


def test_what_is_gone_is_reported(tail, monkeypatch):
    monkeypatch.setattr(log_tail, "MOST_LINES", 3)
    before = tail.last
    for number in range(5):
        log.info("%d", number)
    page = tail.page(LogQuery(after=before))
    assert ([line.text for line in page.lines], page.missed) == (["2", "3", "4"], True)


def test_numbers_of_an_earlier_worker_give_all_lines_of_the_next(tail):
    log.info("after the restart")
    page = tail.page(LogQuery(after=999_000_000))
    assert ([line.text for line in page.lines], page.missed) == (["after the restart"], False)


def test_memory_is_bounded_by_characters_too(tail, monkeypatch):
    monkeypatch.setattr(log_tail, "MOST_CHARS", 100)
    for _ in range(10):
        log.info("x" * 40)
    assert len(texts(tail)) == 2


def test_a_huge_trace_keeps_its_beginning_and_end(tail):
    log.info("begin %s end", "x" * 100_000)
    (text,) = texts(tail)
    assert len(text) < 21_000
    assert text.startswith("begin x")
    assert text.endswith("x end")
    assert "80010 characters left out" in text


def test_traces_come_along_and_secrets_do_not(tail):
    redaction.remember("log tail test", {"hunter2"})
    try:
        try:
            raise ValueError("password hunter2 is wrong")
        except ValueError:
            log.error("It failed", exc_info=sys.exc_info())
        log.info("later-secret")
        redaction.remember("log tail test", {"hunter2", "later-secret"})
        failed, later = texts(tail)
    finally:
        redaction.forget("log tail test")
    assert failed.startswith("It failed\nTraceback")
    assert failed.endswith("ValueError: password [hidden] is wrong")
    assert later == "[hidden]"


def test_a_watch_looks_at_each_line_once_and_ends_with_the_first_that_fits(tail):
    has_any = tail.watch(LogQuery(after=tail.last, level=40))
    assert not has_any()
    log.info("no")
    assert not has_any()
    log.error("yes")
    assert has_any()
