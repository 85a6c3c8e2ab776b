"""Answers of HTTP as documents of JSON: undone compression, any character set, and a document a line."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Callable
from typing import Any, Final

from kconnect.api import ConnectError, DataError
from kconnect.api.http_client import Response, shown_url

# By their names in RFC 9110, for zlib: 16 is added for gzip's frame, -15 is deflate without any
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE: Final = -15
_PIECE: Final = 1 << 20
# What services call a document a line
_LINES: Final = ("ndjson", "jsonl", "jsonlines", "json-lines", "stream+json", "json-seq")
_SEPARATOR: Final = b"\x1e"  # before each document of json-seq, RFC 7464


def json_of(answer: Response, url: str, most_bytes: int, loads: Callable[[bytes | str], Any] = json.loads) -> Any:
    """The body as JSON, by `loads`; None if there is none, a list where there is a document a line.

    Errors: DataError; ConnectError for a body of more than `most_bytes`, or compressed as nobody asked for.
    """
    if answer.status == 204:
        return None
    body = _plain(answer, url, most_bytes)
    try:
        if any(name in _media_type(answer) for name in _LINES):
            lines = body.replace(_SEPARATOR, b"\n").splitlines()
            return [loads(_text(line, answer)) for line in lines if line.strip()]
        return loads(_text(body, answer))
    except (ValueError, LookupError) as err:
        raise DataError(f"{shown_url(url)} did not answer with JSON: {err}; it begins {body[:80]!r}") from err
    except RecursionError:
        raise DataError(f"{shown_url(url)} answered with JSON that is nested too deeply") from None


def _media_type(answer: Response) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _text(body: bytes, answer: Response) -> bytes | str:
    """Gives bytes where they are UTF-8, -16 or -32, which JSON distinguishes. Errors: ValueError, LookupError."""
    for parameter in answer.headers.get("content-type", "").split(";")[1:]:
        name, _, said = parameter.partition("=")
        if name.strip().lower() == "charset" and not body.startswith(codecs.BOM_UTF8):
            encoding = codecs.lookup(said.strip().strip("'\"")).name
            return body if encoding.startswith("utf") else body.decode(encoding)
    return body


def _plain(answer: Response, url: str, most_bytes: int) -> bytes:
    """The body without the compression that the server chose unasked, as those do that keep files compressed."""
    body = answer.body
    names = [name.strip().lower() for name in answer.headers.get("content-encoding", "").split(",")]
    for name in reversed([name for name in names if name not in ("", "identity")]):
        if name not in _WINDOWS:
            raise ConnectError(f"{shown_url(url)} answered with Content-Encoding: {name}, which nobody asked for")
        # Many servers call deflate what has no frame
        window = _RAW_DEFLATE if name == "deflate" and body[:1] != b"\x78" else _WINDOWS[name]
        try:
            body = _inflated(body, window, most_bytes)
        except zlib.error as err:
            raise DataError(f"{shown_url(url)} answered with {name} that cannot be read: {err}") from err
        if len(body) > most_bytes:
            hint = "Ask for smaller pages, or raise response.max.bytes."
            raise ConnectError(f"{shown_url(url)} answered with more than {most_bytes} bytes", hint=hint)
    return body


def _inflated(body: bytes, window: int, most_bytes: int) -> bytes:
    """The content, or so much of it that it is more than allowed. Errors: zlib.error, where it ends early as well."""
    made = bytearray()
    while body:
        part = zlib.decompressobj(window)
        while not part.eof:
            piece = part.decompress(body, _PIECE)
            body = part.unconsumed_tail
            made += piece
            if len(made) > most_bytes:
                return bytes(made)
            if not piece and not body and not part.eof:
                raise zlib.error("it ends early")
        body = part.unused_data.lstrip(b"\0")  # another part of gzip, or what fills the last
    return bytes(made)
