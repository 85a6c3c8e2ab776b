"""How far sinks are behind: from committed offsets and the ends of logs, and when it is looked up."""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.model import PartitionLag, SinkLag, TopicPartition
from kconnect.runtime.herder.offsets.sink_lag import (
    lag_settings,
    listed_topics,
    matching_topics,
    sink_lag,
    starts_at_end,
)
from kconnect.runtime.herder.offsets.sink_lags import SinkLags
from kconnect.runtime.herder.queries.worker_metrics import LagWatch
from kconnect.runtime.metrics import prometheus_text

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_the_lag_is_what_stands_between_the_committed_offset_and_the_end() -> None:
    found = sink_lag({A0: 7, B0: 5}, [A0, A1], {A0: 0, A1: 2, B0: 0}, {A0: 10, A1: 6, B0: 5})
    assert found.partitions == (
        PartitionLag("a", 0, 7, 10, 3),
        PartitionLag("a", 1, None, 6, 4),
        PartitionLag("b", 0, 5, 5, 0),
    )
    assert (found.total, found.by_topic) == (7, {"a": 7, "b": 0})


def test_a_partition_without_an_offset_counts_from_where_its_tasks_will_start() -> None:
    assert sink_lag({}, [A0], {}, {A0: 10}).total == 0
    assert sink_lag({}, [A0], {A0: 4}, {A0: 10}).total == 6
    assert not starts_at_end({}, {})
    assert starts_at_end({"consumer.auto.offset.reset": "latest"}, {})
    assert not starts_at_end(
        {"consumer.auto.offset.reset": "latest"}, {"consumer.override.auto.offset.reset": "earliest"}
    )


def test_deleted_records_are_not_behind_and_an_offset_beyond_the_end_is_no_negative_lag() -> None:
    assert sink_lag({A0: 3}, [], {A0: 8}, {A0: 10}).total == 2
    assert sink_lag({A0: 30}, [], {A0: 8}, {A0: 10}).total == 0


def test_partitions_of_deleted_topics_are_left_out() -> None:
    assert sink_lag({A0: 3, B0: 1}, [], {A0: 0}, {A0: 10}).by_topic == {"a": 7}


def test_a_sinks_topics_are_those_it_lists_or_those_its_pattern_fits() -> None:
    assert listed_topics({"topics": "a, b,a,"}) == ["a", "b"]
    assert listed_topics({"topics.regex": "a.*"}) == []
    assert matching_topics({}, {"topics.regex": "a\\d+"}, ["a1", "a", "xa1", "a12"]) == ["a1", "a12"]
    assert matching_topics({}, {"topics.regex": "("}, ["a"]) == []
    assert matching_topics({}, {"topics": "a"}, ["a"]) == []


def test_only_what_says_where_offsets_are_is_looked_at() -> None:
    config = {"name": "n", "topics": "a", "connection.password": "secret", "consumer.override.group.id": "g"}
    assert lag_settings(config) == {"name": "n", "topics": "a", "consumer.override.group.id": "g"}


def test_a_lag_comes_back_from_json_as_it_was() -> None:
    for lag in (sink_lag({A0: 7}, [A1], {A1: 0}, {A0: 10, A1: 6}), SinkLag(problem="no rights")):
        assert SinkLag.from_json(lag.to_json()) == lag
    assert SinkLag(problem="no rights").to_json() == {"total": None, "partitions": [], "problem": "no rights"}


class _Lags:
    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.is_closed = False

    def read(self, sinks: Mapping[str, Mapping[str, str]]) -> dict[str, SinkLag]:
        self.reads.append(sorted(sinks))
        lag = sink_lag({A0: 7, A1: 1}, [], {}, {A0: 10, A1: 6})
        return {name: SinkLag(problem="no rights") if name == "refused" else lag for name in sinks}

    def close(self) -> None:
        self.is_closed = True


def test_all_sinks_are_looked_up_at_once_once_in_an_interval_and_when_one_comes() -> None:
    sinks: dict[str, dict[str, str]] = {}
    lags, into, now_s, away = _Lags(), SinkLags(), [0.0], [False]
    watch = LagWatch(lambda: sinks, lambda: lags, into, 30, lambda: away[0], lambda: now_s[0])
    watch.look()
    assert lags.reads == []  # a worker without sinks asks nobody
    sinks["one"] = {}
    for now_s[0] in (31, 35, 60):
        watch.look()
    assert lags.reads == [["one"]]
    sinks["two"] = {}
    for now_s[0] in (61, 62, 91):
        watch.look()
    assert lags.reads == [["one"], ["one", "two"], ["one", "two"]]
    del sinks["one"]
    now_s[0] = 122
    watch.look()
    assert lags.reads[-1] == ["two"]
    away[0], now_s[0] = True, 200
    watch.look()
    assert (len(lags.reads), into.readings({"two"})) == (4, [])  # old numbers are worse than none
    away[0] = False
    watch.look()
    assert into.readings({"two"})


def test_readings_are_of_sinks_that_are_here_and_of_which_the_lag_is_known() -> None:
    lags, into = _Lags(), SinkLags()
    LagWatch(lambda: {"here": {}, "refused": {}, "gone": {}}, lambda: lags, into, 30).look()
    text = prometheus_text(into.readings({"here", "refused", "source"}))
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'kafka_connect_sink_topic_metrics_lag_records{connector="here",topic="a"} 8',
        'kafka_connect_sink_topic_metrics_lag_records_max{connector="here",topic="a"} 5',
    ]
