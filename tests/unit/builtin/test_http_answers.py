"""What a service answers as a document: compressed unasked, of any character set, a document a line, or none."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from kconnect.api import ConnectError, DataError
from kconnect.api.http_client import Response
from kconnect.builtin.connectors.http_answers import json_of

NAMES = [{"n": "Jürgen"}]
TEXT = json.dumps(NAMES, ensure_ascii=False)


def read(body: bytes, most_bytes: int = 1000, status: int = 200, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return json_of(Response(status, body, named), "http://x/items?k=1", most_bytes)


def bare_deflate(body: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(body) + made.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("identity", TEXT.encode()),
        ("gzip", gzip.compress(TEXT.encode())),
        ("x-gzip", gzip.compress(TEXT[:5].encode()) + gzip.compress(TEXT[5:].encode())),
        ("deflate", zlib.compress(TEXT.encode())),
        ("deflate", bare_deflate(TEXT.encode())),
        ("gzip, deflate", zlib.compress(gzip.compress(TEXT.encode()))),
    ],
    # The bytes have the time in them, and all processes of a run must give a test the same name
    ids=["identity", "gzip", "two of gzip", "deflate", "bare deflate", "both"],
)
def test_a_body_that_is_compressed_unasked_is_read(encoding: str, body: bytes) -> None:
    assert read(body, content_encoding=encoding) == NAMES


def test_a_compressed_body_that_is_cut_or_too_large_or_of_another_kind_is_an_error_that_says_so() -> None:
    with pytest.raises(DataError, match="gzip that cannot be read: it ends early"):
        read(gzip.compress(TEXT.encode())[:-9], content_encoding="gzip")
    with pytest.raises(ConnectError, match="more than 1000 bytes") as raised:
        read(gzip.compress(b"[" + b" " * 10_000_000 + b"]"), content_encoding="gzip")
    assert "response.max.bytes" in str(raised.value.hint)
    with pytest.raises(ConnectError, match="Content-Encoding: br, which nobody asked for"):
        read(b"\x8b", content_encoding="br")


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("application/json", "utf-8"),
        ("application/json", "utf-16"),
        ("application/json; charset=utf-8", "utf-8-sig"),
        ("application/json; charset=ISO-8859-1", "latin1"),
        ('text/json;q=1; Charset="windows-1252"', "cp1252"),
        ("application/json; charset=utf-16le", "utf-16-le"),
    ],
)
def test_a_body_is_of_the_character_set_that_the_server_names(kind: str, encoding: str) -> None:
    assert read(TEXT.encode(encoding), content_type=kind) == NAMES


def test_a_document_a_line_is_a_list() -> None:
    for kind in ("application/x-ndjson", "application/jsonl; charset=utf-8", "application/json-seq"):
        assert read(b'{"a": 1}\r\n\n{"a": 2}\n', content_type=kind) == [{"a": 1}, {"a": 2}]
    assert read(b'\x1e{"a": 1}\n\x1e{"a": 2}\n', content_type="application/json-seq") == [{"a": 1}, {"a": 2}]


def test_no_content_is_none_and_what_is_no_json_is_said_without_the_query() -> None:
    assert read(b"", status=204) is None
    for body, kind in ((b"<html>", "text/html"), (b"", ""), (b"[]", "application/json; charset=none-such")):
        with pytest.raises(DataError, match=r"http://x/items\?\.\.\. did not answer with JSON"):
            read(body, content_type=kind)
    with pytest.raises(DataError, match="nested too deeply"):
        read(b"[" * 100_000, most_bytes=200_000)
