from __future__ import annotations

import io
import logging
import re
import threading
from collections.abc import Iterator

import pytest

from kconnect.logs import log_context as logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.level
    out = io.StringIO()
    handler = logs.configure("debug", out)
    yield out
    root.removeHandler(handler)
    root.setLevel(before)


def test_a_line_has_time_level_context_message_and_place(stream: io.StringIO) -> None:
    with logs.log_context("orders", 0, "offsets"):
        logging.getLogger("kconnect.test").info("flushed %d", 3)

    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO \[orders\|task-0\|offsets\] flushed 3 \(kconnect\.test:\d+\)\n",
        stream.getvalue(),
    )


def test_contexts_nest_and_end_with_their_block() -> None:
    with logs.log_context("orders"):
        assert logs.current_context() == "[orders|worker] "
        with logs.log_context("orders", 1):
            assert logs.current_context() == "[orders|task-1] "
        assert logs.current_context() == "[orders|worker] "
        with logs.log_context("orders", stage="validate"):
            assert logs.current_context() == "[orders|validate] "
    assert logs.current_context() == ""


def test_a_thread_sets_its_own_context() -> None:
    seen = []

    def run() -> None:
        seen.append(logs.current_context())
        logs.set_log_context("orders", 2)
        seen.append(logs.current_context())

    with logs.log_context("other"):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(5)

    assert seen == ["", "[orders|task-2] "]


def test_a_trace_follows_its_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("kconnect.test").exception("failed")

    assert "ERROR failed (kconnect.test:" in stream.getvalue()
    assert stream.getvalue().endswith("ValueError: boom\n")


def test_configuring_again_replaces_the_handler(stream: io.StringIO) -> None:
    second = io.StringIO()
    handler = logs.configure(logging.WARNING, second)
    try:
        logging.getLogger("kconnect.test").info("quiet")
        logging.getLogger("kconnect.test").warning("loud")
    finally:
        logging.getLogger().removeHandler(handler)

    assert stream.getvalue() == ""
    assert "loud" in second.getvalue()
    assert "quiet" not in second.getvalue()


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "connection.password",
        "db_password",
        "producer.override.sasl.jaas.config",
        "object.options.account_key",
        "object.options.client_kwargs",
        "ssl.key.password",
        "ssl.keystore.key",
        "aws.secret.access.key",
        "sasl.oauthbearer.client.credentials.client.secret",
        "api.key",
        "auth.token",
    ],
)
def test_secrets_are_masked_by_their_keys(key: str) -> None:
    assert logs.mask({key: "hunter2", "file": "x"}) == {key: "[hidden]", "file": "x"}


@pytest.mark.parametrize(
    "key",
    [
        "key.converter",
        "topic",
        "sasl.oauthbearer.token.endpoint.url",
        "offset.storage.topic",
        "transforms.k.type",
        "file",
    ],
)
def test_other_settings_are_shown(key: str) -> None:
    assert logs.mask({key: "x"}) == {key: "x"}


def test_keys_that_a_table_types_as_password_are_masked_too() -> None:
    assert logs.mask({"pin": "1234", "absent": None}, frozenset({"pin", "absent"})) == {
        "pin": "[hidden]",
        "absent": None,
    }
