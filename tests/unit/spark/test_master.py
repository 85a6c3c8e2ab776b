"""Where the master of a standalone cluster is, from `spark.master`."""

from __future__ import annotations

import threading

import pytest

from kconnect.spark.master import master_addresses, warn_while_queued
from kit.waiting import eventually


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("spark://m:7077", [("m", 7077)]),
        ("spark://a.example.com:7077,b.example.com:7078", [("a.example.com", 7077), ("b.example.com", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://m", []),
        ("spark://a:1,b", []),
        ("spark://", []),
        ("yarn", []),
        ("k8s://https://k:6443", []),
        ("local[2]", []),
        ("", []),
    ],
)
def test_masters_are_asked_where_spark_would_look_for_them(master, addresses):
    assert master_addresses(master) == addresses


def test_a_cluster_that_lets_an_application_wait_is_reported_of_until_it_begins(caplog):
    with warn_while_queued("yarn", 0.02):
        eventually(lambda: len(caplog.records) > 1, 5, "reported again and again")
    reported = len(caplog.records)
    assert "yarn has not started this worker's application" in caplog.messages[0]
    threading.Event().wait(0.1)
    assert len(caplog.records) == reported, "not once it has begun"
