"""Whether a query keeps state, by its plan."""

from __future__ import annotations

import pytest

from kconnect.spark.query.plans import keeps_state

STREAM = (
    "StreamingRelationV2 org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2, kconnect-x, [id#0L]"
)
JOIN = f"Project [id#0L]\n+- Join Inner, (id#0L = id#9L)\n   :- {STREAM}\n   +- "


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        (f"Project [id#0L]\n+- Filter (id#0L > 1)\n   +- {STREAM}", False),
        (f"Aggregate [count(1) AS n#3L]\n+- {STREAM}", True),
        (f"Project [n#3L]\n+- Distinct\n   +- {STREAM}", True),
        (JOIN + "Relation spark_catalog.default.names[id#9L] parquet", False),
        (JOIN + STREAM, True),
    ],
)
def test_aggregations_and_joins_of_records_with_records_keep_state(plan: str, state: bool) -> None:
    assert keeps_state(plan) is state
