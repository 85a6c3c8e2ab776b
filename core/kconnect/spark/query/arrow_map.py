"""`mapInArrow` without pandas, which Spark's own asks for although nothing in it uses pandas."""

from __future__ import annotations

from typing import Any

from kconnect.spark.query.column_names import quoted


def mapped(rows: Any, run: Any, schema: Any) -> Any:  # DataFrames of Spark
    """What `run` makes of the rows of each Spark task: an iterator of record batches in, one out.

    `schema`: of what comes out, as text or StructType.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    of_batches = UserDefinedFunction(run, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = of_batches(*[rows[quoted(name)] for name in rows.columns])
    return DataFrame(rows._jdf.mapInArrow(columns._jc, False, None), rows.sparkSession)
