"""Which unknown settings are slips of known ones, and which are left alone."""

from __future__ import annotations

import pytest

from kconnect.runtime.config.misspelt import misspelt_settings, unknown_settings

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
def test_a_slip_is_reported_with_what_was_meant(written: str, meant: str) -> None:
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


def test_a_slip_is_reported_also_beside_the_right_name() -> None:
    assert misspelt_settings(["tasks.max", "task.max"], KNOWN) == {"task.max": "tasks.max"}


OF_ALL_KINDS = {
    *("name", "topics", "transforms", "predicates", "value.converter", "key.converter", "file"),
    *("transforms.x.type", "transforms.x.plugin.version", "transforms.x.predicate", "transforms.x.negate"),
    *("transforms.x.exclude", "transforms.x.include", "transforms.z.type", "transforms.z.plugin.version"),
    *("key.converter.plugin.version", "key.converter.schemas.enable", "value.converter.plugin.version"),
    *("consumer.override.max.poll.records",),
}


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ({"fil": "x"}, {"fil": "Unknown setting: fil. Did you mean file?"}),
        ({"something.else": "x"}, {"something.else": "Unknown setting: something.else"}),
        (
            {"transforms": "x", "transforms.x.type": "A", "transforms.x.fields": "ssn"},
            {"transforms.x.fields": "Unknown setting: transforms.x.fields"},
        ),
        (
            {"transforms": "x", "transforms.y.exclude": "ssn"},
            {"transforms.y.exclude": "transforms.y.exclude has no effect: transforms does not name y"},
        ),
        ({"transforms": "z", "transforms.z.type": "B", "transforms.z.own": "1"}, {}),  # its class lists nothing
        (
            {"value.converter.schemas.enable": "false"},
            {
                "value.converter.schemas.enable": "value.converter.schemas.enable has no effect without "
                "value.converter: the worker's converter has the worker's settings"
            },
        ),
        ({"value.converter": "V", "value.converter.own": "1"}, {}),  # it lists nothing either
        (
            {"key.converter": "K", "key.converter.own": "1"},
            {"key.converter.own": "Unknown setting: key.converter.own"},
        ),
        ({"topic.creation.default.cleanup.policy": "compact"}, {}),
        ({"consumer.override.max.poll.records": "5"}, {}),
    ],
)
def test_every_name_that_means_nothing_is_reported(config: dict[str, str], reported: dict[str, str]) -> None:
    assert unknown_settings(config, OF_ALL_KINDS, of_clients=True) == reported


def test_overrides_are_only_reported_of_by_who_knows_the_clients_settings() -> None:
    config = {"consumer.override.nothing": "5"}
    assert unknown_settings(config, OF_ALL_KINDS) == {}
    assert unknown_settings(config, OF_ALL_KINDS, of_clients=True) == {
        "consumer.override.nothing": "Unknown setting: consumer.override.nothing"
    }
