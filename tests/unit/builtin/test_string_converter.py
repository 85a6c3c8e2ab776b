"""StringConverter with character sets other than UTF-8."""

from __future__ import annotations

import pytest

from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.errors import ConfigError


def made(encoding: str) -> StringConverter:
    converter = StringConverter()
    converter.configure({"converter.encoding": encoding})
    return converter


def test_utf_16_is_written_and_read_as_by_javas_converter() -> None:
    """Java writes a byte order mark and the high byte first, and takes what has no mark for that."""
    converter = made("UTF-16")
    assert converter.from_connect_data("t", None, "a") == b"\xfe\xff\x00a"
    for raw in (b"\xfe\xff\x00a", b"\x00a", b"\xff\xfea\x00"):
        assert converter.to_connect_data("t", raw).value == "a"


@pytest.mark.parametrize("encoding", ["hex", "undefined", "nope"])
def test_what_is_no_character_set_is_refused_before_the_first_record(encoding: str) -> None:
    with pytest.raises(ConfigError, match=f"Unsupported encoding {encoding}"):
        made(encoding)
