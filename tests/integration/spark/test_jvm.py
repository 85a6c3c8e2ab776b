"""Spark's JVM where Java lacks a part: what it says, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.spark.jvm import Jvm
from kit.pace import ample_s

pytestmark = pytest.mark.spark


def test_a_java_without_a_module_is_named_with_it(tmp_path: Path) -> None:
    """As a Java runtime that was made small: Spark asks for jdk.incubator.vector, which it leaves out."""
    jvm = Jvm(tmp_path)
    jvm.start({"spark.master": "local[1]"}, "--add-modules=jdk.left.out", {})
    try:
        with pytest.raises(EnvironmentProblemError, match=r"this Java has no module jdk\.left\.out") as caught:
            jvm.connect(ample_s(30))
    finally:
        jvm.stop(ample_s(10))
    assert "set JAVA_HOME" in (caught.value.hint or "")
