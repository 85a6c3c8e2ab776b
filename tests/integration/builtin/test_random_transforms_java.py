"""Random schemas, records and settings through Java's transformations (4.3) and ours: the same comes out.

KCONNECT_RANDOM_CASES=1000000 makes more of them (`make differential`), KCONNECT_RANDOM_SEED others.
"""

from __future__ import annotations

import collections
import os
from random import Random
from typing import Any

import pytest

from kconnect.api import (
    ConfigError,
    ConnectError,
    ConnectHeaders,
    ConnectRecord,
    DataError,
    RecordBatch,
    Schema,
    SourceRecord,
    Transformation,
)
from kconnect.runtime.plugins import PluginRegistry
from kit.java_answers import JavaAnswers, without_order, written_schema, written_value
from kit.random_data import (
    random_gaps,
    random_millis,
    random_plain,
    random_schema,
    random_struct_schema,
    random_value,
)
from kit.random_transforms import FAMILIES, random_config

pytestmark = pytest.mark.java

CASES = int(os.environ.get("KCONNECT_RANDOM_CASES", "20000"))
SEED = int(os.environ.get("KCONNECT_RANDOM_SEED", "1"))
RECORDS = 5
ROUND = 200
PLUGINS = PluginRegistry.load()
PACKAGE = "org.apache.kafka.connect.transforms."

# What Java's own slips raise, where ours says what is wrong.
SLIPS = {"NullPointerException", "ClassCastException", "ArrayIndexOutOfBoundsException", "IllegalArgumentException"}
# What Python's dates cannot hold, and patterns of weeks, which are only written: docs/differences.md
LIMITS = ("outside the years", "are not read")
KINDS = {"DataException": DataError, "SchemaBuilderException": DataError, "ConfigException": ConfigError}


class Question:
    """One transformation with its settings, and records of one pair of schemas."""

    def __init__(self, random: Random) -> None:
        self.family = random.choice(tuple(FAMILIES))
        part = random.choice(("$Key", "$Value", "$Value")) if FAMILIES[self.family][0] else ""
        self.name = PACKAGE + self.family + part
        self.config = random_config(random, self.family)
        self.key_schema, self.value_schema = (_schema(random) for _ in range(2))
        self.records = [self._record(random) for _ in range(RECORDS)]

    def _record(self, random: Random) -> SourceRecord:
        headers = ConnectHeaders()
        for _ in range(random.choice((0, 0, 0, 1, 3))):
            headers.add_string(random.choice(("h", "k")), random.choice(("", "v")))
        return SourceRecord(
            {},
            {},
            "topic",
            _value(random, self.value_schema),
            kafka_partition=1,
            key=_value(random, self.key_schema),
            key_schema=self.key_schema,
            value_schema=self.value_schema,
            timestamp=None if random.random() < 0.1 else random_millis(random),
            headers=headers,
        )

    def asked(self) -> dict[str, Any]:
        return {
            "class": self.name,
            "config": self.config,
            "keySchema": written_schema(self.key_schema),
            "valueSchema": written_schema(self.value_schema),
            "records": [
                {
                    "key": written_value(self.key_schema, record.key),
                    "value": written_value(self.value_schema, record.value),
                    "timestamp": record.timestamp,
                    "headers": [[header.key, header.value] for header in record.headers],
                }
                for record in self.records
            ],
        }

    def transformation(self) -> Transformation:
        made = PLUGINS.transformation(self.name)()
        made.configure(self.config)
        return made


def _schema(random: Random) -> Schema | None:
    draw = random.random()
    if draw < 0.25:
        return None
    return random_struct_schema(random) if draw < 0.85 else random_schema(random, 1)


def _value(random: Random, schema: Schema | None) -> Any:
    if schema is not None:
        made = random_value(random, schema)
        return random_gaps(random, made) if random.random() < 0.02 else made
    return {"a": random_plain(random), "ts": random_plain(random, 1)} if random.random() < 0.8 else random_plain(random)


def answer(record: ConnectRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "topic": record.topic,
        "timestamp": record.timestamp,
        "keySchema": written_schema(record.key_schema),
        "key": written_value(record.key_schema, record.key),
        "valueSchema": written_schema(record.value_schema),
        "value": written_value(record.value_schema, record.value),
        "headers": [[h.key, written_schema(h.schema), written_value(h.schema, h.value)] for h in record.headers],
    }


def by_records(question: Question) -> list[Any]:
    """What becomes of each record, or the error."""
    try:
        transformation = question.transformation()
    except ConnectError as error:
        return [error] * RECORDS
    made = []
    for record in question.records:
        try:
            made.append(answer(transformation.apply(record)))
        except ConnectError as error:
            made.append(error)
    return made


def by_columns(question: Question) -> list[Any] | None:
    """The same by the columnar form; None when the records are no batch or it hands them back."""
    batch = RecordBatch.from_records(question.records)
    if batch is None:
        return None
    try:
        made = question.transformation().apply_batch(batch)
    except ConnectError:
        return None  # replayed by records
    if made is NotImplemented:
        return None
    return [] if made is None else [answer(record) for record in made.to_records()]


def has_missing(answers: list[Any]) -> bool:
    """Whether a record lacks what its schema requires: columns leave it to the converter to find that."""
    return any(isinstance(each, ConnectError) and "null used for required" in str(each) for each in answers)


def agrees(ours: Any, java: Any) -> bool:
    if isinstance(ours, ConnectError):
        if not isinstance(java, dict) or "error" not in java:
            return any(limit in str(ours) for limit in LIMITS)
        kind = KINDS.get(java["error"], ConnectError)
        return java["error"] in SLIPS or isinstance(ours, kind)
    return without_order(ours) == without_order(java)


def test_random_records_come_out_as_from_java() -> None:
    random, done = Random(SEED), 0
    counted = collections.Counter[str]()
    differing = []
    with JavaAnswers() as java:
        while done < CASES:
            questions = [Question(random) for _ in range(ROUND)]
            for question, answers in zip(questions, java.ask([q.asked() for q in questions]), strict=True):
                ours = by_records(question)
                counted[question.family] += RECORDS
                counted["done"] += sum(not isinstance(each, ConnectError) for each in ours)
                for index, (mine, theirs) in enumerate(zip(ours, answers, strict=True)):
                    if not agrees(mine, theirs):
                        differing.append(
                            (question.name, question.config, question.asked()["records"][index], mine, theirs)
                        )
                columns = by_columns(question)
                if columns is not None and not has_missing(ours):
                    counted["columnar"] += len(columns)
                    assert columns == ours, (question.name, question.config, question.records)
                done += RECORDS
    assert not differing, (
        "\n\n".join("\n  ".join(map(str, case)) for case in differing[:5]) + f"\n{len(differing)} in all"
    )
    assert min(counted[family] for family in FAMILIES) > CASES / len(FAMILIES) / 2
    assert counted["done"] > CASES / 2, counted
    assert counted["columnar"] > CASES / 10, counted
