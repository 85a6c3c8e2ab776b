from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConfigError, NotFoundError
from kconnect.java.compat.properties import (
    dump_properties,
    parse_properties,
    read_properties,
    strict_properties,
    write_properties,
)

# Each was read by java.util.Properties (JDK 17) too; tests/integration/runtime/config compares many more.
READ_BY_JAVA = {
    "# comment\n! also\n\nkey=value\n": {"key": "value"},
    "a : 1\nb 2\nc\t=\t3": {"a": "1", "b": "2", "c": "3"},
    "lonely": {"lonely": ""},
    "a=one\\\n   two": {"a": "onetwo"},
    "a=one\\\\\nb=2": {"a": "one\\", "b": "2"},
    "a=one\\\n# no comment": {"a": "one# no comment"},
    "\\\n# a comment\nb=2": {"b": "2"},
    "k\\=e\\:y\\ x=v": {"k=e:y x": "v"},
    "a=\\t\\n\\r\\f\\z\\\\": {"a": "\t\n\r\fz\\"},
    "a=\\u0041\\u00e9\\uD83D\\uDE00": {"a": "Aé😀"},
    "a=1\ra=2\r\na=3": {"a": "3"},
    "a= b \t": {"a": "b \t"},
    "=v": {"": "v"},
    "a==b": {"a": "=b"},
    "\\": {"": ""},
    "": {},
}


@pytest.mark.parametrize(("text", "settings"), READ_BY_JAVA.items())
def test_text_is_read_as_java_reads_it(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_bytes_are_latin_1() -> None:
    assert parse_properties(b"a=\xe9") == {"a": "é"}


def test_utf8_is_read_as_java_does_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert parse_properties("# é\na=é".encode(), "w.properties") == {"a": "Ã©"}

    assert "w.properties, line 1: it holds UTF-8" in caplog.text


def test_a_key_that_stands_twice_in_a_workers_file_is_reported_with_both_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "w.properties"
    path.write_text("a=1\nb=2\na=3\n")
    assert read_properties(path) == {"a": "3", "b": "2"}
    assert f"{path}: a is in line 1 and in line 3; the last one counts" in caplog.text


def test_settings_typed_as_text_may_not_stand_twice_and_are_unicode() -> None:
    assert strict_properties("a=é ☕\n", "form") == {"a": "é ☕"}
    with pytest.raises(ConfigError, match="form: a is in line 1 and in line 2"):
        strict_properties("a=1\na=2\n", "form")


@pytest.mark.parametrize("text", ["ok=1\n\nbad=\\u12", "ok=1\n# c\nbad\\uXYZW=1"])
def test_a_malformed_escape_names_file_and_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^w\.properties, line 3: Malformed") as refused:
        parse_properties(text, "w.properties")

    assert refused.value.hint


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read_back(settings: dict[str, str]) -> None:
    settings = {_paired(key): _paired(value) for key, value in settings.items()}

    assert parse_properties(dump_properties(settings)) == settings


def test_a_file_is_written_and_read_back(tmp_path: Path) -> None:
    write_properties(tmp_path / "w.properties", {"a b": " ü"}, comment="made by hand")

    assert read_properties(tmp_path / "w.properties") == {"a b": " ü"}
    assert (tmp_path / "w.properties").read_text("ascii").startswith("#made by hand\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.properties does not exist") as refused:
        read_properties(tmp_path / "none.properties")

    assert refused.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no settings"),
        (b"# only\n", "has no settings"),
        (b"a=\0", "not a text file"),
        (b'\xef\xbb\xbf\n {"group.id": "c"}', "is JSON, no .properties file"),
    ],
)
def test_a_file_of_no_use_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "w.properties").write_bytes(content)

    with pytest.raises(ConfigError, match=message) as refused:
        read_properties(tmp_path / "w.properties")

    assert refused.value.hint


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        read_properties(tmp_path)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "w.properties").write_bytes(b"\xef\xbb\xbfa=1")

    assert read_properties(tmp_path / "w.properties") == {"a": "1"}


def _paired(text: str) -> str:
    """Two lone surrogates side by side are one character to Java, and so to the reader."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
