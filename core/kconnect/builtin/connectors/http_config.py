"""The settings of HttpJsonSource."""

from __future__ import annotations

import urllib.parse
from typing import Any

from kconnect.api import ConfigDef, ConfigError
from kconnect.builtin.types.declarations import with_value_schema

_T, _I = ConfigDef.Type, ConfigDef.Importance


def _check_url(name: str, value: Any) -> None:
    parts = urllib.parse.urlsplit(value or "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError.invalid(name, value, "It must begin with http:// or https:// and name a host")
    if parts.username is not None:
        raise ConfigError.invalid(name, "[hidden]", "Give user and password in auth.user and auth.password")


HEADER_PREFIX = "header."

CONFIG = (
    with_value_schema(ConfigDef())
    .define_prefix(HEADER_PREFIX)
    .define(
        "url",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.LambdaValidator.with_(_check_url, "an http or https URL"),
        _I.HIGH,
        "What to ask for.",
    )
    .define(
        "topic",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Topic the items go to.",
    )
    .define(
        "poll.interval.ms",
        _T.LONG,
        60000,
        ConfigDef.Range.at_least(1),
        _I.HIGH,
        "Time between two rounds of requests.",
    )
    .define(
        "items.pointer",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "JSON pointer to the list of items in the answer, such as /data/items; empty: the answer itself.",
    )
    .define(
        "key.field",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Field of an item, or JSON pointer into it, that becomes the record's key.",
    )
    .define(
        "cursor.field",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "Field of an item, or JSON pointer into it, that only grows, such as id or updated_at. The "
        "largest is kept as offset; items that are not beyond it are left out.",
    )
    .define(
        "cursor.param",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Query parameter that carries the kept cursor to the server.",
    )
    .define(
        "cursor.initial",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "Cursor of the first request, when none is kept yet.",
    )
    .define(
        "pagination",
        _T.STRING,
        "none",
        ConfigDef.ValidString.in_("none", "link", "next"),
        _I.MEDIUM,
        "Where the next page is: nowhere, in the Link header (rel=next), or in the answer at pagination.next.pointer.",
    )
    .define(
        "pagination.next.pointer",
        _T.STRING,
        "/next",
        None,
        _I.MEDIUM,
        "JSON pointer to the next page's URL, or to a token for pagination.next.param.",
    )
    .define(
        "pagination.next.param",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Query parameter that carries the token of the next page; empty: the answer holds a URL.",
    )
    .define(
        "auth.type",
        _T.STRING,
        "none",
        ConfigDef.ValidString.in_("none", "basic", "bearer"),
        _I.MEDIUM,
        "How to sign in. Other headers: header.NAME=VALUE.",
    )
    .define(
        "auth.user",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "User of basic authentication.",
    )
    .define(
        "auth.password",
        _T.PASSWORD,
        None,
        None,
        _I.MEDIUM,
        "Password of basic authentication.",
    )
    .define(
        "auth.token",
        _T.PASSWORD,
        None,
        None,
        _I.MEDIUM,
        "Token of bearer authentication.",
    )
    .define(
        "tls.ca.file",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "PEM file of the authorities to trust, beside the system's.",
    )
    .define(
        "request.timeout.ms",
        _T.INT,
        10000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "How long an answer may take.",
    )
    .define(
        "response.max.bytes",
        _T.INT,
        64 << 20,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "How large an answer may be.",
    )
    .define(
        "retry.backoff.ms",
        _T.LONG,
        1000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "First wait after 429, 5xx or no answer; each next is twice as long. Retry-After counts more.",
    )
    .define(
        "retry.backoff.max.ms",
        _T.LONG,
        60000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "Longest of these waits.",
    )
    .define(
        "retries.max",
        _T.INT,
        -1,
        ConfigDef.Range.at_least(-1),
        _I.LOW,
        "Failures in a row before the task fails; -1: it never does.",
    )
)
