"""What a trace says of a failure: whether a restart can help, and on which record it was."""

from __future__ import annotations

import traceback

import pytest

from kconnect.api import DataError
from kconnect.errors import ConfigError, NotFoundError
from kconnect.model import TaskId
from kconnect.runtime.herder.decisions import failures
from kconnect.runtime.herder.decisions.auto_restarts import Notice, NoticeKind
from kconnect.runtime.herder.decisions.failures import NoHelp, failure_of
from kconnect.runtime.herder.decisions.notice_texts import notice_text
from kconnect.runtime.pipeline.lifecycle import failure_text
from kconnect.runtime.pipeline.stages import Stage, StageError


def trace(error: BaseException, cause: BaseException | None = None) -> str:
    try:
        raise error from cause
    except BaseException as raised:
        return "".join(traceback.format_exception(raised))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (trace(ConfigError("Unknown topic")), NoHelp.CONFIG),
        (trace(RuntimeError("start failed"), ConfigError("Unknown topic")), NoHelp.CONFIG),
        (trace(ConfigError("the vault does not answer"), ConnectionRefusedError(111, "refused")), None),
        (trace(ModuleNotFoundError("No module named 'pyodbc'")), NoHelp.CLASS),
        (
            trace(NotFoundError("Failed to find any class that implements Connector and which name matches X")),
            NoHelp.CLASS,
        ),
        (trace(PermissionError(13, "Permission denied")), NoHelp.RIGHTS),
        (trace(RuntimeError("Broker: Topic authorization failed")), NoHelp.RIGHTS),
        (trace(RuntimeError("KafkaError{code=GROUP_AUTHORIZATION_FAILED,val=30}")), NoHelp.RIGHTS),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized\n\tat X.java", NoHelp.RIGHTS),
        (
            "org.apache.kafka.connect.errors.ConnectException: x\nCaused by: java.lang.NoClassDefFoundError: a/B",
            NoHelp.CLASS,
        ),
        (trace(OSError("disk full")), None),
        (trace(RuntimeError("the shop has burnt down")), None),
        ("", None),
        (None, None),
    ],
)
def test_a_restart_does_not_help_what_somebody_has_to_change(text: str | None, why: NoHelp | None) -> None:
    assert failure_of("w", text).no_help is why


def on_record(offset: int, stage: Stage = Stage.VALUE_CONVERTER) -> str:
    class Record:
        topic, kafka_partition, kafka_offset, key, value, headers = "orders", 2, offset, None, b"x", ()

    failure = StageError(stage, DataError, Record(), DataError("not JSON"))
    return failure_text(TaskId("c", 0), failure)


def test_the_same_record_has_the_same_digest_and_another_record_has_another() -> None:
    first, again, next_one = (failure_of("w", on_record(offset)).record for offset in (5, 5, 6))
    assert first
    assert first == again != next_one
    assert not failure_of("w", trace(RuntimeError("gone"))).record
    assert failure_of("w", trace(DataError("bad"))).record == failure_of("w", trace(DataError("bad"))).record != ""


def test_a_put_that_fails_is_not_about_its_record() -> None:
    assert not failure_of("w", on_record(5, Stage.TASK_PUT).replace("DataError", "RuntimeError")).record


def test_the_first_line_is_kept_short_and_without_its_time() -> None:
    found = failure_of("w", on_record(5))
    assert found.said.startswith("Task c-0 failed: ")
    assert "UTC" not in found.said
    assert len(failure_of("w", "x" * 5_000).said) == 300


def test_the_log_says_what_a_restart_of_a_sink_puts_again_and_how_it_is_switched_off() -> None:
    def text(said: str, restart_in_ms: int | None = 10_000) -> str:
        notice = Notice(NoticeKind.FAILED, TaskId("copy", 0), "w:1", said, 0, 5, restart_in_ms)
        return notice_text(notice)

    of_a_sink = "Task copy-0 failed: JdbcSinkTask.put() raised JavaPluginError: refused."
    assert text(of_a_sink) == (
        "Task copy-0 is FAILED on w:1, restart 1 of 5 in 10 s, which puts again what came since its last commit (with "
        f"errors.restart.max=0 it stays FAILED): {of_a_sink}"
    )
    assert "puts again" not in text(of_a_sink, None)
    assert "puts again" not in text("Task copy-0 failed: FileSource.poll() raised OSError: gone.")


@pytest.mark.parametrize(
    ("who", "mine", "others"),
    [("orders-0", ["orders", "orders-0"], ["orders-1", "order"]), ("a-b", ["a-b"], ["a"]), ("x-1-12", ["x-1"], ["x"])],
)
def test_who_has_ended_a_jvm_is_read_off_the_trace(who: str, mine: list[str], others: list[str]) -> None:
    ended = f"The JVM that runs Java's plugins ended (exit code 3, as {who} called System.exit at a.B.c(B.java:7))"
    failure = failure_of("w", trace(RuntimeError(f"{ended}: last words")))
    assert failure.ended_by == who
    assert not any(failure.is_of_others(name) for name in mine)
    assert all(failure.is_of_others(name) for name in others)
    assert not failure_of("w", trace(RuntimeError("gone"))).is_of_others("orders")


@pytest.mark.parametrize("who", ["the thread pool-1", "a plugin of the worker"])
def test_all_pay_for_a_jvm_that_no_connector_is_known_to_have_ended(who: str) -> None:
    ended = f"The JVM that runs Java's plugins ended (exit code 3, as {who} called System.exit at a.B.c(B.java:7))"
    assert not failure_of("w", trace(RuntimeError(ended))).is_of_others("orders")


def test_what_was_read_of_traces_is_bounded_and_keeps_none_of_them() -> None:
    for number in range(failures._MOST_READ + 10):
        said = f"kconnect.errors.ConnectError: attempt {number}"
        assert failure_of("w", f"{said}\n  at a line of Java\n").said == said
    assert len(failures._READ) <= failures._MOST_READ
    assert not any("a line of Java" in repr(kept) for kept in failures._READ.items())
