from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.connector_config import (
    PluginSpec,
    SinkConnectorConfig,
    SourceConnectorConfig,
    TransformSpec,
    prefixed,
    transform_specs,
)

SOURCE = {"name": "a", "connector.class": "X", "tasks.max": "3", "errors.tolerance": "all"}
SINK = {"name": "a", "connector.class": "X", "topics": "t, u"}
CHAIN = {
    "transforms": "hoist, mark",
    "transforms.hoist.type": "HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.mark.type": "InsertField$Value",
    "transforms.mark.static.field": "from",
    "transforms.mark.predicate": "mine",
    "transforms.mark.negate": " TRUE ",
    "predicates": "mine",
    "predicates.mine.type": "TopicNameMatches",
    "predicates.mine.pattern": "x.*",
}


def test_a_source_config_is_typed() -> None:
    config = SourceConnectorConfig.parse({**SOURCE, "transaction.boundary": "INTERVAL"})

    assert (config.name, config.tasks_max, config.tolerates_errors) == ("a", 3, True)
    assert config.transaction_boundary == "interval"
    assert config.key_converter is None


def test_a_sink_config_is_typed() -> None:
    config = SinkConnectorConfig.parse({**SINK, "errors.deadletterqueue.topic.name": "dead"})

    assert (config.topics, config.topics_regex, config.dead_letters and config.dead_letters.topic) == (
        ["t", "u"],
        None,
        "dead",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topics": ""}, "Must configure one of topics or topics.regex"),
        ({"topics.regex": "t.*"}, "topics and topics.regex are mutually exclusive options"),
        ({"errors.deadletterqueue.topic.name": "u"}, "The DLQ topic 'u' may not be included in the list of topics"),
        (
            {"topics": "", "topics.regex": "t.*", "errors.deadletterqueue.topic.name": "tx"},
            "The DLQ topic 'tx' may not be matched by the regex",
        ),
    ],
)
def test_topics_that_contradict_are_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SinkConnectorConfig.parse({**SINK, **change})


def test_a_chain_is_spelled_out_in_order() -> None:
    hoist, mark = transform_specs(CHAIN)

    assert hoist == TransformSpec(
        PluginSpec("hoist", "HoistField$Value", {"type": "HoistField$Value", "field": "line"})
    )
    assert mark.predicate == PluginSpec("mine", "TopicNameMatches", {"type": "TopicNameMatches", "pattern": "x.*"})
    assert mark.negate
    assert mark.transform.config == {"type": "InsertField$Value", "static.field": "from"}


@pytest.mark.parametrize("gone", ["transforms.hoist.type", "predicates.mine.type"])
def test_an_alias_without_type_is_refused(gone: str) -> None:
    with pytest.raises(ConfigError, match=f'Missing required configuration "{gone}"'):
        transform_specs({key: value for key, value in CHAIN.items() if key != gone})


def test_a_prefix_is_taken_off() -> None:
    assert prefixed({"p.a": "1", "p.": "2", "q": "3"}, "p.") == {"a": "1"}
