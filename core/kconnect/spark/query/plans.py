"""Plans of Spark: whether a query keeps state from batch to batch, and what no batch alone can do. Pure."""

from __future__ import annotations

import re
from typing import Final

_NODE: Final = r"^[\s:+\-!'~]*"
_STATE: Final = re.compile(
    rf"{_NODE}(Aggregate|Deduplicate\w*|Distinct|TransformWith\w*|FlatMapGroups\w*|GlobalLimit)\b", re.MULTILINE
)
_JOIN: Final = re.compile(rf"{_NODE}Join\b", re.MULTILINE)
# What reads the topics: arrow_map.mapped, of which nothing else makes use in the plan of a user's query
_RECORDS: Final = re.compile(rf"{_NODE}MapInArrow\b", re.MULTILINE)
_WHOLE: Final = {
    "ORDER BY": re.compile(rf"{_NODE}Sort\b", re.MULTILINE),
    "A window function": re.compile(rf"{_NODE}Window\b", re.MULTILINE),
    "OFFSET": re.compile(rf"{_NODE}(Offset|Tail)\b", re.MULTILINE),
}


def keeps_state(plan: str) -> bool:
    """Whether a query remembers earlier records: aggregations, duplicates, joins of records with records.

    `plan`: analyzed, as text, of the query over one batch.
    """
    joins_itself = _JOIN.search(plan) is not None and len(_RECORDS.findall(plan)) > 1
    return _STATE.search(plan) is not None or joins_itself


def needs_all(plan: str) -> str | None:
    """What in a query without state makes sense for all records only, of which there is no end; None if nothing.

    Spark's streaming refuses the same.
    """
    return next((name for name, node in _WHOLE.items() if node.search(plan)), None)
