"""Transformations and predicates against what Java's did (tests/golden/transforms, Kafka 4.3.0).

Every recorded case of a class we have is run. Cases that differ stand in transforms_known_different.json, with why.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConnectError, ConnectRecord, Predicate, RecordBatch, Transformation
from kconnect.builtin.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from kconnect.builtin.transforms.cast import CastKey, CastValue
from kconnect.builtin.transforms.extract_field import ExtractFieldKey, ExtractFieldValue
from kconnect.builtin.transforms.filter import Filter
from kconnect.builtin.transforms.flatten import FlattenKey, FlattenValue
from kconnect.builtin.transforms.header_from import HeaderFromKey, HeaderFromValue
from kconnect.builtin.transforms.headers import DropHeaders, InsertHeader
from kconnect.builtin.transforms.hoist_field import HoistFieldKey, HoistFieldValue
from kconnect.builtin.transforms.insert_field import InsertFieldKey, InsertFieldValue
from kconnect.builtin.transforms.mask_field import MaskFieldKey, MaskFieldValue
from kconnect.builtin.transforms.regex_router import RegexRouter
from kconnect.builtin.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from kconnect.builtin.transforms.set_schema_metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from kconnect.builtin.transforms.timestamp_converter import TimestampConverterKey, TimestampConverterValue
from kconnect.builtin.transforms.timestamp_router import TimestampRouter
from kconnect.builtin.transforms.value_to_key import ValueToKey
from kit.differences import hold_alike, numbered
from kit.golden import load, record_of, same

PACKAGE = "org.apache.kafka.connect.transforms."
TRANSFORMS: dict[str, type[Transformation]] = {
    PACKAGE + "Cast$Key": CastKey,
    PACKAGE + "Cast$Value": CastValue,
    PACKAGE + "DropHeaders": DropHeaders,
    PACKAGE + "ExtractField$Key": ExtractFieldKey,
    PACKAGE + "ExtractField$Value": ExtractFieldValue,
    PACKAGE + "Filter": Filter,
    PACKAGE + "Flatten$Key": FlattenKey,
    PACKAGE + "Flatten$Value": FlattenValue,
    PACKAGE + "HeaderFrom$Key": HeaderFromKey,
    PACKAGE + "HeaderFrom$Value": HeaderFromValue,
    PACKAGE + "HoistField$Key": HoistFieldKey,
    PACKAGE + "HoistField$Value": HoistFieldValue,
    PACKAGE + "InsertField$Key": InsertFieldKey,
    PACKAGE + "InsertField$Value": InsertFieldValue,
    PACKAGE + "InsertHeader": InsertHeader,
    PACKAGE + "MaskField$Key": MaskFieldKey,
    PACKAGE + "MaskField$Value": MaskFieldValue,
    PACKAGE + "RegexRouter": RegexRouter,
    PACKAGE + "ReplaceField$Key": ReplaceFieldKey,
    PACKAGE + "ReplaceField$Value": ReplaceFieldValue,
    PACKAGE + "SetSchemaMetadata$Key": SetSchemaMetadataKey,
    PACKAGE + "SetSchemaMetadata$Value": SetSchemaMetadataValue,
    PACKAGE + "TimestampConverter$Key": TimestampConverterKey,
    PACKAGE + "TimestampConverter$Value": TimestampConverterValue,
    PACKAGE + "TimestampRouter": TimestampRouter,
    PACKAGE + "ValueToKey": ValueToKey,
}
PREDICATES: dict[str, type[Predicate]] = {
    f"{PACKAGE}predicates.{kind.__name__}": kind for kind in (TopicNameMatches, HasHeaderKey, RecordIsTombstone)
}
KNOWN = json.loads((Path(__file__).parent / "transforms_known_different.json").read_text())

Case = dict[str, Any]
RECORDED: list[Case] = load("transforms/transforms.json")
PREDICATE_CASES: list[Case] = load("transforms/predicates.json")


def named(recorded: list[Case]) -> list[tuple[str, Case]]:
    """By their ids; some are there twice."""
    ids = [case["id"] for case in recorded]
    again = [ids[:index].count(name) for index, name in enumerate(ids)]
    return [
        (f"{name}#{count}" if count else name, case) for name, count, case in zip(ids, again, recorded, strict=True)
    ]


CASES = named(RECORDED)


def test_every_class_is_recorded() -> None:
    assert {case["class"] for _, case in CASES} == TRANSFORMS.keys() - {PACKAGE + "TimestampConverter$Key"}
    assert {case["class"] for case in PREDICATE_CASES} == set(PREDICATES)


def test_transformations_do_what_java_did() -> None:
    assert hold_alike(CASES, compare, KNOWN) == 246


def test_columns_give_the_records_that_records_give() -> None:
    # what those do instead that are known to differ is compared above
    alike = [(name, case) for name, case in CASES if name not in KNOWN]
    assert hold_alike(alike, compare_columns) == 246 - len(KNOWN)


def compare_columns(case: Case) -> None:
    transform = configured(case)
    if transform is None or case.get("exception") or case["phase"] == "configure":
        assert compare(case) is None  # batches that raise are replayed by records
        return
    record = record_of(case["record"])
    batch = RecordBatch.from_records([record] * 3)
    if batch is None:
        assert record.value_schema is None or record.key_schema is None  # schemaless: records only
        return
    made = transform.apply_batch(batch)
    if made is NotImplemented:
        return
    expected = transform.apply(record)
    if made is None:
        assert expected is None
        return
    for got in made.to_records():
        assert differences(got, expected) == []


def configured(case: Case) -> Transformation | None:
    transform = TRANSFORMS[case["class"]]()
    try:
        transform.configure(case["config"])
    except ConnectError as error:
        if case["phase"] == "configure" and str(error) == case["exception"]["message"]:
            return None
        raise
    return transform


def compare(case: Case) -> str | None:
    wanted = case.get("exception", {}).get("message")
    try:
        transform = configured(case)
        if transform is None:
            return None
        if case["phase"] == "configure" and wanted is None:
            return None
        record = record_of(case["record"])
        made = transform.apply(record)
    except ConnectError as error:
        return None if str(error) == wanted else f"raised {error!r}, Java {wanted!r}"
    if wanted is not None:
        return f"gave {made!r}, Java raised {wanted!r}"
    if case["result"] is None or made is None:
        return None if made is case["result"] else f"gave {made!r}"
    if (made is record) != case["same_instance"]:
        return f"same instance: {made is record}"
    return ", ".join(differences(made, record_of(case["result"]))) or None


def differences(ours: ConnectRecord | None, theirs: ConnectRecord | None) -> list[str]:
    assert ours is not None
    assert theirs is not None
    names = ["topic", "kafka_partition", "key_schema", "value_schema", "timestamp"]
    names += [name for name in ("source_partition", "source_offset", "kafka_offset") if hasattr(theirs, name)]
    found = [name for name in names if getattr(ours, name) != getattr(theirs, name)]
    for name in ("key", "value"):
        pair = [getattr(ours, name), getattr(theirs, name)]
        if getattr(theirs, f"{name}_schema") is None:
            pair = [as_java_dates(value) for value in pair]
        if not same(*pair):
            found.append(name)
    if list(ours.headers) != list(theirs.headers):
        found.append("headers")
    return [f"{name}: {getattr(ours, name)!r} is not {getattr(theirs, name)!r}" for name in found]


def as_java_dates(value: Any) -> Any:
    """Without a schema Java has one class for dates, times of day and instants, and so has the recording."""
    if isinstance(value, dict):
        return {key: as_java_dates(item) for key, item in value.items()}
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(datetime.date(1970, 1, 1), value, datetime.UTC)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time(), datetime.UTC)
    return value


def test_predicates_do_what_java_did() -> None:
    assert hold_alike(numbered(PREDICATE_CASES, lambda case: case["config"]), compare_predicate) == 19


def compare_predicate(case: Case) -> None:
    predicate = PREDICATES[case["class"]]()
    if "exception" in case:
        with pytest.raises(ConnectError) as caught:
            predicate.configure(case["config"])
        assert str(caught.value) == case["exception"]["message"]
        return
    predicate.configure(case["config"])
    record = record_of(case["record"])
    assert predicate.test(record) == case["result"]
    assert str(predicate) == case["toString"]
    batch = RecordBatch.from_records([record])
    if batch is not None:
        rows = predicate.test_batch(batch)
        assert (rows if isinstance(rows, bool) else rows[0].as_py()) == case["result"]
