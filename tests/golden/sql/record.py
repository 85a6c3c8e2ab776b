"""Records what Spark's SQL gives for each line of expressions.txt: `python tests/golden/sql/record.py > spark.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[2]))
from kit.sql_rows import ROWS, plain

_HERE = Path(__file__).parent


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    whole = spark.createDataFrame(ROWS)
    rows = [spark.createDataFrame(ROWS.slice(index, 1)).cache() for index in range(len(ROWS))]
    found = {}
    for line in (_HERE / "expressions.txt").read_text("utf-8").splitlines():
        if line.strip():
            found[line] = _answers(line, whole, rows)
    print(json.dumps({"spark": pyspark.__version__, "expressions": found}, indent=0, ensure_ascii=False))  # noqa: T201


def _answers(expression: str, whole: DataFrame, rows: list[DataFrame]) -> dict[str, Any]:
    """The type, and for each row the value; an error is a text that says which."""
    try:
        kind = whole.selectExpr(f"{expression} AS r").schema[0].dataType.simpleString()
    except Exception as error:
        return {"refused": _name_of(error)}
    try:
        return {"type": kind, "rows": _values(whole, expression)}
    except Exception:
        return {"type": kind, "rows": [_one(row, expression) for row in rows]}


def _one(row: DataFrame, expression: str) -> Any:
    try:
        return _values(row, expression)[0]
    except Exception as error:
        return f"ERROR {_name_of(error)}"


def _values(frame: DataFrame, expression: str) -> list[Any]:
    table = frame.selectExpr(f"{expression} AS r").toArrow()
    return [plain(value) for value in table["r"].to_pylist(maps_as_pydicts="strict")]


def _name_of(error: Exception) -> str:
    return str(error).strip().partition("]")[0].lstrip("[").partition("\n")[0][:60]


if __name__ == "__main__":
    main()
