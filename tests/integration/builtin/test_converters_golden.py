"""Converters against what Java's wrote and read (tests/golden/converters, Kafka 4.3.0): every recorded case.

Cases that differ stand in converters_known_different.json with the reason; one that agrees again has to leave the list.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectError, Converter
from kconnect.builtin.converters.boolean_converter import BooleanConverter
from kconnect.builtin.converters.bytes_converter import ByteArrayConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.number_converters import (
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from kconnect.builtin.converters.string_converter import StringConverter
from kit.differences import hold_alike, numbered
from kit.golden import java_words, load, repaired, same, schema_of, value_of

CONVERTERS: dict[str, type[Converter]] = {
    kind.__name__: kind
    for kind in (
        JsonConverter,
        StringConverter,
        ByteArrayConverter,
        IntegerConverter,
        LongConverter,
        ShortConverter,
        DoubleConverter,
        FloatConverter,
        BooleanConverter,
    )
}
KNOWN = json.loads((Path(__file__).parent / "converters_known_different.json").read_text())

Case = dict[str, Any]


def name_of(file: str, case: Case) -> str:
    config = ",".join(f"{key}={value}" for key, value in sorted((case.get("config") or {}).items()))
    part = "key" if case.get("isKey") else "value"
    return f"{file.removesuffix('.json')}/{case['converter']}/{case['op']}/{part}/{case['id']}/{config}"


RECORDED = {
    "json-from-connect.json": 262,
    "json-roundtrip-to-connect.json": 212,
    "json-to-connect.json": 181,
    "other-converters.json": 784,
}
"""Each file with the number of its cases."""


def test_every_known_difference_is_one_of_a_recorded_file() -> None:
    assert {name.partition("/")[0] for name in KNOWN["converters"]} <= {name.removesuffix(".json") for name in RECORDED}


@pytest.mark.parametrize("file", RECORDED)
def test_converters_do_what_java_did(file: str) -> None:
    cases = [(name_of(file, case), case) for case in load(f"converters/{file}")]
    known = {name for name in KNOWN["converters"] if name.startswith(f"{file.removesuffix('.json')}/")}
    assert hold_alike(cases, compare, known) == RECORDED[file]


def compare(case: Case) -> str | None:
    """None when we do what Java did, else what was different."""
    converter = CONVERTERS[case["converter"]]()
    converter.configure(case.get("config") or {}, case["isKey"])
    wanted = java_words(case.get("exception", {}).get("message"))
    try:
        got = from_connect(converter, case) if case["op"] == "fromConnectData" else to_connect(converter, case)
    except ConnectError as error:
        return None if str(error) == wanted else f"raised {error!r}, Java {wanted or case['result']!r}"
    return f"gave {got}, Java raised {wanted!r}" if wanted is not None else got


def from_connect(converter: Converter, case: Case) -> str | None:
    schema = schema_of(case["schema"])
    made = converter.from_connect_data("t", schema, value_of(repaired(case, case["value"]), schema))
    if "result" not in case:
        return repr(made)
    wanted = case["result"]["b64"]
    wanted = None if wanted is None else base64.b64decode(wanted)
    return None if made == wanted else f"{made!r} is not {wanted!r}"


def to_connect(converter: Converter, case: Case) -> str | None:
    raw = case["input"]["b64"]
    made = converter.to_connect_data("t", None if raw is None else base64.b64decode(raw))
    if "result" not in case:
        return repr(made)
    schema = schema_of(case["result"]["schema"])
    value = value_of(case["result"]["value"], schema)
    return None if made.schema == schema and same(made.value, value, schema) else f"{made!r} is not {schema}, {value!r}"


def test_wrong_settings_are_refused_in_java_words() -> None:
    cases = numbered(load("converters/configure.json"), lambda case: f"{case['converter']}/{case['config']}")
    assert hold_alike(cases, compare_refusal, KNOWN["configure"]) == 13


def compare_refusal(case: Case) -> str | None:
    converter = CONVERTERS[case["converter"]]()
    wanted = case.get("exception", {}).get("message")
    try:
        converter.configure(case["config"], False)
        got = None
    except ConnectError as error:
        got = str(error)
    return None if got == wanted else f"refused with {got!r}, Java with {wanted!r}"
