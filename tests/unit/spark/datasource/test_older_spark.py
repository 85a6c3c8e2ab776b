"""pyspark 4.1 has no limits for streams that are read: what else the format does works there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kit.pace import ample_s

_WITHOUT_LIMITS = """
import importlib, sys
import pyspark.sql.datasource
sys.modules["pyspark.sql.streaming.datasource"] = None
importlib.import_module("kconnect.spark.datasource.{module}")
"""


@pytest.mark.parametrize(("module", "fails"), [("format", False), ("stream_reader", True)])
def test_only_streams_that_are_read_need_what_pyspark_4_2_has(module, fails):
    ended = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LIMITS.format(module=module)],
        capture_output=True,
        text=True,
        timeout=ample_s(60),
    )

    assert (ended.returncode != 0, "pyspark.sql.streaming.datasource" in ended.stderr) == (fails, fails)
