"""Spark's Python daemon with the imports of a slot already done: a slot forked from it begins 0.5 s sooner.

Runs as `spark.python.daemon.module`. Forking after these imports is safe as long as none of them starts a thread or
builds a client, which tests/integration/test_spark_slots.py checks.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

import pyspark.daemon

__all__ = ["MODULES", "preload"]

MODULES = (
    "orjson",
    "pyarrow",
    "pyarrow.compute",
    "kconnect.kafka",
    "kconnect.pipeline",
    "kconnect.pipeline.build",
    "kconnect.plugins",
    "kconnect.builtin.connectors",
    "kconnect.builtin.converters",
    "kconnect.builtin.transforms",
    "kconnect.spark.slot",
    "pyspark.worker",
)


def preload() -> None:
    """Import what slots need. A module that fails here fails again, and tells why, in the slot that needs it."""
    # The jemalloc in pyarrow would start a thread of its own as soon as it is loaded.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    for name in MODULES:
        try:
            importlib.import_module(name)
        except Exception as error:
            sys.stderr.write(f"{name} could not be imported ahead of the slots: {error}\n")
    gc.collect()
    gc.freeze()  # what stands now is never collected, so its pages stay shared between the daemon and its slots


if __name__ == "__main__":
    preload()
    pyspark.daemon.manager()
