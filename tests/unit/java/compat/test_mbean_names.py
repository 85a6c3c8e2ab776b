"""Patterns of MBeans as Java reads them, and their names in Prometheus as the JMX exporter makes them."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.java.compat.mbean_names import exported_name, object_name_patterns


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        (None, []),
        ("", []),
        (" , ", []),
        ("debezium.*", ["debezium.*:*"]),
        ("debezium.*, kafka.*", ["debezium.*:*", "kafka.*:*"]),
        ("*", ["*:*"]),
        ("a:type=x,*,b.*", ["a:type=x,*", "b.*:*"]),
        ("a:type=x,name=y,b:type=z", ["a:type=x,name=y", "b:type=z"]),
        ("java.lang:type=Memory", ["java.lang:type=Memory"]),
    ],
)
def test_a_list_of_patterns_is_read(text: str | None, patterns: list[str]) -> None:
    assert object_name_patterns(text) == patterns


@pytest.mark.parametrize("text", ["a:", "a:type", "a:=x", "a:type=x,type=y", "a:type=x:y", "a:type="])
def test_a_pattern_that_java_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a pattern for MBeans"):
        object_name_patterns(text)


@pytest.mark.parametrize(
    ("domain", "properties", "path", "attribute", "name", "labels"),
    [
        (
            "debezium.postgres",
            ["type=connector-metrics", "context=streaming", "server=shop"],
            [],
            "MilliSecondsBehindSource",
            "debezium_metrics_MilliSecondsBehindSource",
            {"plugin": "postgres", "context": "streaming", "name": "shop"},
        ),
        (
            "debezium.sql_server",
            ["type=connector-metrics", "server=shop", "task=0", "context=snapshot", "database=db", "key=t"],
            [],
            "RowsScanned",
            "debezium_metrics_RowsScanned",
            {
                "plugin": "sql_server",
                "name": "shop",
                "task": "0",
                "context": "snapshot",
                "database": "db",
                "table": "t",
            },
        ),
        ("java.lang", ["type=Memory"], ["HeapMemoryUsage"], "used", "java_lang_Memory_HeapMemoryUsage_used", {}),
        (
            "kafka.producer",
            ["type=producer-metrics", "client-id=a b"],
            [],
            "record-send-rate",
            "kafka_producer_producer_metrics_record_send_rate",
            {"client_id": "a b"},
        ),
        ("3com", ["type=x"], [], "a--b", "_3com_x_a_b", {}),
    ],
)
def test_names_and_labels_are_those_of_the_exporter(
    domain: str, properties: list[str], path: list[str], attribute: str, name: str, labels: dict[str, str]
) -> None:
    pairs = [each.split("=") for each in properties]
    assert exported_name(domain, pairs, path, attribute) == (name, tuple(labels.items()))
