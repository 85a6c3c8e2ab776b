"""Lines that are longer than the terminal are broken between words, below where they begin."""

from __future__ import annotations

import io

import pytest

from kconnect_cli.commands import cluster, slots
from kconnect_cli.screen.output import fitted, plain_table, some_names, table_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("one two three", "one two\nthree"),
        ("  one two three", "  one two\n    three"),
        ("\x1b[31m  one two three\x1b[0m", "\x1b[31m  one two\n    three\x1b[0m"),
        ("  one two-words-that-are-long", "  one\n    two-words-that-are-long"),
    ],
)
def test_a_line_goes_on_below_its_margin_also_where_it_is_painted(
    line: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert fitted(line, Terminal()) == shown


def test_a_terminal_is_shown_what_names_and_messages_of_others_would_have_it_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as to clear itself, or to put a command into the clipboard. Colours are ours."""
    monkeypatch.setenv("COLUMNS", "80")
    assert fitted("\x1b[31mbad:\x1b[0m \x1b]52;c;cm0=\x07\r\x9b2J\tend", Terminal()) == (
        "\x1b[31mbad:\x1b[0m \\x1b]52;c;cm0=\\x07\\x0d\\x9b2J\tend"
    )
    assert plain_table(["NAME"], [["a\x1b[2J\nb"]]) == "NAME\na\\x1b[2J b\n"


def test_of_many_names_a_table_has_the_first_and_how_many_more() -> None:
    names = [f"c{number:03}" for number in range(1_000)]
    member = {"url": "http://a:1", "host": "/a", "leader": True, "config_offset": 7, "connectors": names, "tasks": []}
    slot = {"slot": 0, "attached": True, "tasks": [{"connector": name, "task": 0} for name in names]}
    for columns, row in ((cluster._MEMBERS, member), (slots._COLUMNS, slot)):
        _, line = table_text(columns, [row]).splitlines()
        assert "c000" in line
        assert " more" in line
        assert len(line) < 200
    assert some_names(names).endswith("c009 and 990 more")
    assert some_names(["long" * 50, "b"]) == f"{'long' * 50} and 1 more"
    assert (some_names(["a", "b"]), some_names([])) == ("a, b", "-")
