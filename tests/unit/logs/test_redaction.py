"""Secrets are replaced in whatever leaves the process."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable

import pytest

from kconnect.logs import redaction
from kconnect.logs.log_context import LineFormatter, hide_in_urls, log_context
from kconnect.logs.redaction import Redactor
from kconnect.runtime.config.variables import plain_names


def test_the_longest_secret_is_replaced_first() -> None:
    redactor = Redactor()
    redactor.remember("a", ["pass", "password-1"])

    assert redactor.redact("password-1 and pass, passport") == "[hidden] and [hidden], passport"


@pytest.mark.parametrize("before", ["", "u", "user:", "an-app:", "x" * 30 + ":"])
@pytest.mark.parametrize("behind", ["", "@", "@host", "\n"])
@pytest.mark.parametrize("secret", ["S3cr3t-Passw0rd/with+odd", "hunter", "pä ss?>~~", "0123456789"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_a_secret_is_hidden_whatever_is_before_and_behind_it(
    before: str, behind: str, secret: str, encode: Callable[[bytes], bytes]
) -> None:
    redactor = Redactor()
    redactor.remember("a", [secret])
    text = encode(f"{before}{secret}{behind}".encode()).decode()
    left = redactor.redact(f"Authorization: Basic {text}").removeprefix("Authorization: Basic ")
    assert "[hidden]" in left
    shown = left.replace("[hidden]", "")
    assert len(shown) <= len(encode(f"{before}{behind}".encode())) + 4


@pytest.mark.parametrize("quoted", ["pass%2Fw%C3%B6rd%20%2B1", "pass/w%C3%B6rd%20%2B1", "pass%2Fw%C3%B6rd+%2B1"])
def test_a_secret_in_a_url_is_hidden(quoted: str) -> None:
    redactor = Redactor()
    redactor.remember("a", ["pass/wörd +1"])
    assert redactor.redact(f"mongodb://me:{quoted}@db") == "mongodb://me:[hidden]@db"


def test_base64_of_a_short_secret_is_no_secret() -> None:
    redactor = Redactor()
    redactor.remember("a", ["root1"])
    text = base64.b64encode(b"root1").decode()
    assert redactor.redact(text) == text


def test_a_word_is_hidden_as_a_value_and_not_in_other_words_names_and_traces() -> None:
    redactor = Redactor()
    redactor.remember("a", ["start", "java", "s3cret"])
    trace = (
        "Task a-0 failed: Source.start() raised java.lang.Error: restarted with start, see errors.start.max\n"
        '  File "/opt/kconnect/java/s3cret.py", line 4, in start\n'
        "    login('start', 's3cret')\n"
        "\tat java.base/java.lang.Thread.start(Thread.java:840)\n"
        "jdbc:x://java:start@h?p=start&q=xs3crety start2"
    )
    assert redactor.redact(trace) == (
        "Task a-0 failed: Source.start() raised java.lang.Error: restarted with [hidden], see errors.start.max\n"
        '  File "/opt/kconnect/java/s3cret.py", line 4, in start\n'
        "    login('[hidden]', '[hidden]')\n"
        "\tat java.base/java.lang.Thread.start(Thread.java:840)\n"
        "jdbc:x://[hidden]:[hidden]@h?p=[hidden]&q=x[hidden]y [hidden]2"
    )


@pytest.mark.parametrize("before", ["password%3D", "password%3d", r"line\n", r"\t", r"\x1b", r"\u00e4", "=", "1", "_"])
def test_a_word_is_hidden_behind_what_is_written_with_letters_and_is_none(before: str) -> None:
    redactor = Redactor()
    redactor.remember("a", ["start"])
    assert redactor.redact(f"{before}start%26") == f"{before}[hidden]%26"


@pytest.mark.parametrize("secret", ["sWordfish", "swordfishes", "sw0rd"])
def test_what_is_no_everyday_word_is_hidden_wherever_it_is(secret: str) -> None:
    redactor = Redactor()
    redactor.remember("a", [secret])
    assert redactor.redact(f"x{secret}y {secret}(1) a.{secret}.b") == "x[hidden]y [hidden](1) a.[hidden].b"


def test_each_owner_tells_its_secrets_anew_and_takes_them_back() -> None:
    redactor = Redactor()
    redactor.remember("a", ["first"])
    redactor.remember("b", ["second"])
    redactor.remember("a", ["third"])

    assert redactor.redact("first second third") == "first [hidden] [hidden]"
    redactor.forget("b")
    assert redactor.redact("first second third") == "first second [hidden]"


def test_a_name_with_a_secret_in_it_stays_as_it_is_and_the_secret_beside_it_does_not() -> None:
    redactor = Redactor()
    redactor.remember("a", ["dbz"], ["o-dbz-bin", "shop.dbz_signal", "dbz"])

    reported = redactor.redact(
        "Task o-dbz-bin-0 reads shop.dbz_signal with dbz, as o-dbz-binary does: jdbc:x?password=dbz"
    )

    assert reported == (
        "Task o-dbz-bin-0 reads shop.dbz_signal with [hidden], as o-[hidden]-binary does: jdbc:x?password=[hidden]"
    )
    redactor.keep("topics", "dbz.orders")
    assert redactor.redact("dbz.orders and dbz") == "dbz.orders and [hidden]"
    redactor.forget("a")
    assert redactor.redact("o-dbz-bin and dbz") == "o-dbz-bin and dbz"


def test_the_context_of_a_line_is_not_redacted() -> None:
    redaction.remember("context", ["dbz"])
    try:
        record = logging.LogRecord("l", logging.INFO, "", 7, "password %s", ("dbz",), None)
        with log_context("o-dbz-bin", 0):
            line = LineFormatter().format(record)
    finally:
        redaction.forget("context")
    assert line.endswith("INFO [o-dbz-bin|task-0] password [hidden] (l:7)")


def test_names_of_a_config_are_those_of_settings_that_are_no_secret_and_refer_to_none() -> None:
    config = {
        "name": "o-dbz-bin",
        "database.password": "dbz1",
        "token": "dbz2",
        "signal.data.collection": "shop.dbz_signal, shop.other",
        "connection.url": "jdbc:x?password=dbz1",
        "prefix": "a-${env:PASSWORD}",
        "own": "dbz3",
    }
    assert plain_names(config, frozenset({"own"})) == {"o-dbz-bin", "shop.dbz_signal", "shop.other"}


def test_a_secret_is_found_as_repr_and_json_spell_it() -> None:
    secret = 'a"b\\c\nd'
    redactor = Redactor()
    redactor.remember("a", [secret])

    shown = [redactor.redact(text) for text in (secret, repr(secret), '{"x":"a\\"b\\\\c\\nd"}')]

    assert shown == ["[hidden]", "'[hidden]'", '{"x":"[hidden]"}']


def test_what_is_too_short_to_be_a_secret_stays() -> None:
    redactor = Redactor()
    redactor.remember("a", ["", "1", "ab", "\n"])

    assert redactor.redact("1 table") == "1 table"


def test_log_lines_and_their_traces_hide_secrets() -> None:
    redaction.remember("test", ["hunter-22"])
    try:
        try:
            raise ValueError("login with hunter-22 failed")
        except ValueError as err:
            record = logging.LogRecord("x", logging.ERROR, "", 1, "tried %s", ("hunter-22",), (ValueError, err, None))
        line = LineFormatter().format(record)
    finally:
        redaction.forget("test")

    assert "hunter" not in line
    assert "tried [hidden]" in line
    assert "ValueError: login with [hidden] failed" in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "jdbc:postgresql://h/d?user=u&password=s3&ssl=true",
            "jdbc:postgresql://h/d?user=u&password=[hidden]&ssl=true",
        ),
        ("postgresql://ann:s3@h:5432/d", "postgresql://ann:[hidden]@h:5432/d"),
        ("redis://:s3@h", "redis://:[hidden]@h"),
        (
            "jdbc:sqlserver://h;user=u;password=s3;encrypt=true",
            "jdbc:sqlserver://h;user=u;password=[hidden];encrypt=true",
        ),
        ("jdbc:oracle:thin:ann/s3@//h:1521/s", "jdbc:oracle:thin:ann/[hidden]@//h:1521/s"),
        (
            "jdbc:mysql://h/d?trustCertificateKeyStorePassword=s3",
            "jdbc:mysql://h/d?trustCertificateKeyStorePassword=[hidden]",
        ),
        ("https://h/items?api.token=s3&page=1", "https://h/items?api.token=[hidden]&page=1"),
        ("http://a:s3@h/x, http://b:s3@g/y", "http://a:[hidden]@h/x, http://b:[hidden]@g/y"),
        ("Invalid value mongodb://u:s3@h for x", "Invalid value mongodb://u:[hidden]@h for x"),
        ("http://h:8080/a@b", "http://h:8080/a@b"),
        ("no url; password=kept", "no url; password=kept"),
    ],
)
def test_passwords_in_urls_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert hide_in_urls(text) == shown
