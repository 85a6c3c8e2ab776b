"""TableSink behind transformations that rename topics: tables by the new name, offsets by the topic that was read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigDef, ConnectError, TopicPartition, Transformation
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector, possible_topics
from kconnect.testing import SinkHarness
from kit.tables import FORMATS, read_table, table_settings

READ = "shop.public.orders"
ROUTED = {
    "topics": READ,
    "transforms": "short",
    "transforms.short.type": "RegexRouter",
    "transforms.short.regex": r"shop\.public\.(.*)",
    "transforms.short.replacement": "$1",
}


def settings_of(kind: str, folder: Path, **more: str) -> dict[str, str]:
    """A table for each topic."""
    found = table_settings(kind, folder) | {"flush.ms": "0"} | more
    if kind == "iceberg":
        return found | {"table.name": "default.${topic}"}
    return found | {"table.path": str(folder / "${topic}")}


def ids(settings: dict[str, str], topic: str) -> list[int]:
    named = {name: text.replace("${topic}", topic) for name, text in settings.items()}
    return sorted(row["id"] for row in read_table(named).to_pylist())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_has_the_new_name_and_each_record_once_although_the_task_dies(kind: str, tmp_path: Path) -> None:
    settings = settings_of(kind, tmp_path)
    sink = SinkHarness(TableSinkConnector, settings | ROUTED).start()
    sink.put({"id": 1}, {"id": 2})
    sink.crash()
    sink.start()
    sink.deliver()  # from the start: nothing was committed to Kafka
    sink.put({"id": 3})
    sink.commit()
    assert sink.committed == {TopicPartition(READ, 0): 3}
    sink.stop()
    assert ids(settings, "orders") == [1, 2, 3]
    assert ids(settings, READ) == []


def test_several_topics_are_one_table(tmp_path: Path) -> None:
    settings = settings_of("delta", tmp_path)
    joined = {"topics": "a,b", "transforms.short.regex": "[ab]", "transforms.short.replacement": "all"}
    with SinkHarness(TableSinkConnector, settings | ROUTED | joined) as sink:
        sink.put({"id": 1}, topic="a")
        sink.put({"id": 2}, topic="b")
        sink.put({"id": 3}, topic="a")
        assert sink.commit() == {TopicPartition("a", 0): 2, TopicPartition("b", 0): 1}
    assert ids(settings, "all") == [1, 2, 3]


class ByRest(Transformation):
    """Moves a record to t0, t1 or t2, by what it has."""

    def configure(self, configs: Any) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()

    def apply(self, record: Any) -> Any:
        return record.new_record(topic=f"t{record.value['id'] % 3}")


@pytest.mark.parametrize("seed", range(6))
def test_records_of_a_partition_that_go_to_several_tables_are_in_each_once_whenever_the_task_dies(
    tmp_path: Path, seed: int
) -> None:
    choice = random.Random(seed)
    waits = {"flush.ms": "600000", "flush.rows": str(choice.randrange(2, 7))}
    settings = settings_of(choice.choice(["parquet", "delta"]), tmp_path, **waits)
    moved = {"topics": "t", "transforms": "by", "transforms.by.type": f"{__name__}:ByRest"}
    sink = SinkHarness(TableSinkConnector, settings | moved).start()
    given = 0
    for _ in range(12):
        more = choice.randrange(1, 6)
        sink.put(*({"id": number} for number in range(given, given + more)))
        given += more
        if choice.random() < 0.4:
            sink.commit()
        if choice.random() < 0.4:
            sink.crash()
            sink.start()
            sink.deliver()
    sink.stop()
    assert [ids(settings, f"t{rest}") for rest in range(3)] == [list(range(rest, given, 3)) for rest in range(3)]


def test_offsets_that_are_reset_are_reset_in_the_table_of_the_new_name(tmp_path: Path) -> None:
    settings = settings_of("parquet", tmp_path) | ROUTED
    with SinkHarness(TableSinkConnector, settings) as sink:
        sink.put({"id": 1}, {"id": 2})
    TableSinkConnector().alter_offsets(settings, {TopicPartition(READ, 0): None})
    again = SinkHarness(TableSinkConnector, settings).start()
    again.put({"id": 1})
    again.stop()
    assert ids(settings, "orders") == [1, 1, 2]


def test_topics_that_a_config_may_lead_to() -> None:
    assert possible_topics(ROUTED, READ) == {READ, "orders"}
    assert possible_topics(ROUTED, "other") == {"other"}
    twice = {**ROUTED, "transforms": "c, short ,up", "transforms.c.type": "Cast$Value"}
    twice |= {"transforms.up.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    twice |= {"transforms.up.regex": "orders", "transforms.up.replacement": "ORDERS"}
    assert possible_topics(twice, READ) == {READ, "orders", "ORDERS"}
    with pytest.raises(ConnectError, match=r"by \(TimestampRouter\) may have moved records of t to other topics"):
        possible_topics({"transforms": "by", "transforms.by.type": "TimestampRouter"}, "t")


def test_a_table_that_somebody_else_wrote_to_is_no_reason_to_pass_records_by(tmp_path: Path) -> None:
    settings = settings_of("parquet", tmp_path) | ROUTED
    first = SinkHarness(TableSinkConnector, settings).start()
    first.put({"id": 1})
    other = SinkHarness(TableSinkConnector, settings).start()
    other.put({"id": 1}, {"id": 5}, {"id": 6})  # the table has the first of them
    with pytest.raises(ConnectError, match="another writer has committed since"):
        first.put({"id": 2})
    first.crash()
    other.stop()
    assert ids(settings, "orders") == [1, 5, 6]


def test_topics_whose_names_iceberg_cannot_tell_apart_are_not_mixed_unless_they_are_renamed(tmp_path: Path) -> None:
    settings = settings_of("iceberg", tmp_path) | {"errors.tolerance": "all"}
    reported = "Topics a-b and a_b would share table default.a_b: rename one with RegexRouter"
    config = settings | {"topics": "a-b,a_b"}
    found = [text for one in TableSinkConnector().validate(config).config_values for text in one.error_messages]
    assert [text.startswith(reported) for text in found] == [True]
    with SinkHarness(TableSinkConnector, settings | {"topics.regex": "a.*"}) as sink:
        sink.put({"id": 1}, topic="a-b")
        sink.put({"id": 2}, topic="a_b")
        assert [reported in str(one.error) for one in sink.errant] == [True]
    assert ids(settings, "a_b") == [1]
    routed = {"transforms.short.regex": "(.*)-(.*)", "transforms.short.replacement": "$1_$2"}
    with SinkHarness(TableSinkConnector, settings | ROUTED | routed | {"topics": "a-b,a_b", "name": "other"}) as sink:
        sink.put({"id": 3}, topic="a-b")
        sink.put({"id": 4}, topic="a_b")
    assert ids(settings, "a_b") == [1, 3, 4]
