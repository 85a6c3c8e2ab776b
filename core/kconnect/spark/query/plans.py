"""Plans of Spark: whether a query keeps state from batch to batch."""

from __future__ import annotations

import re
from typing import Any, Final

_STATE: Final = re.compile(
    r"^[\s:+\-!'~]*(Aggregate|Deduplicate\w*|Distinct|TransformWith\w*|FlatMapGroups\w*|GlobalLimit)\b", re.MULTILINE
)
_JOIN: Final = re.compile(r"^[\s:+\-!'~]*Join\b", re.MULTILINE)
_STREAM: Final = re.compile(r"StreamingRelation\w*")


def has_state(rows: Any) -> bool:  # a streaming DataFrame
    """Whether its query remembers earlier records: aggregations, duplicates, joins of records with records."""
    return keeps_state(str(rows._jdf.queryExecution().analyzed().toString()))


def keeps_state(plan: str) -> bool:
    """The same, of an analyzed plan as text."""
    joins_itself = _JOIN.search(plan) is not None and len(_STREAM.findall(plan)) > 1
    return _STATE.search(plan) is not None or joins_itself
