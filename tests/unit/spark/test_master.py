"""Where the master of a standalone cluster is, from `spark.master`."""

from __future__ import annotations

import pytest

from kconnect.spark.master import master_addresses


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
