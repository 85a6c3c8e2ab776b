"""Corners of Jackson's reading, as random texts found them in Java's own."""

from __future__ import annotations

import pytest

from kconnect.java.compat.jackson import parse, read_base64


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", b""),
        ("AQ==", b"\1"),
        ("AIA=null", b"\0\x80\x9e\xe9e"),
        (" /38=", b"\xff\x7f"),
        ("AQ== \r\nAQ==", b"\1\1"),
        ("\0AQ==\x1f", b"\1"),
    ],
)
def test_base64_may_have_padding_and_white_space_between_its_groups(text: str, value: bytes) -> None:
    assert read_base64(text) == value


@pytest.mark.parametrize("text", ["A", "AQ", "AQ=", "AQ=A", "A Q==", "AQ\n==", "====", "AQ==é", "AQ== \u3000", "-_=="])
def test_base64_that_ends_within_a_group_or_has_other_signs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base64"):
        read_base64(text)


@pytest.mark.parametrize("literal", ["null", "true", "false"])
def test_behind_a_literal_a_character_of_several_bytes_is_an_error_in_utf_8_alone(literal: str) -> None:
    text = f"{literal}\N{GRINNING FACE}"

    with pytest.raises(ValueError, match="Invalid UTF-8 behind"):
        parse(text.encode())
    assert parse(text.encode("utf-16-le")) == parse(literal.encode())
