"""Whether a query keeps state, by its plan."""

from __future__ import annotations

import pytest

from kconnect.spark.query.topic_jobs import keeps_state, needs_all

RECORDS = "MapInArrow run(id#1L)#2, [id#0L], false"
JOIN = f"Project [id#0L]\n+- Join Inner, (id#0L = id#9L)\n   :- {RECORDS}\n   +- "


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        (f"Project [id#0L]\n+- Filter (id#0L > 1)\n   +- {RECORDS}", False),
        (f"Aggregate [count(1) AS n#3L]\n+- {RECORDS}", True),
        (f"Project [n#3L]\n+- Distinct\n   +- {RECORDS}", True),
        (JOIN + "Relation spark_catalog.default.names[id#9L] parquet", False),
        (JOIN + RECORDS, True),
    ],
)
def test_aggregations_and_joins_of_records_with_records_keep_state(plan: str, state: bool) -> None:
    assert keeps_state(plan) is state


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (f"Project [id#0L]\n+- Filter (id#0L > 1)\n   +- {RECORDS}", None),
        (f"Sort [id#0L ASC NULLS FIRST], true\n+- {RECORDS}", "ORDER BY"),
        (f"Project [n#3]\n+- Window [row_number() AS n#3]\n   +- {RECORDS}", "A window function"),
    ],
)
def test_what_makes_sense_for_all_records_only_is_found(plan: str, what: str | None) -> None:
    assert needs_all(plan) == what
