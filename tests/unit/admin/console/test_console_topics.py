"""Topics of a connector on a page: rows of partitions, and what is said where nobody can read records."""

from __future__ import annotations

import pytest

from kconnect.admin.console.pages.topics import PartitionRow, partition_rows
from kconnect.model import PartitionLag, SinkLag
from kit.memory_herder import MemoryHerder, file_source

SINK = {"connector.class": "FileStreamSink", "topics": "orders, payments", "file": "/out"}


@pytest.fixture
def herder():
    herder = MemoryHerder()
    herder.put_connector("source", file_source(), replace=True)
    herder.put_connector("sink", SINK, replace=True)
    return herder


def test_a_partition_is_of_one_moment_that_of_its_lag():
    lags = {0: PartitionLag("t", 0, 7, 9, 2), 2: PartitionLag("t", 2, None, 4, 4)}
    assert partition_rows({0: 12, 1: 5}, lags) == [
        PartitionRow(0, 9, 7, 2),
        PartitionRow(1, 5),
        PartitionRow(2, 4, None, 4),
    ]


def test_a_sink_shows_its_lag_also_where_this_listener_reads_no_records(console, herder):
    herder.lags["sink"] = SinkLag((PartitionLag("payments", 0, 7, 1009, 1002),))
    html = console.page("/ui/connectors/sink/topics?topic=payments")
    assert "This listener reads no records" in html
    assert '<td class="number">1,009</td><td class="number">7</td><td class="number">1,002</td>' in html
    assert "<b>1,002 behind</b>" in html
    assert "It has no records" not in html, "nobody has looked"


def test_topics_that_a_sink_names_are_shown_before_it_has_used_one(console):
    html = console.page("/ui/connectors/sink/topics")
    assert 'href="/ui/connectors/sink/topics?topic=orders" aria-current="true"' in html
    assert 'href="/ui/connectors/sink/topics?topic=payments"' in html


def test_a_source_that_has_used_no_topic_says_so_and_another_topic_is_no_page(console):
    assert "No topics used yet." in console.page("/ui/connectors/source/topics")
    refused = console.ask("GET", "/ui/connectors/sink/topics?topic=secrets")
    assert refused.status == 404
    assert "sink was not seen to use the topic secrets" in refused.body.decode()
