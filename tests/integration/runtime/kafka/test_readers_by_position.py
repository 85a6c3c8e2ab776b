"""Who reads a topic by position, and not as a member of a group: the same records, gaps and sentences for all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kconnect.errors import NotFoundError
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import RangeConsumer
from kconnect.runtime.kafka.consumed_records import RECORDS
from kconnect.runtime.kafka.partition_reader import LOG, Form, PartitionReader
from kit.shared_broker import SharedBroker
from kit.topics import create_topic, open_transaction, produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_WITHIN_S = 60.0
Read = Callable[[dict[str, Any], str, int, int], list[tuple[int, bytes | None]]]


def by_form(form: Form[Any]) -> Read:
    def read(config: dict[str, Any], topic: str, begin: int, end: int) -> list[tuple[int, bytes | None]]:
        with closing(PartitionReader(topic, config, form)) as reader:
            reader.open({0: begin})
            found = [each for some in reader.read_to({0: end}, 3, 0.5, _WITHIN_S, "a setting") for each in some]
            assert reader.reached[0] >= end
        return [(each.offset, each.value) for each in found]

    return read


def by_range(config: dict[str, Any], topic: str, begin: int, end: int) -> list[tuple[int, bytes | None]]:
    with closing(RangeConsumer({**config, "group.id": "g", "isolation.level": "read_committed"}, "test")) as reader:
        runs = list(reader.read(TopicPartition(topic, 0), begin, end, 3, _WITHIN_S))
    return [pair for run in runs for pair in zip(run.offsets, run.values, strict=True)]


@pytest.fixture
def gaps(broker: SharedBroker, topic: str) -> dict[str, Any]:
    """0 to 4 are lines, of which retention has 0 and 1; 5 was aborted, 6 is its marker, 7 and 8 are lines."""
    produce_lines(broker.bootstrap, topic, [f"line {number}" for number in range(5)])
    with open_transaction(broker.bootstrap, topic, b"k"):
        pass
    produce_lines(broker.bootstrap, topic, ["line 7", "line 8"])
    client = AdminClient({"bootstrap.servers": broker.bootstrap})  # must live until the answer is there
    for done in client.delete_records([ClientPartition(topic, 0, 2)]).values():
        done.result(_WITHIN_S)
    return {"bootstrap.servers": broker.bootstrap}


@pytest.mark.parametrize("read", [by_form(LOG), by_form(RECORDS), by_range], ids=["a log", "records", "a range"])
def test_a_range_is_read_over_markers_and_what_was_aborted(gaps: dict[str, Any], topic: str, read: Read) -> None:
    def lines(*numbers: int) -> list[tuple[int, bytes]]:
        return [(number, b"line %d" % number) for number in numbers]

    assert read(gaps, topic, 2, 9) == lines(2, 3, 4, 7, 8)
    assert read(gaps, topic, 3, 4) == lines(3)
    assert read(gaps, topic, 5, 7) == [], "nothing but what was aborted, and its marker"
    assert read(gaps, topic, 0, 4) == lines(2, 3), "what retention has is missing"


@pytest.mark.parametrize("begin", [0, 1000])
@pytest.mark.parametrize("form", [LOG, RECORDS], ids=["a log", "records"])
def test_a_lost_place_is_reported_in_one_sentence_and_read_from_the_first_record(
    gaps: dict[str, Any], topic: str, form: Form[Any], begin: int
) -> None:
    reported: list[str] = []
    found: list[int] = []
    with closing(PartitionReader(topic, gaps, form, tell=reported.append)) as reader:
        reader.open({0: begin})

        def is_read() -> bool:
            found.extend(each.offset for each in reader.read(100, 0.5))
            return found[-1:] == [8]

        eventually(is_read, _WITHIN_S, "all records")
    assert found == [2, 3, 4, 7, 8]
    (sentence,) = reported
    assert sentence.startswith(f"{topic}-0: offset {begin} is gone (the topic was deleted, or its records were: ")


@pytest.mark.parametrize("form", [LOG, RECORDS], ids=["a log", "records"])
def test_partitions_are_those_of_the_topic_and_a_missing_topic_is_named_with_its_like(
    broker: SharedBroker, request: pytest.FixtureRequest, topic: str, form: Form[Any]
) -> None:
    config = {"bootstrap.servers": broker.bootstrap}
    create_topic(broker.bootstrap, f"{topic}-of-three", partitions=3)
    with closing(PartitionReader(f"{topic}-of-three", config, form)) as reader:
        assert reader.partitions(_WITHIN_S) == [0, 1, 2]
        assert reader.partitions(_WITHIN_S, "config.storage.topic", is_awaited=True) == [0, 1, 2]
    with closing(PartitionReader(f"{topic}-of-thre", config, form)) as reader:
        with pytest.raises(NotFoundError, match=r"does not exist\.$") as refused:
            reader.partitions(_WITHIN_S)
        assert f"{topic}-of-three" in str(refused.value.hint)
        with pytest.raises(NotFoundError, match=r"after 0\.2 s \(config\.storage\.topic\)"):
            reader.partitions(0.2, "config.storage.topic", is_awaited=True)
