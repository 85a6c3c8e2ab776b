"""Which unknown settings are slips of known ones, and which are left alone."""

from __future__ import annotations

import pytest

from kconnect.runtime.config.misspelt import misspelt_settings

KNOWN = [
    *("name", "connector.class", "tasks.max", "errors.tolerance", "topics", "n.max", "connection.url", "date.format"),
    *("key.converter", "key.converter.schemas.enable", "value.converter", "headers", "server.1", "batch.size"),
    "poll.interval.ms",
    *("transforms", "transforms.a.type", "transforms.a.field", "topic.creation.default.partitions"),
]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("task.max", "tasks.max"),
        ("error.tolerance", "errors.tolerance"),
        ("n.maxx", "n.max"),
        ("topic", "topics"),
        ("Tasks.Max", "tasks.max"),
        ("tasks_max", "tasks.max"),
        ("batchSize", "batch.size"),
        ("connecton.url", "connection.url"),
        ("nmae", "name"),
        ("transforms.a.feild", "transforms.a.field"),
        ("key.converter.schema.enable", "key.converter.schemas.enable"),
        ("poll.interval", "poll.interval.ms"),
        ("topic.creation.default.partition", "topic.creation.default.partitions"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(written: str, meant: str) -> None:
    assert misspelt_settings(["connector.class", written], KNOWN) == {written: meant}


@pytest.mark.parametrize(
    "free",
    [
        "connection.user",  # like connection.url as a whole, but another word
        "headers.tenant",  # one of a family
        "server.2",
        "data.format",
        "value.converter.schemas.enable",  # the worker's converter may take it; key.converter's is no other spelling
        "producer.override.lingr.ms",
        "consumer.override.tasks.max",
        "transforms.b.field",
        "jdbc.dialect",
    ],
)
def test_what_is_only_unknown_is_left_alone(free: str) -> None:
    assert misspelt_settings(["name", free], KNOWN) == {}


def test_a_slip_is_told_also_beside_the_right_name() -> None:
    assert misspelt_settings(["tasks.max", "task.max"], KNOWN) == {"task.max": "tasks.max"}
