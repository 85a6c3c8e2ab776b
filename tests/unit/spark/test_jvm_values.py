"""What a call to Spark's JVM loads into this process for the sake of its arguments."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from kconnect.spark.jvm import ask_with_numpy_alone

_CALL = """
import sys
import pyspark.java_gateway
from py4j.protocol import INPUT_CONVERTER
from kconnect.spark.jvm import ask_with_numpy_alone

ask_with_numpy_alone()
assert not any(converter.can_convert("orders") for converter in INPUT_CONVERTER)
print(sorted({"pyspark.testing", "pyarrow"} & set(sys.modules)))
"""


def test_a_text_for_the_jvm_loads_neither_tests_of_spark_nor_arrow() -> None:
    done = subprocess.run([sys.executable, "-c", _CALL], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_values_are_looked_at_once_somebody_has_imported_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import types

    asked: list[object] = []

    class Converter:
        def can_convert(self, value: object) -> bool:
            asked.append(value)
            return True

    for name in ("NumpyScalarConverter", "NumpyArrayConverter"):
        monkeypatch.setattr(types, name, type(name, (Converter,), {}))
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    ask_with_numpy_alone()
    ask_with_numpy_alone()
    assert not types.NumpyScalarConverter().can_convert(1)
    monkeypatch.setitem(sys.modules, "numpy", ModuleType("numpy"))
    assert types.NumpyScalarConverter().can_convert(2)
    assert types.NumpyArrayConverter().can_convert(3)
    assert asked == [2, 3]
