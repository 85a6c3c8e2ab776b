"""Declared types in sources: every digit of a file's numbers, and what does not fit is its record's error."""

from __future__ import annotations

import base64
import json

import pytest

from kconnect.testing import SourceHarness

DECLARED = "id bigint, price decimal(20,2), at timestamp, zip string"
PRICE = 12345678901234567891
AT = 1764237600000
FILES = {
    "a.jsonl": '{"id":1,"price":123456789012345678.91,"at":1764237600000,"zip":"01234"}\n{"id":"x"}\n{"id":2}\n',
    "a.json": '[{"id":1,"price":123456789012345678.91,"at":1764237600000,"zip":"01234"},{"id":"x"},{"id":2}]',
    "a.csv": "id,price,at,zip\n1,123456789012345678.91,2025-11-27T11:00:00+01:00,01234\nx,,,\n2,,,\n",
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_as_declared_to_the_last_digit(name, tmp_path):
    (tmp_path / name).write_text(FILES[name])
    settings = {"object.url": str(tmp_path), "topic": "t", "errors.tolerance": "all", "value.schema": DECLARED,
                "value.converter": "JsonConverter"}  # fmt: skip
    with SourceHarness("ObjectSource", settings) as source:
        source.poll(3)
        records = [json.loads(record.value) for record in source.log.records("t")]
    assert [record["payload"] for record in records] == [
        {"id": 1, "price": "AKtUqYzrHwrT", "at": AT, "zip": "01234"},
        {"id": 2, "price": None, "at": None, "zip": None},
    ]
    fields = {field["field"]: field for field in records[0]["schema"]["fields"]}
    assert fields["price"]["parameters"] == {"scale": "2", "connect.decimal.precision": "20"}
    assert int.from_bytes(base64.b64decode(records[0]["payload"]["price"]), "big") == PRICE
