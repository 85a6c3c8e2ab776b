"""Bytes of character sets are Java's. What is wanted here is what Java 17 gave."""

from __future__ import annotations

import pytest

from kconnect.java.compat.charsets import charset_named

_TEXT = "\ud83dx\n"


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("UTF-16", _TEXT, "fefffffd0078000a"),
        ("utf16", "", ""),
        ("UTF-16LE", _TEXT, "fdff78000a00"),
        ("UTF-16BE", _TEXT, "fffd0078000a"),
        ("UTF-32", _TEXT, "0000fffd000000780000000a"),
        ("UTF-32LE", _TEXT, "fdff0000780000000a000000"),
        ("IBM037", "\u65e5\u65e5x\n\x85?", "3f3fa715156f"),
        ("IBM1140", "\u65e5x\n\x85?", "3fa715156f"),
        ("windows-31j", "\u65e5x", "93fa78"),
        ("US-ASCII", "\u65e5x", "3f78"),
    ],
)
def test_a_text_is_written_as_by_java(name: str, text: str, written: str) -> None:
    assert charset_named(name).encode(text).hex() == written


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("UTF-16", "0061", "a"),
        ("UTF-16", "feff0061", "a"),
        ("UTF-16", "fffe6100", "a"),
        ("UTF-16", "006100", "a\ufffd"),
        ("UTF-16BE", "feff0061", "\ufeffa"),
        ("UTF-16LE", "fffe6100", "\ufeffa"),
        ("UTF-32", "00000061", "a"),
        ("UTF-32", "fffe000061000000", "a"),
        ("UTF-32BE", "0000feff00000061", "a"),
        ("UTF-32LE", "fffe000061000000", "a"),
        ("IBM500", "1525a7", "\n\nx"),
        ("ISO-8859-15", "a4", "\u20ac"),
    ],
)
def test_bytes_are_read_as_by_java(name: str, raw: str, text: str) -> None:
    assert charset_named(name).decode(bytes.fromhex(raw)) == text


@pytest.mark.parametrize("name", ["hex", "base64", "rot13", "idna", "undefined", "nope", ""])
def test_what_is_no_character_set_is_refused(name: str) -> None:
    with pytest.raises(LookupError):
        charset_named(name)
