"""The settings of HttpJsonSource."""

from __future__ import annotations

import urllib.parse
from typing import Any

from kconnect.api import ConfigDef, ConfigError
from kconnect.builtin.connectors.http_reading import KINDS
from kconnect.builtin.connectors.http_requests import HEADER_PREFIX, TOKEN_PARAM_PREFIX
from kconnect.builtin.types.declarations import with_value_schema

_T, _I = ConfigDef.Type, ConfigDef.Importance


def _check_url(name: str, value: Any) -> None:
    parts = urllib.parse.urlsplit(value or "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError.invalid(name, value, "It must begin with http:// or https:// and name a host")
    if parts.username is not None:
        raise ConfigError.invalid(name, "[hidden]", "Give user and password in auth.user and auth.password")


def _check_token_url(name: str, value: Any) -> None:
    if value:
        _check_url(name, value)


CONFIG = (
    with_value_schema(ConfigDef())
    .define_prefix(HEADER_PREFIX)
    .define_prefix(TOKEN_PARAM_PREFIX)
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
        "Field of an item, or JSON pointer into it, that only grows, such as id or updated_at: a number, a time, or a "
        "text. The largest is kept as offset; items before it, and those at it that came already, are left out.",
    )
    .define(
        "cursor.lookback",
        _T.DOUBLE,
        0.0,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "How far before the kept cursor to ask again, for items that come late, or a server that gives only what is "
        "beyond: seconds of a time, else a number. Items that came already are left out.",
    )
    .define(
        "cursor.identity",
        _T.STRING,
        "content",
        ConfigDef.ValidString.in_("content", "key"),
        _I.LOW,
        "How items with equal cursors are distinguished: by their whole content, or by key.field if other fields may "
        "change without a new cursor.",
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
        ConfigDef.ValidString.in_(*KINDS),
        _I.MEDIUM,
        "Where the next page is: nowhere; in the Link header (rel=next); in the answer at pagination.next.pointer; or "
        "counted, by page or by offset, until a page is empty.",
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
        "Query parameter that carries the token of the next page, where that is empty the answer holds a URL; or the "
        "number of the page, or the offset, where it is empty page or offset.",
    )
    .define(
        "pagination.start",
        _T.INT,
        1,
        ConfigDef.Range.at_least(0),
        _I.LOW,
        "Number of the first page, with pagination=page.",
    )
    .define(
        "pagination.size",
        _T.INT,
        0,
        ConfigDef.Range.at_least(0),
        _I.LOW,
        "Items of a page to ask for; 0: as many as the server gives.",
    )
    .define(
        "pagination.size.param",
        _T.STRING,
        "limit",
        None,
        _I.LOW,
        "Query parameter that carries pagination.size.",
    )
    .define(
        "pagination.total.pointer",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "JSON pointer to the number of items of all counted pages, which saves the question for an empty page.",
    )
    .define(
        "request.method",
        _T.STRING,
        "GET",
        ConfigDef.ValidString.in_("GET", "POST"),
        _I.MEDIUM,
        "How to ask.",
    )
    .define(
        "request.body",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Body of POST, with ${cursor}, ${token}, ${page}, ${offset} and ${limit}, which are JSON: "
        '{"since": ${cursor}, "query": "after:${cursor}"}. What it has is in no query parameter.',
    )
    .define(
        "request.content.type",
        _T.STRING,
        "application/json",
        ConfigDef.NonEmptyString(),
        _I.LOW,
        "Content-Type of the body; variables of application/x-www-form-urlencoded are escaped as such.",
    )
    .define(
        "auth.type",
        _T.STRING,
        "none",
        ConfigDef.ValidString.in_("none", "basic", "bearer", "oauth2"),
        _I.MEDIUM,
        "How to sign in; oauth2: by client credentials. Other headers: header.NAME=VALUE.",
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
        "auth.token.url",
        _T.STRING,
        "",
        ConfigDef.LambdaValidator.with_(_check_token_url, "an http or https URL"),
        _I.MEDIUM,
        "Where oauth2 gets its token, which is kept until it ends or is refused. auth.token.param.NAME=X goes along.",
    )
    .define(
        "auth.client.id",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Client of oauth2.",
    )
    .define(
        "auth.client.secret",
        _T.PASSWORD,
        None,
        None,
        _I.MEDIUM,
        "Secret of the client.",
    )
    .define(
        "auth.client.in",
        _T.STRING,
        "header",
        ConfigDef.ValidString.in_("header", "body"),
        _I.LOW,
        "Where the client and its secret go: into the Authorization header, or into the body.",
    )
    .define(
        "auth.scope",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "Scopes to ask for, separated by spaces.",
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
