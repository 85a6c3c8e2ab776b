"""A command that finds no connector of a name shows those that there are, whichever words said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import ConnectError, NotFoundError, UnreachableError
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.connector_files import refuse_settings
from kconnect_cli.session import CliSession


class Reader:
    def __init__(self, names: list[str] | None) -> None:
        self.names = names

    def connectors(self) -> list[str]:
        if self.names is None:
            raise UnreachableError("Nobody answers")
        return self.names


def hint_of(error: ConnectError, names: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(CliSession, "reader", Reader(names))
    CliSession().suggest(error)
    return error.hint


@pytest.mark.parametrize(
    "sentence",
    [
        "Connector ordrs not found",
        "Unknown connector ordrs",
        "Unknown connector: ordrs",
        "The config topic has no config of a connector ordrs",
    ],
)
def test_a_near_name_is_shown(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hint_of(NotFoundError(sentence), ["orders", "x"], monkeypatch) == "Did you mean orders?"


def test_a_hint_that_is_there_stays_and_other_errors_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = NotFoundError("Unknown connector ordrs", hint="Look.")
    assert hint_of(kept, ["orders"], monkeypatch) == "Look."
    assert hint_of(NotFoundError("Topic ordrs does not exist"), ["orders"], monkeypatch) is None
    assert hint_of(ConnectError("Unknown connector ordrs"), ["orders"], monkeypatch) is None
    assert hint_of(NotFoundError("Connector orders not found"), ["orders"], monkeypatch) is None


def test_settings_in_place_of_files_are_refused_as_such(tmp_path: Path) -> None:
    file = tmp_path / "a=b.json"
    file.touch()
    refuse_settings([str(file), "orders.json", "-"])
    with pytest.raises(UsageProblem, match=r"^topic=orders is a setting; files are expected here$"):
        refuse_settings(["orders", "topic=orders"])


def test_names_that_are_not_known_are_no_second_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hint_of(NotFoundError("Unknown connector ordrs"), None, monkeypatch) is None
