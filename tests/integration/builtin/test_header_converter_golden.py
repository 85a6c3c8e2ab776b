"""SimpleHeaderConverter against what Java's wrote and read (tests/golden/converters/headers.json, Kafka 4.3.0)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from kconnect.api import ConnectError
from kconnect.builtin.converters.header_converter import SimpleHeaderConverter
from kit.differences import hold_alike
from kit.golden import java_words, load, repaired, same, schema_of, value_of

KNOWN = json.loads((Path(__file__).parent / "converters_known_different.json").read_text())

Case = dict[str, Any]

HEADER_CASES = [
    (f"{index}/{case['op']}/{case.get('input', case.get('id'))!r}", case)
    for index, case in enumerate(load("converters/headers.json"))
]


def test_simple_header_converter_does_what_java_did() -> None:
    assert hold_alike(HEADER_CASES, compare_header, KNOWN["headers"]) == 266  # all that was recorded


def compare_header(case: Case) -> str | None:
    converter = SimpleHeaderConverter()
    wanted = java_words(case.get("exception", {}).get("message"))
    try:
        if case["op"].endswith("toConnectHeader"):
            return to_header(converter, case)
        schema = schema_of(case["schema_in"])
        made = converter.from_connect_header("t", "h", schema, value_of(repaired(case, case["value_in"]), schema))
    except ConnectError as error:
        return None if str(error) == wanted else f"raised {error!r}, Java {wanted or case.get('result')!r}"
    if wanted is not None:
        return f"gave {made!r}, Java raised {wanted!r}"
    expected = case["result"]["b64"]
    expected = None if expected is None else base64.b64decode(expected)
    return None if made == expected else f"{made!r} is not {expected!r}"


def to_header(converter: SimpleHeaderConverter, case: Case) -> str | None:
    made = converter.to_connect_header("t", "h", None if case["input"] is None else case["input"].encode())
    if case.get("returned_null"):
        return None if made.schema is None and made.value is None else repr(made)
    schema = schema_of(case["schema"])
    value = value_of(case["value"], schema)
    return None if made.schema == schema and same(made.value, value, schema) else f"{made!r} is not {schema}, {value!r}"
