"""JSON that commands read and write: what is odd in it, what is wrong with it, files that are replaced as a whole."""

from __future__ import annotations

import json
import os

import pytest

from kconnect.errors import ConfigError, ConnectError
from kconnect_cli.files.json_files import read_json, write_whole_file
from kconnect_cli.screen.output import json_cell, json_text

# What Java's worker may have written, and orjson does not take: half of a surrogate pair, more than 64 bits
ODD = {"b": 2**70, "a": "\ud800", "c": "grün"}


@pytest.mark.parametrize("text_of", [json_text, json_cell])
def test_odd_values_are_written_so_that_they_are_read_again(text_of):
    text = text_of(ODD)

    assert json.loads(text.encode().decode()) == ODD


def test_equal_values_read_the_same_in_a_table():
    assert json_cell({"b": 1, "a": None}) == json_cell({"a": None, "b": 1}) == '{"a":null,"b":1}'
    assert json_cell(None) == "-"


@pytest.mark.parametrize(
    ("data", "said"),
    [(b'{"a": 1,}', "is not JSON: .* at line 1, column [89]"), (b'{"a": "\xff"}', "is not UTF-8 text")],
)
def test_what_is_wrong_with_a_file_names_it(tmp_path, data, said):
    file = tmp_path / "offsets.json"
    file.write_bytes(data)

    with pytest.raises(ConfigError, match=f"offsets.json {said}"):
        read_json(str(file))


def test_a_file_that_can_not_be_replaced_stays_and_nothing_lies_beside_it(tmp_path):
    target = tmp_path / "saved.json"
    target.mkdir()

    with pytest.raises(ConnectError, match=r"saved\.json cannot be written"):
        write_whole_file(str(target), "{}")

    assert os.listdir(tmp_path) == ["saved.json"]


def test_only_its_owner_reads_a_file_with_secrets(tmp_path):
    file = tmp_path / "saved.json"

    write_whole_file(str(file), "{}", is_secret=True)

    assert (file.read_text(), file.stat().st_mode & 0o777) == ("{}", 0o600)
